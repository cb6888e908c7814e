"""GG114: a value that is whole already is added up over the ranks."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.factors import Counted
from gg_datalog.diagnosis.sites.outputs import Output
from gg_datalog.result.placement import names_text, ranks_text, some
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG114",
    title="a value that is whole already is added up over the ranks",
    level="error",
    note="""
Every rank of the group has the complete tensor, so the reduction multiplies it by the number
of ranks. Two layers that both call the all-reduce, or a hook beside an explicit one, do that.""",
    remedy="""
Remove one of the reductions, or average if replicas are meant to be averaged.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 6]
y = mm(x, w)
return relu(y)""",
        wrong="""
x: f32[4, 4]
w: f32[4, 6]
y = all_reduce(mm(x, w), "sum", "g")
z = all_reduce(y, "sum", "g")
return relu(z)""",
        right="""
x: f32[4, 4]
w: f32[4, 6]
y = all_reduce(mm(x, w), "sum", "g")
return relu(y)""",
        says=(
            "`z` on ranks 0-1 adds up over ranks 0-1 what each of them has whole already: "
            "2 times `y`"
        ),
    ),
    certain=True,
    explains=True,
)


def at_factor(counted: Counted) -> Finding | None:
    """A reduction over ranks of what they have whole."""
    if not counted.summed or not counted.whole:
        return None
    node = counted.of.node
    text = (
        f"{names_text(counted.factor.names)} adds up over {ranks_text(counted.ranks)} what each of "
        f"them has whole already: {counted.times} times `{node}`"
    )
    trigger = f"every operand of the reduction is all of `{node}`: it is reduced once too often"
    return MISTAKE.finding(text, trigger=trigger, **counted.where)


def of_several(outputs: Sequence[Output]) -> str:
    """Several outputs that are added up once too often."""
    factors = [output.counted for output in outputs if output.counted is not None]
    names = list(dict.fromkeys(name for one in factors for name in one.factor.names))
    nodes = list(dict.fromkeys(f"{one.times} times `{one.of.node}`" for one in factors))
    return (
        f"{names_text(names)} add up over {ranks_text(factors[0].ranks)} what each of them has "
        f"whole already: {some(nodes)}"
    )
