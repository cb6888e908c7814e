"""GG141: no draw shows a difference where nothing was derived."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Mistake

MISTAKE = Mistake(
    code="GG141",
    title="no draw shows a difference where nothing was derived",
    level="note",
    note="""
`gg-datalog replay` executed both programs, and the output agrees on all draws, though no
relation was derived for it. The refusal may be a false alarm: a rule is missing.""",
    remedy="""
Describe the operator at which the chain breaks (docs/operators.md), or report the case.
Agreement on draws is no proof.""",
)
