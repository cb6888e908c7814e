"""GG125: no rule shows it, though numbers agree."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Mistake

MISTAKE = Mistake(
    code="GG125",
    title="no rule shows it, though numbers agree",
    level="warning",
    note="""
Both programs were executed in small sizes, on several draws of inputs, and gave the same
numbers for these outputs. So nothing is known to be wrong, but nothing is proved either: other
inputs or other sizes may tell them apart. The proof stops at the operator that is named: what
the ranks compute there is related to the sequential program by no rule.""",
    remedy="""
Compare the two source lines. Write both sides in the same way where that is possible, describe
an operator in the [operator table](operators.md) where one is missing, or accept the finding
in a baseline. `gg-datalog replay CASE --seed N` executes it on other draws.""",
)
