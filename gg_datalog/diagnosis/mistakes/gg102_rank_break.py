"""GG102: no sequential equivalent of an operator of one rank is found."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Mistake
from gg_datalog.diagnosis.sites.breaks import SENTENCE
from gg_datalog.diagnosis.sites.ranks import RankBreak
from gg_datalog.result.placement import names_text
from gg_datalog.result.reasons import Reason
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG102",
    title="no sequential equivalent of an operator of one rank is found",
    level="error",
    note="""
The operands of this operator are related to sequential tensors, its result is not, though a
sequential operator of its kind is there. Where only some ranks are named, these do something
else than the others.""",
    remedy="""
Compare the operator with the sequential one that is named: operands, their order, their
ranges.""",
)


def at_rank(place: RankBreak) -> Finding | None:
    """What comes closest on single ranks, where it is none of the mistakes that have a name."""
    if place.near is None or place.reason is None:
        return None
    operand = names_text(place.scene.names(place.operands))
    why = SENTENCE[Reason(place.reason)].format(dist=place.told, operand=operand)
    text = f"no rule shows that {place.told} gives what `{place.near}` gives: {why}"
    return MISTAKE.finding(text, **place.where)
