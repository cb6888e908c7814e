"""GG122: a coefficient outgrew the engine's numbers."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.report import Finding
from gg_datalog.result.terms import coefficient_text

MISTAKE = Mistake(
    code="GG122",
    title="a coefficient outgrew the engine's numbers",
    level="warning",
    note="""
Factors along a chain multiply. Their numerator and denominator have to fit 32 bits; one that
does not is left out, and with it what it might have shown. The verdict is inconclusive.""",
    remedy="""
Please report the case. Replacing a constant such as 1/65537 by a power of two helps meanwhile.""",
)


def number_limits(scene: Scene) -> Iterator[Finding]:
    """The first product that was left out."""
    for a, b in scene.rows("SELECT a, b FROM coefficient_out_of_range ORDER BY ALL LIMIT 1"):
        yield MISTAKE.finding(
            f"the product of the coefficients {coefficient_text(a)} and {coefficient_text(b)} "
            "is left out: it does not fit the numbers of the rules"
        )
