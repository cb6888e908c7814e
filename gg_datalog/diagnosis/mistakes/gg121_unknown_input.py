"""GG121: an input of which nothing is known stands in the way."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.unknowns import Obstacle
from gg_datalog.result.reasons import Reason
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG121",
    title="an input of which nothing is known stands in the way",
    level="warning",
    note="""
No row of the input relations says what the ranks hold of this input, so nothing that is
computed from it can be compared. The verdict is inconclusive.""",
    remedy="""
Add rows for it to `relations.json` (docs/format.md), or to `relations.toml` where the case is
captured.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 6]
return mm(x, w)""",
        wrong="""
x: f32[4, 8]
w: f32[8, 6]
return mm(x, w)""",
        relate={"w": []},
        right="""
x: f32[4, 8]
w: f32[8, 6]
return mm(x, w)""",
        says="`w` (w) stands in the way: no input relation speaks of it",
    ),
)


def in_the_way(obstacle: Obstacle) -> Finding | None:
    """The break is at an input of which nothing is known."""
    if obstacle.reason != Reason.OPAQUE:
        return None
    return MISTAKE.finding(obstacle.text, **obstacle.where)
