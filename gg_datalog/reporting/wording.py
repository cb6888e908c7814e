"""What a report says of an output or a finding, in the words that all formats share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gg_datalog.result.reasons import Status
from gg_datalog.result.report import Element, Finding, OutputRow, Repair, Report

MANY = 12
LONG = 2000


def details(found: Finding) -> Iterator[tuple[str, str]]:
    """What is known of a finding beside its message: (what it is, text)."""
    rows = {
        "sequential": found.seq_source,
        "ranks": found.dist_source,
        "module": modules(found),
        "because": found.trigger,
        "effect": found.effect,
        "expected": found.expected,
        "found": found.found,
        "outputs": listed(found.outputs),
        "on ranks": numbers(found.ranks),
        "repair": found.repair and repair(found.repair),
    }
    for label, text in rows.items():
        if text:
            yield label, clipped(text)


def modules(found: Finding) -> str:
    """The module of a finding; both sides' where they are called differently."""
    both = dict.fromkeys(name for name in (found.module, found.dist_module) if name)
    return ", ".join(f"`{name}`" for name in both)


def repair(proposed: Repair) -> str:
    """What would close the gap; one that was tried says itself what comes of it."""
    return proposed.text if proposed.tried else f"{proposed.text} (not tried)"


def numbers(ranks: Sequence[int]) -> str:
    """Ranks, those that follow each other as a range: ``0-7, 12``."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    told = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in runs]
    return ", ".join(told[:MANY]) + (f" and {len(told) - MANY} more" if len(told) > MANY else "")


def listed(names: Sequence[str], many: int = MANY) -> str:
    """Names in a sentence; the rest of a long list as a number."""
    quoted = ", ".join(f"`{name}`" for name in names[:many])
    return f"{quoted} and {len(names) - many} more" if len(names) > many else quoted


def clipped(text: str, long: int = LONG) -> str:
    """A text that a person is to read, without the end of one that is too long for that."""
    return text if len(text) <= long else f"{text[:long]} ... ({len(text) - long} characters more)"


def called(output: OutputRow) -> str:
    """An output by the program's name for it, else by its node's."""
    return output.name or output.seq


def executed(output: OutputRow) -> str | None:
    """What came of executing both programs for an output, in a sentence."""
    told = output.numbers
    if told is None:
        return None
    if told.agrees is None:
        return told.note
    if told.agrees:
        return f"numbers agree on {told.draws} draws"
    text = told.note or f"the ranks are off by {told.max_abs} (relative {told.max_rel})"
    if told.seq is None:
        return text
    source = told.dist_source or told.seq_source
    return f"{text}, first at `{told.seq}`" + (f" ({source})" if source else "")


def element(of: Element) -> str:
    """One element that differs."""
    who = "all ranks together" if of.rank is None else f"rank {of.rank}"
    return f"at {list(of.at)} {who} has {of.ranks}, the sequential program {of.sequential}"


def concerns(found: Finding, output: OutputRow) -> bool:
    """Whether a finding says something of this output."""
    return output.seq in found.outputs or output.seq == found.seq


def counted(report: Report) -> str:
    """How many outputs there are of each status, in a sentence."""
    total = len(report.outputs)
    told = [f"{total} output{'s' * (total != 1)}"]
    for status in (Status.MAPPED, Status.UNMAPPED, Status.INCONCLUSIVE):
        if number := sum(output.status == status for output in report.outputs):
            told.append(f"{number} {status}")
    return ", ".join(told)
