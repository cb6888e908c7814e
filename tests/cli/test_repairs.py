"""Repairs on the command line: shown, left out, and never in the way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ..command import Cli
from .build import documents, write_case

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tp_block" / "case-missing-all-reduce"
GOOD = EXAMPLE.with_name("case")
TEXT = (
    "all-reduce (sum) over ranks 0-1 after `mm` (examples/tp_block/model.py:87): "
    "with it `add_1` is rebuilt"
)


def extracted(cli: Cli, case: Path, facts: Path) -> Path:
    """The facts of a case."""
    assert cli("extract", case, "-o", facts).status == 0
    return facts


def ran(cli: Cli, facts: Path, *options: object) -> tuple[int, Any]:
    """Exit status and report."""
    found = cli("run", facts, "--format", "json", "--engine", "clingo", *options)
    return found.status, found.report


def apart_from_repairs(report: Any) -> Any:
    """The report without repairs, and without how long everything took."""
    report = json.loads(json.dumps(report))
    for finding in report["findings"]:
        finding["repair"] = None
    del report["stats"]["seconds"]
    return report


def test_the_report_shows_the_repair(cli: Cli, tmp_path: Path) -> None:
    facts = extracted(cli, EXAMPLE, tmp_path / "facts")
    found = cli("run", facts, "--engine", "clingo")
    assert f"      repair: {TEXT}\n" in found.out
    kept = json.loads((facts / "result" / "report.json").read_text("utf-8"))
    assert kept["findings"][0]["repair"] == {
        "text": TEXT,
        "action": "all_reduce",
        "nodes": ["r0.mm", "r1.mm"],
        "ranks": [0, 1],
        "factor": None,
        "tried": True,
        "outputs": ["add_1"],
    }


def test_repairs_change_nothing_else(cli: Cli, tmp_path: Path) -> None:
    facts = extracted(cli, EXAMPLE, tmp_path / "facts")
    before = {path: path.read_bytes() for path in EXAMPLE.iterdir()}
    status, report = ran(cli, facts)
    other, without = ran(cli, facts, "--no-repairs")
    assert status == other == 1
    assert report["findings"][0]["repair"] is not None
    assert without["findings"][0]["repair"] is None
    assert "try repairs" not in without["stats"]["seconds"]
    assert apart_from_repairs(report) == apart_from_repairs(without)
    assert {path: path.read_bytes() for path in EXAMPLE.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["facts"]


def test_nothing_is_tried_where_all_is_well(
    cli: Cli, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gg_datalog.repairs.search.with_repairs", None)
    assert ran(cli, extracted(cli, good, tmp_path / "facts"))[0] == 0


@pytest.mark.parametrize("which", ["all", "one rank"])
def test_graphs_that_are_gone(cli: Cli, bad: Path, tmp_path: Path, which: str) -> None:
    facts = extracted(cli, bad, tmp_path / "facts")
    if which == "all":
        shutil.rmtree(bad)
    else:
        (bad / "dist.r1.json").unlink()
    status, report = ran(cli, facts)
    assert status == 1
    assert [f["repair"] for f in report["findings"]] == [None]


def test_graphs_that_are_others_by_now(cli: Cli, tmp_path: Path) -> None:
    """What another program would make of a repair says nothing of the one that was run."""
    case = shutil.copytree(EXAMPLE, tmp_path / "case")
    facts = extracted(cli, case, tmp_path / "facts")
    for path in GOOD.iterdir():
        shutil.copyfile(path, case / path.name)
    status, report = ran(cli, facts)
    assert status == 1
    assert [f["repair"] for f in report["findings"]] == [None]


def test_outputs_that_were_declared_partial_stay_so(cli: Cli, tmp_path: Path) -> None:
    files = documents(reduced=False)
    nodes = files["dist.r0"]["nodes"]
    for name in ("dist.r0", "dist.r1", "seq"):
        end = files[name]["nodes"][-1]
        end["args"] = [[{"node": "y"}, {"node": "mm"}]]
    assert nodes[-1]["args"] == [[{"node": "y"}, {"node": "mm"}]]
    files["outputs"] = [{"seq": "y", "dist": "y"}, {"seq": "mm", "dist": "mm"}]
    facts = extracted(cli, write_case(tmp_path / "case", files), tmp_path / "facts")
    status, report = ran(cli, facts, "--allow-partial", "mm")
    assert status == 1
    (repair,) = [f["repair"] for f in report["findings"]]
    assert repair["outputs"] == ["y"]
