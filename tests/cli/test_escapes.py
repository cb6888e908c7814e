"""Names come from files and may hold anything: nothing of it reaches a terminal as it is."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unicodedata import category
from xml.etree import ElementTree

import pytest

import gg_datalog

from ..command import Cli, Outcome
from .build import documents, write_case
from .renaming import renamed

ROOT = Path(gg_datalog.__file__).parents[1]
# Moves the cursor (twice), turns the direction of writing, has no width; a line of its own.
UNSEEN = "\x9b2J\u202e\u200b\u2066"
CONTROL = "\x1b[2J\nREFINES\r\x07" + UNSEEN
FORMATS = ("json", "sarif", "junit", "github", "markdown", "html")


def seen(text: str) -> str:
    """The text, of which a terminal shows all as it is written."""
    odd = [
        char for char in text if char != "\n" and category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]
    assert not odd, (odd, text)
    return text


def one_message(found: Outcome) -> str:
    """One error, with a hint at most, that a terminal can show."""
    lines = seen(found.err).splitlines()
    assert found.status == 2 and not found.out
    assert len(lines) <= 2 and lines[0].startswith("error: ") and not lines[-1].startswith("REF")
    assert "should not happen" not in found.err
    return lines[0]


def _set(name: str, /, **fields: object) -> Callable[[dict[str, Any]], None]:
    def change(files: dict[str, Any]) -> None:
        files["dist.r0"]["nodes"][2].update(fields)

    return change


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "node": _set("mm", name=CONTROL),
    "bad node": _set("mm", name=f"mm{UNSEEN}", shape=[7, 5]),
    "operand": _set("mm", args=[{"node": CONTROL}, {"node": "w"}]),
    "operator": _set("mm", target=CONTROL),
    "dtype": _set("mm", dtype=CONTROL),
    "source": _set("mm", source=CONTROL),
    "module": _set("mm", module=CONTROL),
    "keyword": _set("mm", kwargs={CONTROL: 1}),
    "format": lambda f: f["seq"].update(format=CONTROL),
    "origin": lambda f: f["dist.r0"].update(origin=f"a{UNSEEN}", nodes=[]),
    "group": lambda f: f["groups"]["dist"].append(
        {"ranks": [0], "names": {"0": CONTROL, "1": CONTROL}}
    ),
    "groups of one name": lambda f: f["groups"].update(
        dist=[{"ranks": [0, 1], "names": {"0": CONTROL}}] * 2
    ),
    "relation": lambda f: f["relations"][0].update(seq=CONTROL),
    "key of a relation": lambda f: f["relations"][0].update({CONTROL: 1}),
    "output": lambda f: f["outputs"][0].update(seq=CONTROL),
    "returned": lambda f: f["outputs"][0].update(dist=CONTROL),
    "assumption": lambda f: f.update(capture={"assumptions": [{"kind": CONTROL}], "warnings": []}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_error_about_a_name(cli: Cli, tmp_path: Path, name: str) -> None:
    files = documents()
    CHANGES[name](files)
    one_message(cli("extract", write_case(tmp_path / "case", files), "-o", tmp_path / "facts"))


def test_names_of_files_and_arguments(cli: Cli, good: Path, tmp_path: Path) -> None:
    odd = tmp_path / f"a{CONTROL}"
    facts = ("-o", tmp_path / "facts")
    one_message(cli("extract", odd, *facts))
    one_message(cli("run", odd))
    one_message(cli("query", odd, "frontier"))
    one_message(cli("rule", CONTROL))
    one_message(cli("extract", good, *facts, "--output", CONTROL))
    one_message(cli("extract", good, *facts, "--operators", odd))
    one_message(cli("verify", CONTROL))
    one_message(cli("replay", odd))
    one_message(cli("check", odd, tmp_path))
    odd.write_text("[" + CONTROL)
    one_message(cli("extract", good, *facts, "--operators", odd))
    one_message(cli("check", odd, tmp_path))
    odd.unlink()
    odd.mkdir()
    (odd / "seq.json").write_text("{")
    one_message(cli("extract", odd, *facts))


@pytest.mark.parametrize(
    "arguments",
    [
        ["extract", f"--{CONTROL}"],
        ["run", "facts", "--engine", CONTROL],
        ["run", "facts", "--timeout", CONTROL],
        ["run", "facts", "--report", CONTROL],
        ["extract", "-o", "x", "--seq", CONTROL],
        ["extract", "-o", "x", "--from", "fx-text", "--group", CONTROL, "a", "b"],
        ["check", f"{CONTROL}", "facts", CONTROL],
        [CONTROL],
    ],
)
def test_errors_of_usage(cli: Cli, arguments: list[str]) -> None:
    found = cli(*arguments)
    assert found.status == 2 and not found.out
    assert not [line for line in seen(found.err).splitlines() if line.startswith("REFINES")]


def test_file_names_that_are_no_text(cli: Cli, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff")
    assert "\\udcff" in one_message(cli("run", odd))


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case that does not refine, its names all with marks that nobody sees, and warnings."""
    files = renamed(documents(reduced=False), lambda name: f"{name}{UNSEEN}")
    for node in (*files["dist.r0"]["nodes"], *files["dist.r1"]["nodes"]):
        node.update(source=f"a{UNSEEN}.py:3 in f{UNSEEN}: x{UNSEEN}", module=f"m{UNSEEN}")
    said = {"kind": "capture", "text": f"trust me{CONTROL}"}
    files["capture"] = {"assumptions": [said], "warnings": [f"look{CONTROL}"]}
    files["outputs"][0]["name"] = f"loss{UNSEEN}"
    return write_case(tmp_path_factory.mktemp("odd") / "case", files)


