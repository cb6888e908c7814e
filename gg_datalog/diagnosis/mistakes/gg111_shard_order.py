"""GG111: shards are put together in the wrong order or along the wrong dimension."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.concatenations import Concatenation
from gg_datalog.result.placement import names_text, spans_text
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG111",
    title="shards are put together in the wrong order or along the wrong dimension",
    level="error",
    note="""
A gather or concatenation has all the pieces of a tensor, but not at their places. Shapes fit,
so nothing crashes; rows or features are mixed up.""",
    remedy="""
Compare the order of the group's members with the order in which the input was cut, and the
dimension of the gather (an all-gather stacks along dimension 0) with the one that is sharded.""",
    example=Example(
        sequential="""
x: f32[4, 8]
h = relu(x)
return tanh(h)""",
        wrong="""
x: f32[2, 8]
h = relu(x)
y = all_gather_into_tensor(h, 2, "g")
return tanh(y)""",
        groups={"g": [[1, 0]], "h": [[0, 1]]},
        right="""
x: f32[2, 8]
h = relu(x)
y = all_gather_into_tensor(h, 2, "h")
return tanh(y)""",
        says=(
            "`y` on ranks 0-1 (_c10d_functional.all_gather_into_tensor.default) puts the "
            "shards of `h` together in the wrong order: along dim 0 come 2:4 (rank 1), 0:2 "
            "(rank 0)"
        ),
    ),
)


def at_concatenation(joined: Concatenation) -> Finding | None:
    """All pieces are there, but in another order or along another dimension."""
    if not joined.whole:
        return None
    if sorted(joined.spans) != joined.spans:
        return _other_order(joined)
    return _other_dimension(joined) if joined.along is False else None


def _other_order(joined: Concatenation) -> Finding:
    node, dim, spans = joined.of.node, joined.dim, spans_text(joined.spans)
    text = (
        f"{names_text(joined.names)} ({joined.target}) puts the shards of `{node}` together in the "
        f"wrong order: along dim {dim} come {joined.told}"
    )
    return MISTAKE.finding(
        text,
        trigger=f"shards of dim {dim} ({joined.extent}) are put together as {spans}",
        effect=f"what is to be `{node}` has its pieces at each other's places",
        **joined.where,
    )


def _other_dimension(joined: Concatenation) -> Finding:
    node, dim = joined.of.node, joined.dim
    text = (
        f"{names_text(joined.names)} ({joined.target}) puts the shards of `{node}` together along "
        f"another dimension than dim {dim}, along which they are cut: {joined.told}"
    )
    along = joined.members[0].dim
    return MISTAKE.finding(
        text,
        trigger=f"shards of dim {dim} are put together along dim {along} of the operands",
        effect=f"what is to be `{node}` has another layout",
        **joined.where,
    )
