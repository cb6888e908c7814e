"""GG109: an operator that is not linear is applied before the reduction."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.reductions import Reduction
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG109",
    title="an operator that is not linear is applied before the reduction",
    level="error",
    note="""
The ranks do add up, but too late: each applies an activation, a softmax or a norm to its own
part first. The sum of gelu over parts is not gelu of the sum.""",
    remedy="""
Move the reduction in front of the operator, or give the ranks whole features there
(column-parallel instead of row-parallel).""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 6]
y = mm(x, w)
return gelu(y)""",
        wrong="""
x: f32[4, 4]
w: f32[4, 6]
y = mm(x, w)
z = gelu(y)
return all_reduce(z, "sum", "g")""",
        right="""
x: f32[4, 4]
w: f32[4, 6]
y = all_reduce(mm(x, w), "sum", "g")
return gelu(y)""",
        says=(
            "`z` on ranks 0-1 (aten.gelu.default) is applied to the parts of `y` before "
            "`out` on ranks 0-1 adds them up: it is not linear, so this is not the same as "
            "reducing first"
        ),
    ),
    certain=True,
    explains=True,
)


def at_reduction(reduction: Reduction) -> Finding | None:
    """An operator that is not linear takes the parts before a reduction adds them up."""
    if not reduction.late or not reduction.early:
        return None
    users = reduction.scene.things("dist", reduction.users)
    target = users[0].target if users else "an operator"
    adds = reduction.named(reduction.late)
    text = (
        f"{reduction.named(reduction.users)} ({target}) is applied to the parts of "
        f"`{reduction.of.node}` before {adds} adds them up: it is not linear, so this is not the "
        "same as reducing first"
    )
    trigger = f"{reduction.split}; {target} of a sum is not the sum of {target}"
    effect = f"{adds} adds up results of parts, which is another number"
    where = reduction.where(reduction.opened, reduction.rows, trigger=trigger, effect=effect)
    return MISTAKE.finding(text, **where)
