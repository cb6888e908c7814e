"""What findings lead to: severities, a baseline, and the exit code. No verdict depends on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gg_datalog.findings import Kind
from gg_datalog.report import EXIT_CODE, Finding, Report
from gg_datalog.settings.baseline import Baseline
from gg_datalog.settings.configured import BESIDE

LEVEL = {kind.value.code: kind.value.level for kind in Kind}


@dataclass(frozen=True)
class Policy:
    """Levels that codes have instead of their own (``off`` leaves findings out), and a baseline;
    ``renew`` makes it anew of what is found."""

    severity: Mapping[str, str] = field(default_factory=dict)
    baseline: Baseline | None = None
    renew: bool = False

    def applied(self, report: Report) -> Report:
        """The report as this policy sees it; verdict and outputs' status stay."""
        levelled = [self._levelled(found) for found in report.findings]
        report = replace(report, findings=[found for found in levelled if found.level != "off"])
        baseline = self.after(report)
        return report if baseline is None else baseline.accept(report)

    def after(self, report: Report) -> Baseline | None:
        """The baseline that holds for a report: the one there is, or the renewed one."""
        if not self.renew:
            return self.baseline
        return (self.baseline or Baseline()).renewed(report)

    def said(self, report: Report) -> Iterator[str]:
        """What a person should know of the baseline, once it is applied to a report."""
        baseline = self.after(report)
        return iter(()) if baseline is None else baseline.said(report)

    def _levelled(self, found: Finding) -> Finding:
        level = self.severity.get(found.code, found.level)
        if level == "off" and found.code not in BESIDE:
            return found  # a reason why an output is not rebuilt is never left out
        return replace(found, level=level)


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
