"""A report as the message of an assertion that failed."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.outcome import raised
from gg_datalog.reporting.wording import details
from gg_datalog.result.printable import printable
from gg_datalog.result.reasons import Status, Verdict
from gg_datalog.result.report import Finding, Report

FEW = 5


def summary(report: Report) -> str:
    """What is wrong, in one line: the one that pytest's summary shows."""
    open_rows = [row for row in report.outputs if row.status != Status.MAPPED]
    codes = dict.fromkeys(found.code for found in _telling(report))
    verdict = report.verdict.replace("-", " ")
    text = f"{verdict}: {len(open_rows)} of {len(report.outputs)} outputs not rebuilt"
    return f"{text} ({', '.join(codes)})" if codes else text


def failure(report: Report) -> str:
    """The summary, the outputs that are not rebuilt, and the first findings."""
    report = printable(report)
    lines = [summary(report), ""]
    for row in [row for row in report.outputs if row.status != Status.MAPPED][:FEW]:
        name = f"{row.seq} ({row.name})" if row.name else row.seq
        lines.append(f"  {name}: {row.status}{', accepted' if row.accepted else ''}")
    found = _telling(report)
    for finding in found[:FEW]:
        lines += ["", *_finding(finding)]
    if len(found) > FEW:
        lines += ["", f"... and {len(found) - FEW} more findings"]
    if known := sum(finding.accepted for finding in report.findings):
        lines += ["", f"{known} further findings are accepted by the baseline"]
    return "\n".join(lines)


def _telling(report: Report) -> list[Finding]:
    """Findings that are new, and not only notes; of a report that refines, what makes it fail."""
    if report.verdict == Verdict.REFINES:
        return raised(report)
    new = [finding for finding in report.findings if not finding.accepted]
    return [finding for finding in new if finding.level != "note"] or new


def _finding(found: Finding) -> Iterator[str]:
    yield f"{found.code} {found.level}: {found.message}"
    for label, text in details(found):
        yield f"    {label}: {text}"
