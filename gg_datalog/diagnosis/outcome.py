"""What a report leads to: the exit code, which severities and a baseline may change."""

from __future__ import annotations

from gg_datalog.diagnosis.findings import PAGES
from gg_datalog.result.report import EXIT_CODE, Finding, Report

LEVEL = {code: page.level for code, page in PAGES.items()}


def raised(report: Report) -> list[Finding]:
    """Findings that severities made errors, and no baseline accepts."""
    return [
        found
        for found in report.findings
        if found.level == "error" and LEVEL.get(found.code) != "error" and not found.accepted
    ]


def exit_code(report: Report) -> int:
    """What ``run`` ends with: 0 only where the ranks' program refines, or all is accepted, and
    nothing was made an error."""
    code = 0 if report.accepted else EXIT_CODE[report.verdict]
    return 1 if code == 0 and raised(report) else code
