"""What goes to another machine, and comes back: nothing is read from the disk it was on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gg_datalog.audit import ray_node
from gg_datalog.audit.limits import Limits
from gg_datalog.audit.shipping import archived, laid, modules, moved, needed
from gg_datalog.cli import cli
from gg_datalog.foundation.errors import InputError

CASES = Path(__file__).resolve().parents[2] / "examples" / "tp_block"
PROGRAM = """
import torch
from helper import Twice

def pair(rows):
    return lambda rank, ranks: Twice(), lambda: (torch.zeros(rows, 4),)
"""
HELPER = """
from torch import nn

class Twice(nn.Module):
    def forward(self, x):
        return x + x
"""


def names(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def check(kind: str, place: Path, **run: Any) -> dict[str, Any]:
    return {"does": "check", "kind": kind, "place": str(place), "run": run}


def test_of_a_case_only_what_is_read_is_sent(tmp_path: Path) -> None:
    case, root = tmp_path / "case", tmp_path / "there"
    shutil.copytree(CASES / "case", case)
    (case / "weights.bin").write_bytes(b"0" * 100)
    (case / "old").mkdir()
    table = tmp_path / "more.toml"
    table.write_text("")
    task = check("case", case, operators=[str(table)])
    laid(archived(needed(task)), root)
    there = moved(task, root, root)
    assert Path(there["place"], "seq.json").read_bytes() == (case / "seq.json").read_bytes()
    assert "weights.bin" not in names(Path(there["place"]))
    assert there["run"]["operators"] == [f"{root}{table}"] and Path(f"{root}{table}").is_file()


def test_what_is_no_case_is_sent_to_be_refused_there(tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "seq.json").write_text("{")
    assert [path.name for path in needed(check("case", tmp_path / "case"))] == ["seq.json"]


def test_facts_find_their_graphs(tmp_path: Path) -> None:
    shutil.copytree(CASES / "case", tmp_path / "case")
    facts, root = tmp_path / "facts", tmp_path / "there"
    CliRunner().invoke(cli, ["extract", str(tmp_path / "case"), "-o", str(facts)])
    laid(archived(needed(check("facts", facts))), root)
    place = Path(moved(check("facts", facts), root, root)["place"])
    shutil.rmtree(tmp_path / "case")
    done = CliRunner().invoke(cli, ["replay", str(place)])
    assert done.exit_code == 0, done.output


def test_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    shutil.copytree(CASES / "case", tmp_path / "case")
    paths = needed(check("case", tmp_path / "case"))
    first = archived(paths)
    (tmp_path / "case" / "seq.json").touch()
    assert archived(reversed(paths)) == first
    (tmp_path / "case" / "seq.json").write_text("{}")
    assert archived(paths) != first


def test_hidden_files_and_audits_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.py", "b/c.py", ".git/x", "__pycache__/y", "out/z", "other/audit.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    found = {p.relative_to(tmp_path).as_posix() for p in modules([str(tmp_path)], tmp_path / "out")}
    assert found == {"a.py", "b/c.py"}
    monkeypatch.setattr("gg_datalog.audit.shipping.MOST", 7)
    with pytest.raises(InputError, match="too much"):
        list(modules([str(tmp_path)], tmp_path / "out"))


def test_a_program_runs_where_its_folder_is_not(tmp_path: Path) -> None:
    """Captured from its modules alone, then checked; paths are those of where it came from."""
    pytest.importorskip("torch", reason="capture traces programs with torch")
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    out.mkdir()
    (home / "model.py").write_text(PROGRAM)
    (home / "helper.py").write_text(HELPER)
    sent = archived(modules([str(home)], out))
    shutil.rmtree(home)
    settings = {
        "captures": True, "preload": [], "path": [str(home)], "mark": str(tmp_path),
        "expected": ray_node.expected({"clingo": None}, True),
    }  # fmt: skip
    capture = {
        "does": "capture", "id": 1, "source": "model:pair", "home": str(home), "optional": [],
        "arguments": {"rows": 8}, "capture": {"world_size": 2}, "limits": Limits().document(),
    }  # fmt: skip
    try:
        got = ray_node.work(settings, capture, archived([]), sent)
        assert got["record"]["status"] == "captured", got
        assert set(got["record"]["sources"]["files"]) == {f"{home}/model.py", f"{home}/helper.py"}
        case = out / "case.tar.gz"
        case.write_bytes(got["files"][got["record"]["files"]["case"]])
        run = {"engine": "clingo"}
        judge = {**check("case", case, **run), "id": 2, "key": "k", "keep": "facts", "reading": {},
                 "replayable": "CASE", "limits": Limits().document()}  # fmt: skip
        told = ray_node.work(settings, judge, archived(needed(judge)), sent)
        assert told["record"]["status"] == "refines", told
        assert set(told["files"]) == {"kept.parquet", "page.html"}
        settings["expected"] |= {"rules": "others"}
        assert "another rules" in ray_node.work(settings, judge, b"", sent)["refused"]
    finally:
        ray_node._pool.cache_clear()
