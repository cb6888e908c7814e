"""GG108: a part of a reduction is used without the reduction."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.reductions import Reduction
from gg_datalog.result.placement import names_text, some
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG108",
    title="a part of a reduction is used without the reduction",
    level="error",
    note="""
Of this tensor every rank has only what its own range of a contracted dimension adds up to,
such as a row-parallel linear layer before its all-reduce. It is used as if it were the whole
sum, so everything behind it is wrong, and differently on every rank.""",
    remedy="""
Add up over the ranks right after the operator that is named: an all-reduce, or a
reduce-scatter where each rank goes on with a share.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 6]
y = mm(x, w)
return relu(y)""",
        wrong="""
x: f32[4, 4]
w: f32[4, 6]
y = mm(x, w)
return relu(y)""",
        right="""
x: f32[4, 4]
w: f32[4, 6]
y = all_reduce(mm(x, w), "sum", "g")
return relu(y)""",
        says=(
            "`y` on ranks 0-1: each rank has only its part of `y` (aten.mm.default), but "
            "it goes into `out` as if it were all of it: the reduction over the ranks is "
            "missing"
        ),
    ),
    certain=True,
    explains=True,
)


def at_reduction(reduction: Reduction) -> Finding:
    """Parts go on without a reduction, or before it, and nothing shows that this is right."""
    return _early(reduction) if reduction.late else _never(reduction)


def _never(reduction: Reduction) -> Finding:
    """No reduction at all."""
    of, users, open_still = reduction.of, reduction.used_by, reduction.may_be_completed
    if reduction.unused:
        return _in_vain(reduction)
    part = f"{reduction.named(reduction.opened)}: each rank has only its part of `{of.node}`"
    text = (
        f"{part} ({of.target}), but it goes into {users} as if it were all of it: the reduction "
        "over the ranks is missing"
    )
    if open_still:
        text = (
            f"{part} ({of.target}), and it goes into {users} before anything adds the parts up: no "
            "rule shows that this is made good later on"
        )
    return MISTAKE.finding(text, certain=not open_still, **reduction.unreduced)


def _in_vain(reduction: Reduction) -> Finding:
    """A reduction of which nobody uses what it gives."""
    of, names = reduction.of, names_text(reduction.unused)
    text = (
        f"{names} adds up the parts of `{of.node}` ({of.target}), but nobody uses what it gives: "
        f"what goes into {reduction.used_by} is still each rank's own part"
    )
    where = reduction.unreduced | {"dist": reduction.unused}
    return MISTAKE.finding(text, certain=not reduction.may_be_completed, **where)


def _early(reduction: Reduction) -> Finding:
    """An operator before the reduction of which no rule says what comes of it."""
    of, users = reduction.of, reduction.named(reduction.users)
    adds = reduction.named(reduction.late)
    text = (
        f"{reduction.named(reduction.opened)}: each rank has only its part of `{of.node}` "
        f"({of.target}); it goes into {users} before {adds} reduces, and no rule shows that this "
        "is the same as reducing first"
    )
    trigger = f"{reduction.split}; {adds} reduces what {users} makes of the parts"
    where = reduction.where(reduction.opened, reduction.rows, trigger=trigger)
    return MISTAKE.finding(text, certain=False, **where)


def of_several(reductions: Sequence[Reduction]) -> str:
    """Parts of several tensors, for one of which the reduction is told."""
    first = reductions[0]
    opened = [dist for reduction in reductions for dist in reduction.opened]
    users = [dist for reduction in reductions for dist in reduction.users]
    parts = some(list(dict.fromkeys(f"`{reduction.of.node}`" for reduction in reductions)))
    told = f"{first.named(opened)}: each rank has only its part of {parts} ({first.of.target})"
    if first.unused:
        names = names_text([name for reduction in reductions for name in reduction.unused])
        return (
            f"{names} adds up the parts of {parts}, but nobody uses what it gives: what goes into "
            f"{first.named(users)} is still each rank's own part"
        )
    if first.late:
        adds = first.named(first.late)
        return (
            f"{told}; they go into {first.named(users)} before {adds} reduces, and no rule shows "
            "that this is the same as reducing first"
        )
    if first.may_be_completed:
        return (
            f"{told}, and they go into {first.named(users)} before anything adds the parts up: no "
            "rule shows that this is made good later on"
        )
    return (
        f"{told}, but they go into {first.named(users)} as if they were all of it: the reductions "
        "over the ranks are missing"
    )
