"""GG157: parts of one random draw that draw the same numbers."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.draws import draws
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG157",
    title="parts of one random draw that draw the same numbers",
    level="error",
    note="""
The program seeds its generators, and ranks that hold different elements of one activation draw
for them with the same seed in the same state: the masks are copies of each other, where the
sequential program draws independent ones. Nothing crashes; dropout is correlated between the
shards.""",
    remedy="""
Give each rank that holds a shard a seed of its own (as Megatron's tensor-parallel generator
does), and keep one seed for what is replicated.""",
    example=Example(
        sequential="""
x: f32[8, 4]
return native_dropout(x, 0.5, True)[0]""",
        wrong="""
x: f32[4, 4]
return native_dropout(x, 0.5, True, drawn="1234:a")[0]""",
        right="""
x: f32[4, 4]
return native_dropout(x, 0.5, True, drawn=f"{1234 + rank}:{'ab'[rank]}")[0]""",
        says=(
            "`native_dropout` on ranks 0-1 hold different elements of `native_dropout`, "
            "and draw the same numbers (seed 1234)"
        ),
    ),
    certain=True,
    static=True,
)


def repeated_draws(scene: Scene) -> Iterator[Finding]:
    """Ranks that draw the same numbers for different elements, by sequential draw."""
    for one in draws(scene, "draw_repeated"):
        text = f"{one.names} hold different elements of `{one.seq}`, and draw the same numbers"
        yield MISTAKE.finding(f"{text} ({one.given})", seq=one.seq, dist=one.dist)
