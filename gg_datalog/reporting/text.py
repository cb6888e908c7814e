"""The report as text for a person."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gg_datalog.diagnosis.outcome import raised
from gg_datalog.reporting.wording import details, element, executed, listed
from gg_datalog.result.names import ranked
from gg_datalog.result.printable import printable
from gg_datalog.result.reasons import Verdict
from gg_datalog.result.report import Finding, OutputRow, Report

VERDICT: dict[str, str] = {
    Verdict.REFINES: "REFINES: every output is rebuilt from what the ranks return",
    Verdict.DIFFERS: "DOES NOT REFINE: a difference is shown",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE: neither a proof nor a difference is shown",
}


def as_text(report: Report) -> str:
    """The report in plain text: verdict, outputs, findings, assumptions."""
    report = printable(report)
    lines = [VERDICT[report.verdict], *beside(report), "", "outputs"]
    rows = [
        (f"{o.seq} ({o.name})" if o.name else o.seq, status(o), shortened(o.relation or ""))
        for o in report.outputs
    ]
    lines += _columns(rows)
    if kept := report.stats.get("state", 0):
        of = (
            "1 tensor of state returns as it was"
            if kept == 1
            else f"{kept} tensors of state return as they were"
        )
        lines.append(f"  {of} given: the step may be repeated")
    known = [f for f in report.findings if f.accepted]
    new = [f for f in report.findings if not f.accepted]
    for title, part in (
        ("findings", [line for f in new for line in _finding(f)]),
        (
            "accepted findings, which the baseline has",
            [line for f in known for line in _finding(f)],
        ),
        ("numbers", list(_numbers(report.outputs))),
        ("assumptions", [f"  {a.kind}: {a.text}" for a in report.assumptions]),
    ):
        if part:
            lines += ["", title, *part]
    seconds = sum(report.stats["seconds"].values())
    lines += [
        "",
        f"{report.stats['facts']} facts, {report.stats['relations']} derived, "
        f"{report.engine['name']} {report.engine['version']}, {seconds:.2f} s",
    ]
    return "\n".join(lines)


def _numbers(outputs: Sequence[OutputRow]) -> Iterator[str]:
    """What came of executing both programs; of the first output that differs a few elements."""
    told = [(row, text) for row in outputs if (text := executed(row)) is not None]
    for text in dict.fromkeys(text for _, text in told):
        rows = [row for row, other in told if other == text]
        yield f"  {listed([row.seq for row in rows])}: {text}"
    differ = [row.numbers for row, _ in told if row.numbers and row.numbers.agrees is False]
    if differ:
        yield from (f"      {element(of)}" for of in differ[0].elements[:FEW])
        yield f"      again: {differ[0].command}"


def beside(report: Report) -> Iterator[str]:
    """What makes the exit code another one than that of the verdict."""
    if report.accepted:
        yield "ACCEPTED: the baseline has every finding that stands in the way"
    if codes := {found.code: None for found in raised(report)}:
        yield f"FAILS: {', '.join(codes)} is an error here (severity in the configuration)"


def status(row: OutputRow) -> str:
    """An output's status, and whether a baseline accepts that."""
    return f"{row.status}, accepted" if row.accepted else row.status


def shortened(relation: str) -> str:
    """A relation with the middle of long lists left out, where one tensor per rank is listed."""

    def short(found: re.Match[str]) -> str:
        members = found[1].split(", ")
        places = [ranked(name) for name in members]
        one_each = len({node for _, node in places}) == 1 and min(places)[0] >= 0
        if len(members) <= FEW or not one_each:
            return found[0]
        return f"[{members[0]}, {members[1]}, ..., {members[-1]}]"

    return re.sub(r"\[([\w.]+(?:, [\w.]+)*)\]", short, relation)


FEW = 4


def _columns(rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    for seq, status, relation in rows:
        yield f"  {seq:<{widths[0]}}  {status:<{widths[1]}}  {relation}".rstrip()


def _finding(found: Finding) -> Iterator[str]:
    yield f"  {found.code} {found.level}: {found.message}"
    for label, text in details(found):
        if label not in BESIDE_THE_MESSAGE and (label != "outputs" or len(found.outputs) > 1):
            yield f"      {label}: {text}"


# Messages name the ranks and say what follows; other formats have a field of its own for that.
BESIDE_THE_MESSAGE = ("on ranks", "effect")
