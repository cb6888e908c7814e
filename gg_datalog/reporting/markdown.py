"""Markdown: a report to read as a comment of a pull request or the summary of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gg_datalog.human import VERDICT, shortened
from gg_datalog.report import Finding, OutputRow, Report
from gg_datalog.reporting.origin import TOOL, origin
from gg_datalog.reporting.places import place
from gg_datalog.reporting.wording import clipped, counted, details

# GitHub takes comments of 65,536 characters.
ROOM = 60_000
ROWS = 100
TEXT = 1200
# What has a meaning in a line of Markdown; `@` names people, who need not be told.
SPECIAL = re.compile(r"([\\*_~\[\]<>#!$&])")
MENTION = re.compile(r"@(?=\w)")
CODE = re.compile(r"`([^`]+)`")


def render(report: Report, result: Path) -> str:
    """Verdict, outputs, findings and assumptions; what is long is folded, or left out and said."""
    text, _, why = VERDICT[report.verdict].partition(": ")
    head = [
        f"### {TOOL}: {text.lower()}",
        f"{inline(why)} ({counted(report)}; {code(origin(result).name)})",
    ]
    tail = [*_outputs(report), *_assumptions(report), _footer(report)]
    room = ROOM - sum(len(block) for block in (*head, *tail))
    return "\n\n".join([*head, *_findings(report.findings, room), *tail]) + "\n"


def inline(text: str) -> str:
    """A text that shows as it is, but for what it has between backticks, which is code."""
    parts = CODE.split(clipped(text, TEXT))
    return "".join(code(part) if at % 2 else _plain(part) for at, part in enumerate(parts))


def code(text: str) -> str:
    """A text as code, whatever backticks it has."""
    if not text:
        return ""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def row(*cells: str) -> str:
    """A row of a table; a bar in a cell, even in code, would end it."""
    return "".join(f"| {cell} " for cell in (text.replace("|", "\\|") for text in cells)) + "|"


def _plain(text: str) -> str:
    return MENTION.sub("@<!-- -->", SPECIAL.sub(r"\\\1", text).replace("`", "\\`"))


def _findings(found: Sequence[Finding], room: int) -> Iterator[str]:
    """Errors and warnings one below the other, notes folded; what finds no room is counted."""
    loud = [_finding(one) for one in found if one.level != "note"]
    notes = [f"- {one.code}: {inline(one.message)}" for one in found if one.level == "note"]
    shown = _fitting(loud, room)
    yield from shown
    room -= sum(len(block) for block in shown)
    if len(shown) < len(loud):
        yield f"And {len(loud) - len(shown)} more findings, which are in the other formats."
    if notes:
        fitting = _fitting(notes, room)
        yield from _folded(f"{len(notes)} notes", "\n".join(fitting), len(notes) - len(fitting))


def _fitting(blocks: Sequence[str], room: int) -> list[str]:
    shown: list[str] = []
    for block in blocks:
        room -= len(block) + 2
        if room < 0:
            break
        shown.append(block)
    return shown


def _finding(found: Finding) -> str:
    title = f" {found.title}" if found.title else ""
    rows = [row(label, _value(label, text)) for label, text in details(found)]
    head = f"#### {found.code} {found.level}{inline(':' + title) if title else ''}"
    table = ["", row("", ""), row("---", "---"), *rows] if rows else []
    return "\n".join([head, "", inline(found.message), *table])


def _value(label: str, text: str) -> str:
    if label in ("expected", "found"):
        return code(clipped(text, TEXT)) if "`" not in text else inline(text)
    at = place(text) if label in ("sequential", "ranks") else None
    if at is None:
        return inline(text)
    function = f" in {code(at.function)}" if at.function else ""
    return code(str(at)) + function + (f": {code(clipped(at.code, TEXT))}" if at.code else "")


def _outputs(report: Report) -> Iterator[str]:
    """Outputs that are not mapped, then, folded, those that are."""
    other = [output for output in report.outputs if output.status != "mapped"]
    mapped = [output for output in report.outputs if output.status == "mapped"]
    if other:
        yield f"**Outputs that are not rebuilt** ({len(other)} of {len(report.outputs)})"
        yield _table(other[:ROWS])
        if len(other) > ROWS:
            yield f"and {len(other) - ROWS} more"
    if mapped:
        summary = f"{len(mapped)} output{'s' * (len(mapped) != 1)} rebuilt"
        yield from _folded(summary, _table(mapped[:ROWS]), len(mapped) - ROWS)


def _table(outputs: Sequence[OutputRow]) -> str:
    rows = [
        row(
            code(output.seq) + (f" ({inline(output.name)})" if output.name else ""),
            output.status,
            code(clipped(shortened(output.relation or ""), 300)),
        )
        for output in outputs
    ]
    return "\n".join([row("output", "status", "made of"), row("---", "---", "---"), *rows])


def _assumptions(report: Report) -> Iterator[str]:
    rows = [f"- {inline(one.kind)}: {inline(clipped(one.text, 300))}" for one in report.assumptions]
    if rows:
        plural = "s" * (len(rows) != 1)
        summary = f"{len(rows)} assumption{plural} that the verdict takes on trust"
        yield from _folded(summary, "\n".join(rows[:ROWS]), len(rows) - ROWS)


def _folded(summary: str, text: str, more: int) -> Iterator[str]:
    """Text behind a line that opens it, and how much of it is left out."""
    yield f"<details><summary>{summary}</summary>"
    if text:
        yield text
    if more > 0:
        yield f"and {more} more"
    yield "</details>"


def _footer(report: Report) -> str:
    engine = " ".join(str(report.engine.get(name, "")) for name in ("name", "version"))
    seconds = sum(report.stats.get("seconds", {}).values())
    facts = f"{report.stats.get('facts')} facts, {report.stats.get('relations')} derived"
    return inline(f"{facts}, {engine}, {seconds:.2f} s")
