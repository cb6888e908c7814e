"""Notes about floating-point types: where the ranks compute in another one."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis import finding
from gg_datalog.findings import Kind
from gg_datalog.report import Finding
from gg_datalog.scene import Scene
from gg_datalog.wording import dtype_text, names_text


def precision(scene: Scene) -> Iterator[Finding]:
    """The first tensor for each pair of types that differ between the sides."""
    for tensor, mine, theirs, dists, more in scene.rows(_DIFFERENT):
        of, names = scene.seq(tensor), scene.names(dists)
        here, there = (", ".join(map(dtype_text, types)) for types in (theirs, mine))
        behind = f", and {more} more after it" if more else ""
        yield finding(
            Kind.PRECISION,
            f"{names_text(names)} is {here} where the sequential `{of.node}` is {there}{behind}",
            seq=of.node,
            dist=tuple(names),
            trigger="a cast is on one side only, or inputs have other types",
            effect="the numbers differ by rounding, which the verdict does not look at",
            expected=there,
            found=here,
        )


# What the ranks' tensors that hold a sequential one are, against what the latter is.
_DIFFERENT = """
    WITH typed AS MATERIALIZED (
        SELECT side, tensor, list(DISTINCT dtype ORDER BY dtype) AS types,
               min(position) AS position
        FROM graph_node WHERE tensor <> '' AND dtype LIKE '%float%'
        GROUP BY side, tensor
    ),
    pair AS MATERIALIZED (
        SELECT h.seq, h.dist, s.types AS mine, d.types AS theirs, s.position
        FROM (SELECT DISTINCT seq, dist FROM holds) h
        JOIN base_tensor b ON b.side = 'seq' AND b.tensor = h.seq AND b.kind <> 'constant'
        JOIN typed s ON s.side = 'seq' AND s.tensor = h.seq
        JOIN typed d ON d.side = 'dist' AND d.tensor = h.dist
    ),
    differs AS (
        SELECT seq, mine, theirs, min(position) AS position, list(dist ORDER BY dist) AS dists
        FROM pair WHERE NOT list_has_all(mine, theirs) GROUP BY seq, mine, theirs
    )
    SELECT arg_min(seq, position), any_value(mine), any_value(theirs), arg_min(dists, position),
           count(DISTINCT seq) - 1
    FROM differs GROUP BY mine, theirs ORDER BY min(position), mine, theirs"""
