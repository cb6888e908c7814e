"""`gg-datalog capture`, and what the other commands make of its case."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

PROGRAM = '''
import torch
import torch.distributed as dist
from torch import nn

class Row(nn.Module):
    """x @ w, rows of w over the ranks."""
    def __init__(self, rank, world, forget):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8 // world, 4))
        self.world, self.forget = world, forget

    def forward(self, x):
        y = x @ self.weight
        if self.world > 1 and not self.forget:
            dist.all_reduce(y)
        return y.relu().sum()

def columns(rank, world):
    return (torch.ones(3, 8 // world),)

def good():
    return lambda rank, world: Row(rank, world, False), columns

def bad():
    return {"build": lambda rank, world: Row(rank, world, True), "make_inputs": columns,
            "mode": "eager", "jobs": 0, "world_size": 2}
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the programs, which is the current one."""
    (tmp_path / "captured_programs.py").write_text(PROGRAM)
    (tmp_path / "relations.toml").write_text(
        '[[relation]]\nname = "weight"\nplacement = "shard(0)"\n'
        '[[relation]]\nname = "x"\nplacement = "shard(1)"\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("captured_programs", None)


def test_from_program_to_verdict(folder: Path, cli: Any) -> None:
    done = cli(
        "capture", "captured_programs:good", "--world-size", 2, "-o", "case", "--mode", "eager",
        "--backward", "--jobs", 2, "--relations", "relations.toml",
    )  # fmt: skip
    assert (done.status, done.out) == (0, "")
    lines = [line for line in done.err.splitlines() if "operators" in line]
    assert [line.partition(":")[0] for line in lines] == [
        "the sequential program",
        "rank 0",
        "rank 1",
    ]
    assert "1 collectives" in lines[1] and "0 collectives" in lines[0]
    about = json.loads((folder / "case" / "capture.json").read_text())
    assert about["assumptions"] == []  # all is declared
    manifest = json.loads((folder / "case" / "manifest.json").read_text())
    assert manifest["kind"] == "case" and manifest["route"] == "eager"
    assert cli("extract", "case", "-o", "facts").status == 0
    run = cli("run", "facts", "--format", "json")
    report = json.loads(run.out)
    assert (run.status, report["verdict"]) == (0, "refines")
    assert [row["name"] for row in report["outputs"]] == ["output", "grad_weight"]
    replay = cli("replay", "case")
    assert replay.status == 0


def test_a_mistake_is_found(folder: Path, cli: Any) -> None:
    done = cli("capture", "captured_programs.py:bad", "--world-size", 2, "-o", "case")
    assert (done.status, done.out) == (0, "")
    assert cli("extract", "case", "-o", "facts").status == 0
    run = cli("run", "facts")
    assert run.status == 1
    assert "GG108" in run.out
    assert "captured_programs.py:14 in forward: y = x @ self.weight" in run.out, run.out


@pytest.fixture
def captured(folder: Path, cli: Any) -> Any:
    """Captures into a folder, in this process."""
    return lambda case, *more: cli(
        "capture", "captured_programs:bad", "--world-size", 2, "-o", case, *more
    )


def test_a_case_is_replaced(folder: Path, captured: Any) -> None:
    assert captured("case").status == 0
    assert captured("case", "--ranks", "1").status == 0
    assert sorted(p.name for p in (folder / "case").glob("dist.*")) == ["dist.r1.json"]
    assert [p.name for p in folder.iterdir() if p.name.startswith(".case")] == []


def test_a_failure_leaves_the_case_there_is(folder: Path, captured: Any) -> None:
    assert captured("case").status == 0
    before = (folder / "case" / "capture.json").read_text()
    assert captured("case", "--ranks", "5").status == 2
    assert (folder / "case" / "capture.json").read_text() == before


def test_another_folder_is_refused(folder: Path, captured: Any) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.tex").write_text("x")
    (folder / "file").write_text("x")
    for name in ("mine", "file"):
        done = captured(name)
        assert (done.status, done.out) == (2, "") and done.err.startswith("error: ")
        assert "operators" not in done.err  # before anything is captured
    assert [p.name for p in (folder / "mine").iterdir()] == ["thesis.tex"]


def test_help(cli: Any) -> None:
    done = cli("capture", "--help")
    assert done.status == 0 and "MODULE:FUNCTION" in done.out
    for name in (
        "--world-size",
        "--mode",
        "--backward",
        "--ranks",
        "--relations",
        "--jobs",
        "--out",
    ):
        assert name in done.out


@pytest.mark.parametrize(
    "arguments", [["--world-size", "0"], ["--mode", "compile"], ["--jobs", "-1"], ["--ranks"]]
)
def test_usage(arguments: list[str], folder: Path, cli: Any) -> None:
    done = cli("capture", "captured_programs:bad", "-o", "case", *arguments)
    assert (done.status, done.out) == (2, "") and "Traceback" not in done.err
    assert not (folder / "case").exists()
