"""GitHub: annotations as its runner reads them, and the summary of a step."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from gg_datalog.reporting import render
from gg_datalog.result.report import Finding, Report

from ..command import Cli
from .samples import BROKEN, CAUSE, NOTE, report, reports

NOWHERE = Path("no-result")
COMMAND = re.compile(r"::(error|warning|notice)(?: ([^\n]*?))?::([^\n]*)")


def _decoded(text: str, more: bool) -> str:
    for code, char in (
        ("%0D", "\r"),
        ("%0A", "\n"),
        *((("%3A", ":"), ("%2C", ",")) if more else ()),
    ):
        text = text.replace(code, char)
    return text.replace("%25", "%")


def _commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """What the runner would do: commands start a line, properties end at the next ``::``."""
    found = []
    for line in text.split("\n"):
        if not line.lstrip().startswith("::"):
            assert "##[" not in line
            continue
        command = COMMAND.fullmatch(line)
        assert command is not None
        pairs = [pair.split("=", 1) for pair in command[2].split(",")]
        properties = {key: _decoded(value, True) for key, value in pairs}
        found.append((command[1], properties, _decoded(command[3], False)))
    return found


def test_a_finding_annotates_its_line() -> None:
    (error, note) = _commands(render("github", BROKEN, NOWHERE))
    level, properties, message = error
    assert level == "error"
    assert properties == {
        "file": "models/block.py",
        "line": "87",
        "title": "GG108 a part of a reduction is used without the reduction",
    }
    assert message.startswith(CAUSE.message + "\n")
    assert "repair: put an all-reduce after `r0.mm`" in message
    assert note[0] == "notice" and "file" not in note[1]


def test_what_ends_a_property_is_escaped() -> None:
    odd = Finding("GG101", "error", "100%\n::error::x", dist_source="a,b::c%.py:3", title="t: u, v")
    ((_, properties, message), *_) = _commands(
        render("github", report("does-not-refine", findings=(odd,)), NOWHERE)
    )
    assert properties == {"file": "a,b::c%.py", "line": "3", "title": "GG101 t: u, v"}
    assert message.startswith("100% ::error::x")


def test_what_github_does_not_show_is_told_in_the_log() -> None:
    many = tuple(Finding("GG106", "error", f"no. {i} ##[x]") for i in range(30))
    text = render("github", report("does-not-refine", findings=(*many, NOTE)), NOWHERE)
    assert [level for level, *_ in _commands(text)] == ["error"] * 10 + ["notice"]
    assert "20 more of level error than GitHub annotates:" in text
    assert "no. 21 ## [x]" in text and "no. 22" not in text
    assert "and 8 more, in the summary" in text


@pytest.mark.parametrize(
    "verdict, level", [("refines", None), ("does-not-refine", "error"), ("inconclusive", "warning")]
)
def test_a_verdict_without_an_error_is_annotated(verdict: str, level: str | None) -> None:
    commands = _commands(render("github", report(verdict), NOWHERE))
    assert [command[0] for command in commands] == ([level] if level else [])


def test_what_a_baseline_has_is_no_error() -> None:
    known = report("does-not-refine", "unmapped", findings=(replace(CAUSE, accepted=True),))
    (command,) = _commands(render("github", replace(known, accepted=True), NOWHERE))
    assert command[0] == "notice" and command[1]["title"].endswith("(accepted)")


@given(reports)
@settings(max_examples=60, deadline=None)
def test_every_report_is_read_as_it_was_meant(found: Report) -> None:
    commands = _commands(render("github", found, NOWHERE))
    told = [one for one in commands if one[1]["title"] != "gg-datalog"]
    assert len(told) == len(found.findings)
    for _, properties, _ in commands:
        assert properties.keys() <= {"file", "line", "title"}


def test_results(cli: Cli, facts: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "github.txt"
    found = cli("run", facts["missing"], "-o", tmp_path / "r", "--report", f"github={path}")
    assert found.status == 1 and found.out.startswith("DOES NOT REFINE")
    assert next(level for level, *_ in _commands(path.read_text())) == "error"


def test_the_summary_of_the_step_is_added_to(
    cli: Cli, facts: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    markdown = cli("report", facts["missing"] / "result", "--report", "markdown=-").out
    assert summary.read_text() == "before\n"
    for _ in range(2):
        assert cli("report", facts["missing"] / "result", "--report", "github=-").status == 0
    assert summary.read_text() == "before\n" + 2 * (markdown + "\n")


def test_a_summary_without_room_is_left_as_it_is(
    cli: Cli, facts: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_bytes(b"x" * (1024 * 1024 - 100))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    found = cli("report", facts["missing"] / "result", "--report", "github=-")
    assert found.status == 0 and "no room left" in found.err
    assert summary.stat().st_size == 1024 * 1024 - 100


def test_a_summary_that_cannot_be_written_is_one_message(
    cli: Cli, facts: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "summary"))
    found = cli("report", facts["missing"] / "result", "--report", "github=-")
    assert found.status == 2 and "the summary of the step cannot be written" in found.err
