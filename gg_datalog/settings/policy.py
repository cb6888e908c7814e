"""What findings lead to: severities and a baseline. No verdict depends on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gg_datalog.diagnosis.findings import BESIDE
from gg_datalog.result.report import Finding, Report
from gg_datalog.settings.baseline import Baseline


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
