"""GG135: nobody uses what a collective gives."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.placement import names_text
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG135",
    title="nobody uses what a collective gives",
    level="note",
    note="""
The ranks exchange tensors, and no rank returns anything that comes of it. That costs time only,
unless the result was meant to be used: a reduction of a copy, or into a name that is not read.""",
    remedy="""
Remove the call, or use what it gives. `dist.all_reduce(x.contiguous())` reduces a copy where `x`
is not contiguous.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 6]
y = mm(x, w)
return relu(y)""",
        wrong="""
x: f32[4, 8]
w: f32[8, 6]
y = mm(x, w)
z = all_reduce(y, "sum", "g")
return relu(y)""",
        right="""
x: f32[4, 8]
w: f32[8, 6]
y = mm(x, w)
return relu(y)""",
        says="nobody uses what all_reduce `z` on ranks 0-1 gives",
    ),
)


def unused_collectives(scene: Scene) -> Iterator[Finding]:
    """One finding per call."""
    for kind, nodes in scene.rows(_UNUSED):
        text = f"nobody uses what {kind} {names_text(nodes)} gives"
        yield MISTAKE.finding(text, dist=tuple(nodes), effect="the ranks wait for each other")


_UNUSED = """
    SELECT kind, list('r' || rank || '.' || node ORDER BY rank) FROM collective_unused
    GROUP BY kind, node ORDER BY min(instance)"""
