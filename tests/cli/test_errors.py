"""Malformed input: one clear message, exit 2, nothing left half written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import gg_datalog

from .build import Cli, Outcome, documents

MakeCase = Callable[[Mapping[str, Any]], Path]
Change = Callable[[dict[str, Any]], None]


def refused(found: Outcome, *words: str) -> None:
    """One message that holds these words, nothing on stdout, exit 2."""
    assert (found.status, found.out) == (2, "")
    assert "Traceback" not in found.err
    for word in words:
        assert word in found.err


def _node(files: dict[str, Any], name: str, /, **fields: object) -> None:
    for row in files["dist.r0"]["nodes"]:
        if row["name"] == name:
            row.update(fields)


CHANGES: dict[str, tuple[Change, str]] = {
    "no nodes": (lambda f: f.update({"seq": {}}), "not a graph"),
    "unknown operand": (lambda f: _node(f, "y", args=[{"node": "gone"}]), "`gone`"),
    "cycle": (lambda f: _node(f, "mm", args=[{"node": "y"}, {"node": "w"}]), "cyclic"),
    "twice the name": (lambda f: _node(f, "w", name="x"), "two nodes are called `x`"),
    "bad op": (lambda f: _node(f, "mm", op="call_module"), "call_module"),
    "bad shape": (lambda f: _node(f, "mm", shape=[-1, 5]), "-1"),
    "shapes do not add up": (lambda f: _node(f, "mm", shape=[4, 6]), "`mm`"),
    "too large": (lambda f: _node(f, "mm", shape=[3000000000, 5]), "3000000000"),
    "unknown group": (lambda f: f.update({"groups": {"seq": [], "dist": []}}), "group"),
    "unknown input": (lambda f: f["relations"][0].update(seq="gone"), "`gone`"),
    "box outside": (lambda f: f["relations"][0].update(seq_box=[[0, 4], [5, 8]]), "outside"),
    "contradiction": (
        lambda f: f["relations"].append({**f["relations"][0], "seq_box": [[0, 4], [3, 6]]}),
        "hold both",
    ),
    "no outputs": (lambda f: f.update({"outputs": []}), "no output"),
    "unknown output": (lambda f: f["outputs"][0].update(seq="gone"), "`gone`"),
    "not returned": (lambda f: f["outputs"][0].update(dist="mm"), "does not return"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_malformed_case(cli: Cli, make_case: MakeCase, tmp_path: Path, name: str) -> None:
    change, word = CHANGES[name]
    files = documents()
    change(files)
    case = make_case(files)
    refused(cli("extract", case, "-o", tmp_path / "facts"), "error:", word)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["case"]


def test_files_that_are_no_json(cli: Cli, good: Path, tmp_path: Path) -> None:
    (good / "seq.json").write_text("{")
    refused(cli("extract", good, "-o", tmp_path / "facts"), "not JSON", "seq.json:1:")
    (good / "seq.json").unlink()
    refused(cli("extract", good, "-o", tmp_path / "facts"), "seq.json not found")
    refused(cli("extract", tmp_path / "none", "-o", tmp_path / "facts"), "no such case folder")


@pytest.mark.parametrize(
    "arguments",
    [
        ["extract"],
        ["extract", "-o", "facts"],
        ["extract", "case", "--seq", "seq.json", "-o", "facts"],
        ["run"],
        ["run", "facts", "--engine", "prolog"],
        ["run", "facts", "--timeout", "0"],
        ["query"],
        ["query", "result"],
        ["query", "result", "frontier", "--sql", "SELECT 1"],
        ["unknown"],
        [],
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str]) -> None:
    assert cli(*arguments).status == 2


def test_a_folder_of_somebody_else_is_left_alone(cli: Cli, good: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("irreplaceable")
    refused(cli("extract", good, "-o", mine), "not empty", "another folder")
    assert [p.name for p in mine.iterdir()] == ["thesis.txt"]
    facts = tmp_path / "facts"
    assert cli("extract", good, "-o", facts).status == 0
    refused(cli("run", facts, "-o", facts, "--engine", "clingo"), "holds no result")
    refused(cli("run", facts, "-o", mine / "thesis.txt", "--engine", "clingo"), "there is a file")
    assert cli("extract", good, "-o", facts).status == 0


@pytest.fixture
def facts(cli: Cli, good: Path, tmp_path: Path) -> Path:
    """A facts folder."""
    folder = tmp_path / "facts"
    assert cli("extract", good, "-o", folder).status == 0
    return folder


def _manifest(folder: Path, **fields: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def _rewrite(folder: Path, name: str, table: pa.Table) -> None:
    parquet.write_table(table, folder / f"{name}.parquet")


def _read(folder: Path, name: str) -> pa.Table:
    return parquet.read_table(folder / f"{name}.parquet")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "no manifest.json"),
    "no json": (lambda f: (f / "manifest.json").write_text("{"), "cannot be read"),
    "a result": (lambda f: _manifest(f, kind="result"), "not that of a facts folder"),
    "other version": (lambda f: _manifest(f, schema_version=99), "schema version 99"),
    "other format": (lambda f: _manifest(f, format="pickle"), "pickle"),
    "no relation": (lambda f: (f / "wanted.parquet").unlink(), "wanted is missing"),
    "no parquet": (lambda f: (f / "wanted.parquet").write_text("x"), "not a Parquet file"),
    "other relation": (lambda f: _rewrite(f, "wanted", _read(f, "returned")), "'returned'"),
    "other columns": (
        lambda f: _rewrite(f, "wanted", _read(f, "wanted").select(["wants", "of"])),
        "the columns are",
    ),
    "other rows": (lambda f: _rewrite(f, "wanted", _read(f, "wanted").slice(1)), "has 0 rows"),
    "no metadata": (
        lambda f: _rewrite(f, "wanted", _read(f, "wanted").replace_schema_metadata()),
        "holds relation ''",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_facts(cli: Cli, facts: Path, name: str) -> None:
    damage, word = DAMAGE[name]
    damage(facts)
    refused(cli("run", facts, "--engine", "clingo"), word)
    assert not (facts / "result").exists()


def test_facts_without_outputs(cli: Cli, facts: Path) -> None:
    for name in ("wanted", "returned", "output_name"):
        table = _read(facts, name)
        _rewrite(facts, name, table.slice(0, 0))
    counts = json.loads((facts / "manifest.json").read_text())["relations"]
    _manifest(facts, relations={**counts, "wanted": 0, "returned": 0, "output_name": 0})
    refused(cli("run", facts, "--engine", "clingo"), "no outputs")


def test_a_time_limit(cli: Cli, facts: Path) -> None:
    refused(cli("run", facts, "--engine", "clingo", "--timeout", "0.001"), "error:")
    assert not (facts / "result").exists()


def test_souffle_where_there_is_none(
    cli: Cli, facts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    refused(cli("run", facts, "--engine", "souffle"), "no souffle", "--engine clingo")


@pytest.mark.parametrize("debug", ["", "1"])
def test_what_should_not_happen(
    cli: Cli, facts: Path, monkeypatch: pytest.MonkeyPatch, debug: str
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setenv("GG_DATALOG_DEBUG", debug)
    monkeypatch.setattr("gg_datalog.running.create", fail)
    found = cli("run", facts, "--engine", "clingo")
    assert found.status == 2
    assert "please report" in found.err
    assert ("Traceback" in found.err) == bool(debug)
    assert not (facts / "result").exists()
    assert not [p for p in facts.parent.iterdir() if p.name.startswith(".")]


def test_as_a_module() -> None:
    root = str(Path(gg_datalog.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    for arguments, status in (["--version"], 0), (["nonsense"], 2):
        command = [sys.executable, "-m", "gg_datalog", *arguments]
        found = subprocess.run(command, capture_output=True, env=environment, check=False)
        assert found.returncode == status


def test_help_imports_nothing_heavy() -> None:
    root = str(Path(gg_datalog.__file__).parents[1])
    code = (
        f"import sys; sys.path.insert(0, {root!r}); import gg_datalog.cli;"
        "print([m for m in ('pyarrow', 'duckdb', 'clingo', 'lark', 'rich') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"
