"""Markdown: a report to read as a comment of a pull request or the summary of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gg_datalog.reporting.origin import TOOL, origin
from gg_datalog.reporting.places import place
from gg_datalog.reporting.text import VERDICT, beside, shortened, status
from gg_datalog.reporting.wording import clipped, counted, details, executed
from gg_datalog.result.reasons import Status
from gg_datalog.result.report import Finding, OutputRow, Report

# GitHub takes comments of 65,536 characters.
ROOM = 60_000
PART = 9_000  # of that for each list: notes, outputs of either kind, assumptions
SLACK = 1_000  # for the words around them
ROWS = 100
TEXT = 1200
SHORT = 300
# What has a meaning in a line of Markdown; `@` names people, who need not be told, and what looks
# like an address becomes a link, which nobody here has written.
SPECIAL = re.compile(r"([\\*_~\[\]<>#!$&])")
MENTION = re.compile(r"@(?=\w)")
LINK = re.compile(r"\b(https?:|ftp:|www)(?=[/.])", re.IGNORECASE)
CODE = re.compile(r"`([^`]+)`")


def render(report: Report, result: Path) -> str:
    """Verdict, outputs, findings and assumptions; what is long is folded, or left out and said."""
    text, _, why = VERDICT[report.verdict].partition(": ")
    head = [
        f"### {TOOL}: {text.lower()}",
        f"{inline(why)} ({counted(report)}; {code(origin(result).name)})",
        *map(inline, beside(report)),
    ]
    tail = [*_outputs(report), *_assumptions(report), _footer(report)]
    room = ROOM - SLACK - sum(len(block) for block in (*head, *tail))
    return "\n\n".join([*head, *_findings(report.findings, room), *tail]) + "\n"


def inline(text: str) -> str:
    """A text that shows as it is, but for what it has between backticks, which is code."""
    parts = CODE.split(clipped(text, TEXT))
    return "".join(code(part) if at % 2 else _plain(part) for at, part in enumerate(parts))


def code(text: str) -> str:
    """A text as code, whatever backticks it has."""
    if not text:
        return ""
    if "\\|" in text:  # in a table, readers do not agree on what that is between backticks
        shown = re.sub(r"[^A-Za-z0-9 ]", lambda found: f"&#{ord(found[0])};", text)
        return f"<code>{shown}</code>"
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def row(*cells: str) -> str:
    """A row of a table; a bar in a cell, even in code, would end it."""
    return "".join(f"| {cell} " for cell in (text.replace("|", "\\|") for text in cells)) + "|"


def _plain(text: str) -> str:
    escaped = SPECIAL.sub(r"\\\1", text).replace("`", "\\`")
    return LINK.sub(r"\1<!-- -->", MENTION.sub("@<!-- -->", escaped))


def _findings(found: Sequence[Finding], room: int) -> Iterator[str]:
    """Errors and warnings one below the other, notes folded; what finds no room is counted."""
    loud = [one for one in found if one.level != "note" and not one.accepted]
    folded = [
        *_lines("accepted finding", [one for one in found if one.accepted]),
        *_lines("note", [one for one in found if one.level == "note" and not one.accepted]),
    ]
    shown = _fitting(map(_finding, loud), room - sum(map(len, folded)))
    yield from shown
    if len(shown) < len(loud):
        yield f"And {len(loud) - len(shown)} more findings, which are in the other formats."
    yield from folded


def _lines(what: str, found: Sequence[Finding]) -> Iterator[str]:
    rows = _fitting((f"- {one.code}: {inline(one.message)}" for one in found), PART)
    if found:
        summary = f"{len(found)} {what}{_s(found)}"
        yield from _folded(summary, "\n".join(rows), len(found) - len(rows))


def _fitting(blocks: Iterable[str], room: int) -> list[str]:
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
    function = f" in {code(clipped(at.function, SHORT))}" if at.function else ""
    return (
        code(clipped(str(at), SHORT))
        + function
        + (f": {code(clipped(at.code, TEXT))}" if at.code else "")
    )


def _outputs(report: Report) -> Iterator[str]:
    """Outputs that are not mapped, then, folded, those that are."""
    other = [output for output in report.outputs if output.status != Status.MAPPED]
    mapped = [output for output in report.outputs if output.status == Status.MAPPED]
    if other:
        table, more = _table(other)
        yield f"**Outputs that are not rebuilt** ({len(other)} of {len(report.outputs)})"
        yield table
        if more:
            yield f"and {more} more"
    if mapped:
        yield from _folded(f"{len(mapped)} output{_s(mapped)} rebuilt", *_table(mapped))


def _table(outputs: Sequence[OutputRow]) -> tuple[str, int]:
    """A table of outputs, and how many find no room in it."""
    rows = _fitting(map(_output, outputs[:ROWS]), PART)
    head = [row("output", "status", "made of"), row("---", "---", "---")]
    return "\n".join([*head, *rows]), len(outputs) - len(rows)


def _output(output: OutputRow) -> str:
    name = f" ({inline(clipped(output.name, SHORT))})" if output.name else ""
    relation = clipped(shortened(output.relation or ""), SHORT)
    made = code(relation) if relation else inline(clipped(executed(output) or "", TEXT))
    return row(code(clipped(output.seq, SHORT)) + name, status(output), made)


def _assumptions(report: Report) -> Iterator[str]:
    told = report.assumptions
    rows = _fitting((f"- {inline(clipped(f'{a.kind}: {a.text}', SHORT))}" for a in told), PART)
    if told:
        summary = f"{len(told)} assumption{_s(told)} that the verdict takes on trust"
        yield from _folded(summary, "\n".join(rows), len(told) - len(rows))


def _s(listed: Sequence[object]) -> str:
    return "s" * (len(listed) != 1)


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
