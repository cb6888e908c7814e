"""GG101: no equivalent of a sequential operator is found on the ranks."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG101",
    title="no equivalent of a sequential operator is found on the ranks",
    level="error",
    note="""
Everything that the operator takes is there on the ranks, but no rule finds one among their
operators that computes what it computes. What is computed from it cannot be related either, so
this is where to begin. The finding names the operators of the ranks that come closest and how
they differ.""",
    remedy="""
Compare the two source lines. Either the ranks compute something else there, or they compute
the same in a way that no rule knows: `gg-datalog query RESULT blocked_by` shows what comes
closest rank by rank.""",
    example=Example(
        sequential="""
x: f32[4, 8]
h = gelu(x)
return tanh(h)""",
        wrong="""
x: f32[4, 8]
h = relu(x)
return tanh(h)""",
        right="""
x: f32[4, 8]
h = gelu(x)
return tanh(h)""",
        says=(
            "no equivalent of `h` (aten.gelu.default) is found on the ranks, though its "
            "operands are there: another operator on the same operands is `h` on ranks 0-1"
        ),
    ),
)


def at_break(place: Break) -> Finding:
    """What comes closest at a break, where it is none of the mistakes that have a name."""
    scene, of = place.scene, place.of
    things = scene.things("dist", place.near)
    return MISTAKE.finding(
        place.unlike,
        seq=of.node,
        dist=tuple(scene.names(place.near)),
        outputs=place.outputs,
        expected=f"{of.target} of what {of.node} takes",
        found=", ".join(dict.fromkeys(thing.target for thing in things)) or None,
    )
