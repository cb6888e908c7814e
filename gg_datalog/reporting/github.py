"""GitHub: workflow commands that annotate code lines, and the summary of the job's step."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from gg_datalog.diagnosis.outcome import exit_code
from gg_datalog.foundation.errors import InputError
from gg_datalog.reporting import markdown
from gg_datalog.reporting.origin import TOOL
from gg_datalog.reporting.places import place
from gg_datalog.reporting.text import VERDICT
from gg_datalog.reporting.wording import MANY, clipped, counted, details
from gg_datalog.result.reasons import Verdict
from gg_datalog.result.report import EXIT_CODE, Finding, Report

COMMAND = {"error": "error", "warning": "warning", "note": "notice"}
SHOWN = 10  # annotations that GitHub shows of each level and step
SUMMARY = "GITHUB_STEP_SUMMARY"
SUMMARY_ROOM = 1024 * 1024  # bytes that GitHub takes of a step


def render(report: Report, result: Path) -> str:
    """A line per annotation, then a plain line for each finding that GitHub would not show."""
    at_level: dict[str, list[Finding]] = defaultdict(list)
    for found in report.findings:
        command = "notice" if found.accepted else COMMAND.get(found.level, "warning")
        at_level[command].append(found)
    lines = [
        _annotation(command, one) for command, found in at_level.items() for one in found[:SHOWN]
    ]
    status = exit_code(report)
    if status and not at_level["error"]:
        command = "error" if status == EXIT_CODE[Verdict.DIFFERS] else "warning"
        lines.insert(0, _command(command, {"title": TOOL}, VERDICT[report.verdict]))
    lines += [line for command, found in at_level.items() for line in _rest(command, found)]
    lines.append(f"{TOOL}: {report.verdict} ({counted(report)})")
    return "\n".join(lines) + "\n"


def summarize(report: Report, result: Path) -> None:
    """Appends the report to the summary of the step, where this runs in a workflow of GitHub."""
    path = os.environ.get(SUMMARY)
    if not path:
        return
    text = markdown.render(report, result).encode("utf-8", "backslashreplace")
    try:
        with open(path, "ab") as summary:
            if summary.tell() + len(text) >= SUMMARY_ROOM:
                print("warning: no room left in the summary of the step", file=sys.stderr)
                return
            summary.write(text + b"\n")
    except OSError as error:
        what = f"the summary of the step cannot be written: {error.strerror}"
        raise InputError(what, path, f"unset {SUMMARY}, or set it to a file") from None


def _annotation(command: str, found: Finding) -> str:
    at = place(found.dist_source) or place(found.seq_source)
    where = {} if at is None else {"file": at.path}
    if at is not None and at.line is not None:
        where["line"] = str(at.line)
    title = f"{found.code} {found.title}".strip() + " (accepted)" * found.accepted
    text = [found.message, *(f"{label}: {text}" for label, text in details(found))]
    return _command(command, {**where, "title": title}, "\n".join(map(clipped, text)))


def _command(name: str, properties: dict[str, str], message: str) -> str:
    told = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {told}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _rest(command: str, found: Sequence[Finding]) -> Iterator[str]:
    rest = found[SHOWN:]
    if not rest:
        return
    yield f"{TOOL}: {len(rest)} more of level {command} than GitHub annotates:"
    for one in rest[:MANY]:
        # `##[` would be a command even in the middle of a line.
        yield f"  {one.code} " + clipped(one.message).replace("##[", "## [")
    if len(rest) > MANY:
        yield f"  and {len(rest) - MANY} more, in the summary of the step and the other formats"
