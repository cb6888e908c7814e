"""What the status of an output rests on, and the verdict that follows.

The rules say of an output that it is rebuilt, or that no rule shows it. The latter is an error only
where a difference is shown: by numbers, or by what the rules derived instead of what was expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gg_datalog.diagnosis.findings import PAGES, REPLAYED
from gg_datalog.diagnosis.mistakes.gg125_agreeing_numbers import agreeing
from gg_datalog.diagnosis.mistakes.gg126_refuted_guess import refuted_guesses
from gg_datalog.result.reasons import Evidence, Status, Verdict
from gg_datalog.result.report import Finding, Numbers, OutputRow, Report

STATIC = frozenset(code for code, page in PAGES.items() if page.static)
LAYOUT = frozenset(code for code, page in PAGES.items() if page.layout)
# Beside a verdict, or what no rule describes: no reason why something should be wrong.
ASIDE = frozenset(code for code, page in PAGES.items() if page.level != "error") | {*REPLAYED}

# What is executed: what something stands against, and what no rule describes.
ASKED = (Status.UNMAPPED, Status.INCONCLUSIVE)


def in_question(report: Report) -> list[int]:
    """Places of the outputs that numbers can tell something of."""
    if any(found.code in STATIC for found in report.findings):
        return []
    return [
        place
        for place, row in enumerate(report.outputs)
        if row.status in ASKED and not _moved(row, report.findings)
    ]


def _moved(row: OutputRow, findings: Sequence[Finding]) -> bool:
    return any(found.code in LAYOUT and row.seq in found.outputs for found in findings)


def decided(report: Report, numbers: Mapping[int, Numbers]) -> Report:
    """The report with the status, the evidence and the numbers of every output, the verdict that
    follows, and only those findings that nothing refutes."""
    static = any(found.code in STATIC for found in report.findings)
    outputs = [
        _decided(row, report.findings, numbers.get(place), static)
        for place, row in enumerate(report.outputs)
    ]
    report = replace(report, outputs=outputs, findings=_findings(report, outputs))
    return replace(report, verdict=_verdict(report, static))


def _decided(
    row: OutputRow, findings: Sequence[Finding], numbers: Numbers | None, static: bool
) -> OutputRow:
    if row.status not in ASKED:
        return replace(
            row,
            evidence=Evidence.PROOF if row.status == Status.MAPPED else Evidence.NONE,
            numbers=numbers,
        )
    agrees = None if numbers is None else numbers.agrees
    if agrees is False:
        return replace(row, status=Status.UNMAPPED, evidence=Evidence.NUMBERS, numbers=numbers)
    if row.status == Status.INCONCLUSIVE:
        return replace(row, evidence=Evidence.NONE, numbers=numbers)
    if numbers is not None and numbers.guesses:
        return replace(row, status=Status.INCONCLUSIVE, evidence=Evidence.NONE, numbers=numbers)
    told = static or _moved(row, findings) or any(f.certain and _spoils(f, row) for f in findings)
    if agrees is None and told:
        return replace(row, evidence=Evidence.RELATIONS, numbers=numbers)
    return replace(row, status=Status.INCONCLUSIVE, evidence=Evidence.NONE, numbers=numbers)


def _spoils(found: Finding, row: OutputRow) -> bool:
    return row.seq in found.outputs or found.seq == row.seq or not found.outputs


def _verdict(report: Report, static: bool) -> str:
    statuses = {row.status for row in report.outputs}
    if static or Status.UNMAPPED in statuses:
        return Verdict.DIFFERS
    return Verdict.INCONCLUSIVE if Status.INCONCLUSIVE in statuses else report.verdict


# ---- findings ------------------------------------------------------------------------------------
def _findings(report: Report, outputs: Sequence[OutputRow]) -> list[Finding]:
    """Where numbers agree, what was found there is no mistake, but where the proof stops. Where
    nothing is shown, it is no error."""
    guesses = list(refuted_guesses(outputs))
    agreed = [row for row in outputs if row.numbers is not None and row.numbers.agrees]
    names = {row.seq for row in agreed}
    wrong = {row.seq for row in outputs if row.status == Status.UNMAPPED}
    stops: dict[int, list[OutputRow]] = {}
    for row in agreed:
        reasons = [i for i, f in enumerate(report.findings) if _reason(f) and _spoils(f, row)]
        stops.setdefault(reasons[0] if reasons else -1, []).append(row)
    found: list[Finding] = guesses
    for place, one in enumerate(report.findings):
        if place in stops:
            found.append(agreeing(one, stops[place]))
        if not _reason(one) or not one.outputs:
            found.append(one)
            continue
        left = tuple(seq for seq in one.outputs if seq not in names)
        if left:
            found.append(_levelled(replace(one, outputs=left), wrong))
    return [*found, agreeing(None, stops[-1])] if -1 in stops else found


def _reason(found: Finding) -> bool:
    return found.code not in ASIDE


def _levelled(found: Finding, wrong: set[str]) -> Finding:
    """An error, and what follows from it, only where something is shown to be wrong."""
    if found.code not in STATIC and found.level == "error" and not wrong & set(found.outputs):
        return replace(found, level="warning", effect=None)
    return found
