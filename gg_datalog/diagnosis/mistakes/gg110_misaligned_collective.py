"""GG110: a collective does not line up between ranks."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.placement import names_text
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG110",
    title="a collective does not line up between ranks",
    level="error",
    note="""
Ranks of one group call different collectives, or the same with other shapes, other reductions
or in another order. On a machine that hangs or mixes up data; nothing is derived from it.""",
    remedy="""
Make all ranks of the group call the same collectives in the same order. A branch on the rank,
or a group that some rank does not have, is the usual cause.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 6]
return mm(x, w)""",
        wrong="""
x: f32[4, 4]
w: f32[4, 6]
y = mm(x, w)
return all_reduce(y, "sum" if rank == 0 else "max", "g")""",
        right="""
x: f32[4, 4]
w: f32[4, 6]
y = mm(x, w)
return all_reduce(y, "sum", "g")""",
        says=(
            "all_reduce `out` on ranks 0-1 does not line up between ranks: all_reduce(sum) "
            "of float32[4, 6] meets all_reduce(max) of float32[4, 6]"
        ),
    ),
    certain=True,
    static=True,
    repairs=(),
)


def misaligned_collectives(scene: Scene) -> Iterator[Finding]:
    """One finding per call that does not line up; ranks that call it alike share it."""
    for kind, _, called, problem in scene.rows(_CALLS):
        yield MISTAKE.finding(
            f"{kind} {names_text(called)} does not line up between ranks: {problem}",
            dist=tuple(called),
            trigger=problem,
            effect="the ranks wait for each other, or get data that is not meant for them",
        )


_CALLS = """
    SELECT c.kind, c.node, list('r' || c.rank || '.' || c.node ORDER BY c.rank),
           arg_min(c.problem, c.rank)
    FROM collective_mismatch c
    LEFT JOIN graph_node g ON g.side = 'dist' AND g.rank = c.rank AND g.name = c.node
    GROUP BY c.kind, c.node ORDER BY min(c.rank), min(g.position)"""
