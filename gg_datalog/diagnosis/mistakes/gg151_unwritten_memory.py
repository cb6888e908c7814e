"""GG151: memory is used that nothing has written."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.result.names import ranked
from gg_datalog.result.placement import names_text, ranks_text
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG151",
    title="memory is used that nothing has written",
    level="error",
    note="""
A buffer comes from `empty` and is read before anything is written into it. What it holds
differs from run to run; tests often see zeros.""",
    remedy="""
Write the buffer first (a receive, a copy, an in-place collective whose result is used), or
begin with zeros.""",
    example=Example(
        sequential="""
x: f32[4, 8]
return relu(x)""",
        wrong="""
x: f32[4, 8]
e: f32[4, 8] = empty([4, 8])
return relu(e)""",
        right="""
x: f32[4, 8]
return relu(x)""",
        says=(
            "`e` on ranks 0-1 is memory that nothing has written; it is used where `out` "
            "(aten.relu.default) is to be computed"
        ),
    ),
    certain=True,
    explains=True,
)


def at_break(place: Break) -> Finding | None:
    """Memory that nobody has written, at a break or going into it."""
    dists = place.dists or place.returned
    found = [tensor for (tensor,) in place.scene.rows(_UNWRITTEN, dists, dists)]
    if not found:
        return None
    of, names = place.of, place.scene.names(found)
    ranks = [ranked(name)[0] for name in names]
    return MISTAKE.finding(
        f"{names_text(names)} is memory that nothing has written; it is used where `{of.node}` "
        f"({of.target}) is to be computed",
        seq=of.node,
        dist=tuple(names),
        trigger="a tensor is allocated, and nothing writes it before it is read",
        effect=f"what is to be `{of.node}` depends on what was in memory before",
        found=f"uninitialised memory on {ranks_text(ranks)}",
        outputs=place.outputs,
    )


_UNWRITTEN = """
    SELECT tensor FROM base_tensor
    WHERE side = 'dist' AND kind = 'uninitialised' AND (
        tensor IN (SELECT unnest(?))
        OR tensor IN (
            SELECT needs FROM tensor_needs WHERE side = 'dist' AND tensor IN (SELECT unnest(?))
        )
    ) ORDER BY tensor"""
