"""GG126: a guessed input relation does not fit the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gg_datalog.diagnosis.mistakes.gg125_agreeing_numbers import numbered
from gg_datalog.diagnosis.mistakes.mistake import Mistake
from gg_datalog.result.report import Finding, OutputRow

MISTAKE = Mistake(
    code="GG126",
    title="a guessed input relation does not fit the numbers",
    level="warning",
    note="""
Several ranks hold the same shard of an input, and which of them was guessed from the shapes:
neighbouring ranks, or ranks that are far apart. Executed with that guess the programs give
different numbers, with the other one the same. So nothing is known to be wrong but the guess,
and what is derived from it says nothing.""",
    remedy="""
Say in [`relations.toml`](capture.md) which rank holds what.""",
)


def refuted_guesses(outputs: Sequence[OutputRow]) -> Iterator[Finding]:
    """What was guessed of inputs, and is refuted by numbers."""
    every: dict[tuple[str, ...], list[str]] = {}
    for row in outputs:
        if row.numbers is not None and row.numbers.guesses:
            every.setdefault(row.numbers.guesses, []).append(row.seq)
    for names, rows in every.items():
        told = ", ".join(f"`{name}`" for name in names)
        text = (
            f"which rank holds which shard of {told} is guessed, and the numbers do not fit: they "
            "agree where ranks share the shards in the other order (neighbours, or far apart)"
        )
        fingerprint = numbered("\n".join((MISTAKE.code, *names)))
        yield MISTAKE.finding(text, outputs=tuple(rows), fingerprint=fingerprint)
