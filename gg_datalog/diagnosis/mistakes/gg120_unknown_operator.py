"""GG120: an operator that no rule describes stands in the way."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.diagnosis.sites.unknowns import Obstacle
from gg_datalog.result.reasons import Reason
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG120",
    title="an operator that no rule describes stands in the way",
    level="warning",
    note="""
Of an operator that the table does not know only this is used: equal operands give equal
results. A rank that gives it a shard, or other attributes, cannot be followed any further. The
verdict is inconclusive, not that something is wrong.""",
    remedy="""
Describe the operator in a line: `run --operators FILE` (docs/operators.md).""",
    example=Example(
        sequential="""
x: f32[4, 8]
h: f32[4, 8] = my.kernel(x)
return relu(h)""",
        wrong="""
x: f32[2, 8]
h: f32[2, 8] = my.kernel(x)
return relu(h)""",
        right="""
x: f32[2, 8]
w: f32[4, 8] = all_gather_into_tensor(x, 2, "g")
h: f32[4, 8] = my.kernel(w)
return relu(h)""",
        says="`h` (my.kernel.default) stands in the way: not in the operator table",
    ),
)


def in_the_way(obstacle: Obstacle) -> Finding | None:
    """The break is at an operator that no rule describes."""
    if obstacle.reason != Reason.UNSUPPORTED:
        return None
    return MISTAKE.finding(obstacle.text, **obstacle.where)


def at_break(place: Break) -> Finding | None:
    """All that comes close at a break are operators that no rule describes."""
    if list(place.closest) != [Reason.UNSUPPORTED]:
        return None
    return MISTAKE.finding(
        place.unlike,
        seq=place.of.node,
        dist=tuple(place.scene.names(place.near)),
        outputs=place.outputs,
        expected=f"{place.of.target} of what {place.of.node} takes",
    )
