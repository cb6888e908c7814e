"""An audit of a few cases: run, known the second time, asked, reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
from click.testing import CliRunner, Result

from gg_datalog.cli import cli

CASES = Path(__file__).resolve().parents[2] / "examples" / "tp_block"


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["audit", *map(str, arguments)])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    home = tmp_path_factory.mktemp("audit")
    for name, case in (("good", "case"), ("same", "case"), ("bad", "case-missing-all-reduce")):
        shutil.copytree(CASES / case, home / "cases" / name)
    (home / "cases" / "none").mkdir()
    (home / "cases" / "none" / "seq.json").write_text("{")
    (home / "cases" / "none" / "dist.r0.json").write_text("{")
    return home, audit(home / "cases", "-o", home / "out", "--jobs", 2)


def test_every_item_ends_as_itself(done: tuple[Path, Result]) -> None:
    home, ran = done
    assert ran.exit_code == 1, ran.output
    sql = "SELECT item, status FROM items"
    rows = json.loads(audit("query", home / "out", "--sql", sql, "--format", "json").output)
    assert {row["item"]: row["status"] for row in rows} == {
        "good": "refines", "same": "refines", "bad": "does-not-refine", "none": "malformed"
    }  # fmt: skip


def test_nothing_is_run_twice(done: tuple[Path, Result]) -> None:
    home, _ = done
    assert audit(home / "cases", "-o", home / "out").exit_code == 1
    lines = (home / "out" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    started = [event["item"] for event in events if event["event"] == "started"]
    assert sorted(started) in (["bad", "good", "none"], ["bad", "none", "same"])


@pytest.mark.parametrize(
    "name", ["summary", "by_cause", "by_configuration", "unsupported", "slowest", "changes"]
)
def test_shipped_queries_run(name: str, done: tuple[Path, Result]) -> None:
    found = audit("query", done[0] / "out", name)
    assert found.exit_code == 0, found.output


def test_junit_has_a_case_for_each_item(done: tuple[Path, Result]) -> None:
    home, _ = done
    audit("report", home / "out", "--report", f"junit={home / 'j.xml'}")
    suite = xml.parse(home / "j.xml").getroot()[0]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("4", "2")
