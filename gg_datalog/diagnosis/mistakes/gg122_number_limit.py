"""GG122: a coefficient outgrew the engine's numbers."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG122",
    title="a coefficient outgrew the engine's numbers",
    level="warning",
    note="""
Factors along a chain multiply. Their numerator and denominator have to fit 32 bits; one that
does not is left out, and with it what it might have shown. The verdict is inconclusive.""",
    remedy="""
Please report the case. Replacing a constant such as 1/65537 by a power of two helps meanwhile.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 6]
y = mm(mul(x, 100003), w)
return mul(y, 100019)""",
        wrong="""
x: f32[4, 4]
w: f32[4, 6]
y = all_reduce(mm(mul(x, 100003), w), "sum", "g")
return mul(y, 100019)""",
        says=(
            "the product of the coefficients 100019 * 1 / (10002200057) and 100003 is left "
            "out: it does not fit the numbers of the rules"
        ),
    ),
)


def number_limits(scene: Scene) -> Iterator[Finding]:
    """The first product that was left out."""
    for keys in scene.rows("SELECT a, b FROM coefficient_out_of_range ORDER BY ALL LIMIT 1"):
        a, b = (scene.records.coefficient(key).text for key in keys)
        yield MISTAKE.finding(
            f"the product of the coefficients {a} and {b} is left out: it does not fit the numbers "
            "of the rules"
        )
