"""GG158: replicas of one random draw that draw different numbers."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.draws import draws
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG158",
    title="replicas of one random draw that draw different numbers",
    level="error",
    note="""
The program seeds its generators, and ranks that hold the same elements of an activation draw
for them with different seeds, or in different states: their replicas are none any more. What
is computed of them is not what any sequential program computes.""",
    remedy="""
Draw for what is replicated with one seed on all of its ranks, and as often on each of them.""",
    example=Example(
        sequential="""
x: f32[8, 4]
return native_dropout(x, 0.5, True)[0]""",
        wrong="""
x: f32[8, 4]
return native_dropout(x, 0.5, True, drawn=f"{1234 + rank}:{'ab'[rank]}")[0]""",
        right="""
x: f32[8, 4]
return native_dropout(x, 0.5, True, drawn="1234:a")[0]""",
        says=(
            "`native_dropout` on ranks 0-1 hold the same elements of `native_dropout`, and "
            "draw different numbers (seeds 1234, 1235)"
        ),
    ),
    certain=True,
    static=True,
)


def unequal_draws(scene: Scene) -> Iterator[Finding]:
    """Ranks that draw different numbers for the same elements, by sequential draw."""
    for one in draws(scene, "draw_unequal"):
        text = f"{one.names} hold the same elements of `{one.seq}`, and draw different numbers"
        yield MISTAKE.finding(f"{text} ({one.given})", seq=one.seq, dist=one.dist)
