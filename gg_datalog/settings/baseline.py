"""Baselines: findings that are known, and accepted until they are gone.

An accepted finding stays a finding and the verdict stays what it is; only the exit code changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gg_datalog.diagnosis.findings import BESIDE
from gg_datalog.result.reasons import Status, Verdict
from gg_datalog.result.report import Finding, OutputRow, Report

EXCERPT = 160
Key = tuple[str, str]  # code and fingerprint


@dataclass(frozen=True)
class Entry:
    """An accepted finding. ``outputs`` are the outputs it may spoil, by the program's names for
    them where a capture knows; ``count`` is how many findings with this fingerprint there are."""

    fingerprint: str
    code: str
    message: str = ""
    outputs: tuple[str, ...] = ()
    count: int = 1
    date: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Baseline:
    """The entries of a baseline file."""

    entries: tuple[Entry, ...] = ()

    def accept(self, report: Report) -> Report:
        """The report with everything marked that this baseline accepts; the verdict stays.

        An output is accepted where every finding that spoils it is, and at least one names it.
        While a finding that says of no output what it spoils is not accepted, none is.
        """
        left = Counter({key(entry): entry.count for entry in self.entries})
        findings = [replace(f, accepted=self._accepts(f, report, left)) for f in report.findings]
        outputs = [replace(row, accepted=_accepted(row, findings)) for row in report.outputs]
        marked = replace(report, findings=findings, outputs=outputs)
        return replace(marked, accepted=_all_accepted(marked))

    def _accepts(self, finding: Finding, report: Report, left: Counter[Key]) -> bool:
        entry = self.entry(finding)
        if entry is None or left[key(entry)] == 0:
            return False
        left[key(entry)] -= 1
        return not _further(finding, entry, report)

    def entry(self, finding: Finding) -> Entry | None:
        """The entry that knows a finding; a finding without fingerprint has none."""
        if not finding.fingerprint:
            return None
        return next((e for e in self.entries if key(e) == key(finding)), None)

    def stale(self, report: Report) -> list[Entry]:
        """Entries of which no finding is left."""
        there = {key(f) for f in report.findings}
        return [e for e in self.entries if key(e) not in there]

    def renewed(self, report: Report) -> Baseline:
        """The baseline that accepts what is in a report now; reasons and dates are kept."""
        wanted: dict[Key, list[Finding]] = {}
        for finding in report.findings:
            if finding.fingerprint and (finding.level != "note" or decides(finding)):
                wanted.setdefault(key(finding), []).append(finding)
        return Baseline(tuple(self._entry(wanted[same], report) for same in sorted(wanted)))

    def _entry(self, same: Sequence[Finding], report: Report) -> Entry:
        first = same[0]
        old = self.entry(first)
        labels = sorted({label for f in same for label in _labels(f, report)})
        return Entry(
            first.fingerprint,
            first.code,
            _excerpt(first.message),
            tuple(labels),
            len(same),
            old.date if old else datetime.now(UTC).date().isoformat(),
            old.reason if old else "",
        )

    def said(self, report: Report) -> Iterator[str]:
        """What a person should know of the baseline: what is stale, what outgrew it, and what
        no baseline can accept. ``report`` is one that it was applied to."""
        for e in self.stale(report):
            what = f"{e.code} {e.message} [{e.fingerprint}]"
            yield f"a finding of the baseline no longer occurs: {what}"
        for finding in report.findings:
            entry = self.entry(finding)
            if entry is not None and (further := _further(finding, entry, report)):
                names = ", ".join(f"`{name}`" for name in further)
                yield f"{finding.code} of the baseline spoils further outputs now: {names}"
        if nameless := [f.code for f in report.findings if decides(f) and not f.fingerprint]:
            codes = ", ".join(dict.fromkeys(nameless))
            yield f"findings without fingerprint cannot be accepted: {codes}"
        for row in report.outputs:
            if row.status != Status.MAPPED and not any(_spoils(f, row) for f in report.findings):
                yield f"no finding names output `{row.name or row.seq}`: it cannot be accepted"


def key(of: Entry | Finding) -> Key:
    """What an entry and the findings that it accepts have in common."""
    return of.code, of.fingerprint


def decides(finding: Finding) -> bool:
    """Whether a finding is a reason why an output is not rebuilt."""
    return finding.code not in BESIDE


def _spoils(finding: Finding, row: OutputRow) -> bool:
    return decides(finding) and row.seq in finding.outputs


def _all_accepted(report: Report) -> bool:
    if report.verdict == Verdict.REFINES:
        return False
    reasons = [found for found in report.findings if decides(found)]
    spoiled = [row for row in report.outputs if row.status != Status.MAPPED]
    accepted = [*(f.accepted for f in reasons), *(row.accepted for row in spoiled)]
    return bool(reasons) and all(accepted)


def _accepted(row: OutputRow, findings: Sequence[Finding]) -> bool:
    if row.status == Status.MAPPED:
        return False
    spoilers = [f for f in findings if _spoils(f, row)]
    vague = [f for f in findings if decides(f) and not f.outputs]
    return bool(spoilers) and all(f.accepted for f in (*spoilers, *vague))


def _labels(finding: Finding, report: Report) -> list[str]:
    """The outputs that a finding spoils, as the program calls them where that is known."""
    names = [row.name or row.seq for row in report.outputs if row.seq in finding.outputs]
    known = {row.seq for row in report.outputs}
    return [*names, *(seq for seq in finding.outputs if seq not in known)]


def _further(finding: Finding, entry: Entry, report: Report) -> list[str]:
    return sorted(set(_labels(finding, report)) - set(entry.outputs))


def _excerpt(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= EXCERPT else text[: EXCERPT - 3] + "..."
