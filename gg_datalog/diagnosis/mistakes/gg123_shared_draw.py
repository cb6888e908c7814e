"""GG123: random draws do not belong together one to one."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG123",
    title="random draws do not belong together one to one",
    level="warning",
    note="""
A rank and the sequential program draw random numbers (dropout) for elements that hold the same
values, and nothing says which draw stands for which. That draws are paired is taken on trust,
but not that one draw stands for two.""",
    remedy="""
Let each rank draw for the elements that it has, once, as the sequential program does.""",
    example=Example(
        sequential="""
x: f32[4, 8]
a = dropout(x, 0.5, True)
return cat([a, a], 0)""",
        wrong="""
x: f32[4, 8]
return dropout(cat([x, x], 0), 0.5, True)""",
        right="""
x: f32[4, 8]
a = dropout(x, 0.5, True)
return cat([a, a], 0)""",
        says=(
            "elements of the random draws `r0.out` and `a` do not belong together one to "
            "one: they are drawn for elements that hold the same, and nothing says which "
            "is which"
        ),
    ),
)


def shared_draws(scene: Scene) -> Iterator[Finding]:
    """The first pair of draws that cannot be told apart."""
    for dist, seq in scene.rows("SELECT dist, seq FROM draw_shared ORDER BY ALL LIMIT 1"):
        yield MISTAKE.finding(
            f"elements of the random draws `{dist}` and `{seq}` do not belong together one to one: "
            "they are drawn for elements that hold the same, and nothing says which is which",
            seq=seq,
            dist=(dist,),
        )
