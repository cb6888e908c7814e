"""GG126: a guessed input relation does not fit the numbers."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Mistake

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