def _outputs(cli: Cli, odd: Path, folder: Path) -> Iterator[tuple[str, Outcome]]:
    facts = folder / "facts"
    yield "extract", cli("extract", odd, "-o", facts)
    reports = [text for form in FORMATS for text in ("--report", f"{form}={folder}/{form}")]
    yield "run", cli("run", facts, "--engine", "clingo", *reports)
    yield "run json", cli("run", facts, "--engine", "clingo", "--format", "json")
    yield "report", cli("report", facts / "result")
    yield "verify", cli("verify", odd, "--engine", "clingo")
    for name in ("unmapped_outputs", "frontier", "partial_tensors", "blocked_by"):
        yield name, cli("query", facts / "result", name)
        yield name, cli("query", facts / "result", name, "--format", "json")
    yield "explain", cli("explain", facts / "result", f"y{UNSEEN}")
    yield "explain json", cli("explain", facts / "result", f"y{UNSEEN}", "--format", "json")
    yield "no node", cli("explain", facts / "result", f"r0.y{UNSEEN}z")


def test_every_output_shows_names_as_escapes(cli: Cli, odd: Path, tmp_path: Path) -> None:
    told = dict(_outputs(cli, odd, tmp_path))
    assert {name: found.status for name, found in told.items() if found.status} == {
        "run": 1,
        "run json": 1,
        "verify": 1,
        "no node": 2,
    }
    for found in told.values():
        for line in seen(found.out + found.err).splitlines():
            assert not line.startswith("REFINES")
    assert "y\\x9b2J\\u202e\\u200b\\u2066" in told["run"].out
    assert "warning: look\\x1b[2J REFINES" in told["extract"].err
    for form in FORMATS:
        seen((tmp_path / form).read_text(encoding="utf-8"))
    ElementTree.parse(tmp_path / "junit")


def test_programs_get_names_as_they_are(cli: Cli, odd: Path, tmp_path: Path) -> None:
    told = dict(_outputs(cli, odd, tmp_path))
    assert told["run json"].report["outputs"][0]["seq"] == f"y{UNSEEN}"
    assert told["explain json"].report["tensor"] == f"y{UNSEEN}"
    sql = "SELECT name FROM graph_node WHERE name LIKE 'y%'"
    found = cli("query", tmp_path / "facts" / "result", "--sql", sql, "--format", "json")
    assert {row["name"] for row in found.report} == {f"y{UNSEEN}"}
    report = json.loads((tmp_path / "facts" / "result" / "report.json").read_text("utf-8"))
    assert report["outputs"][0]["name"] == f"loss{UNSEEN}"


def test_a_certificate_is_told_of_without_them(cli: Cli, tmp_path: Path) -> None:
    case = write_case(tmp_path / "case", renamed(documents(), lambda name: f"{name}{UNSEEN}"))
    facts, proof = tmp_path / "facts", tmp_path / "proof.json"
    assert cli("extract", case, "-o", facts).status == 0
    assert cli("run", facts, "--engine", "clingo").status == 0
    assert cli("certificate", facts / "result", "-o", proof).status == 0
    found = cli("check", proof, facts)
    assert found.status == 0 and "y\\x9b2J" in seen(found.out)
    seen(proof.read_text("utf-8"))


def test_progress_is_no_markup_and_moves_no_cursor(tmp_path: Path) -> None:
    """Progress on a terminal; a name in brackets is not markup that is never closed."""
    code = (
        "from gg_datalog.foundation.progress import progress\n"
        "with progress() as say: say('reading [/red] a\\x9b31m\\u202e')\n"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "200"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, stderr=theirs, env=environment, check=False)
    os.close(theirs)
    got = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 0
    assert "[/red] a\\x9b31m\\u202e" in got and "\x9b" not in got and "\u202e" not in got
