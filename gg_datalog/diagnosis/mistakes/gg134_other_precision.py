"""GG134: the ranks compute in another precision."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.placement import dtype_text, names_text
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG134",
    title="the ranks compute in another precision",
    level="note",
    note="""
From here on the ranks have another floating-point type than the sequential program. Casts
between float types are taken as the identity, so the verdict does not depend on it; the
numbers do.""",
    remedy="""
Nothing, if it is meant. Else cast on both sides, or reduce before the cast: a sum of many
small numbers in half precision loses most.""",
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
h = _to_copy(y, dtype="float16")
z = all_reduce(h, "sum", "g")
return relu(z)""",
        says=("`y`, `z` on ranks 0-1 is f16 where the sequential `y` is f32, and 1 more after it"),
    ),
)


def other_precisions(scene: Scene) -> Iterator[Finding]:
    """The first tensor for each pair of types that differ between the sides."""
    for tensor, mine, theirs, dists, more in scene.rows(_DIFFERENT):
        of, names = scene.seq(tensor), scene.names(dists)
        here, there = dtype_text(theirs), ", ".join(map(dtype_text, mine))
        behind = f", and {more} more after it" if more else ""
        yield MISTAKE.finding(
            f"{names_text(names)} is {here} where the sequential `{of.node}` is {there}{behind}",
            seq=of.node,
            dist=tuple(names),
            trigger="a cast is on one side only, or inputs have other types",
            effect="the numbers differ by rounding, which the verdict does not look at",
            expected=there,
            found=here,
        )


# Types that the ranks' tensors have, and the sequential ones that they hold have not.
_DIFFERENT = """
    WITH typed AS MATERIALIZED (
        SELECT side, tensor, dtype, min(position) AS position
        FROM graph_node WHERE tensor <> '' AND dtype LIKE '%float%' GROUP BY side, tensor, dtype
    ),
    mine AS MATERIALIZED (
        SELECT t.tensor, list(t.dtype ORDER BY t.dtype) AS types, min(t.position) AS position
        FROM typed t JOIN base_tensor b ON b.side = 'seq' AND b.tensor = t.tensor
        WHERE t.side = 'seq' AND b.kind <> 'constant' GROUP BY t.tensor
    ),
    differs AS (
        SELECT h.seq, m.types, d.dtype, m.position, list(h.dist ORDER BY h.dist) AS dists
        FROM (SELECT DISTINCT seq, dist FROM holds) h
        JOIN mine m ON m.tensor = h.seq
        JOIN typed d ON d.side = 'dist' AND d.tensor = h.dist
        WHERE NOT list_contains(m.types, d.dtype) GROUP BY h.seq, m.types, d.dtype, m.position
    )
    SELECT arg_min(seq, position), types, dtype, arg_min(dists, position), count(DISTINCT seq) - 1
    FROM differs GROUP BY types, dtype ORDER BY min(position), types, dtype"""
