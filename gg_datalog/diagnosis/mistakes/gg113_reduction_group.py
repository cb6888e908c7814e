"""GG113: a reduction runs over the wrong group of ranks."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.factors import Counted
from gg_datalog.diagnosis.sites.reductions import Reduction
from gg_datalog.result.placement import names_text, numbers_text, ranks_text, some
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG113",
    title="a reduction runs over the wrong group of ranks",
    level="error",
    note="""
The group of the reduction is not the one over which the tensor is split. Over too few ranks
the result is still a part, over too many the same part counts several times. Mixing up the
groups of a mesh (tensor for data parallel) does that.""",
    remedy="""
Give the reduction the group of the mesh dimension along which the operand was split.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 6]
y = mm(x, w)
return relu(y)""",
        wrong="""
x: f32[4, 2]
w: f32[2, 6]
y = all_reduce(mm(x, w), "sum", "halves")
return relu(y)""",
        world=4,
        groups={"halves": [[0, 1], [2, 3]], "all": [[0, 1, 2, 3]]},
        right="""
x: f32[4, 2]
w: f32[2, 6]
y = all_reduce(mm(x, w), "sum", "all")
return relu(y)""",
        says=(
            "`y` on ranks 0-3 adds up `y` over the wrong group of ranks (0-1, 2-3): its "
            "parts lie on ranks 0-3, so the result is still only a part"
        ),
    ),
    certain=True,
    explains=True,
)


def at_reduction(reduction: Reduction) -> Finding | None:
    """A reduction over fewer ranks than have parts."""
    narrow, scene = reduction.narrow, reduction.scene
    if not narrow:
        return None
    groups = [
        sorted({r for t in scene.things("dist", scene.sums[d]) for r in t.ranks}) for d in narrow
    ]
    over = some(list(dict.fromkeys(numbers_text(g) for g in groups)))
    text = (
        f"{reduction.named(narrow)} adds up `{reduction.of.node}` over the wrong group of ranks "
        f"({over}): its parts lie on {ranks_text(reduction.ranks)}, so the result is still only a "
        "part"
    )
    trigger = f"{reduction.split}; the group has only ranks {over}"
    effect = f"{reduction.used_by} is computed from a part of the sum"
    found = scene.finest([h for h in scene.held(narrow, reduction.origin) if not h.whole])
    where = reduction.where(narrow, found, trigger=trigger, effect=effect)
    return MISTAKE.finding(text, certain=not reduction.reduced_later(narrow), **where)


def at_factor(counted: Counted) -> Finding | None:
    """A reduction over ranks several of which have the same part."""
    if not counted.summed or counted.copies <= 1:
        return None
    text = (
        f"{names_text(counted.factor.names)} adds up over the wrong group of ranks "
        f"({numbers_text(counted.ranks)}): several of them have the same part of "
        f"`{counted.of.node}`, so it is counted {counted.times} times"
    )
    trigger = f"each part is on {counted.copies} ranks of the group"
    return MISTAKE.finding(text, trigger=trigger, **counted.where)
