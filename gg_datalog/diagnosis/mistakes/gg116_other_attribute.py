"""GG116: an operator has another attribute."""

from __future__ import annotations

import re

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.result.placement import names_text, some
from gg_datalog.result.reasons import Reason
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG116",
    title="an operator has another attribute",
    level="error",
    note="""
The same operator on the same operands, with another number or dimension: eps, axis,
probability, window.""",
    remedy="""
Give both sides the same configuration; default arguments are a usual cause.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8]
b: f32[8]
return native_layer_norm(x, [8], w, b, 1e-5)[0]""",
        wrong="""
x: f32[4, 8]
w: f32[8]
b: f32[8]
return native_layer_norm(x, [8], w, b, 1e-6)[0]""",
        right="""
x: f32[4, 8]
w: f32[8]
b: f32[8]
return native_layer_norm(x, [8], w, b, 1e-5)[0]""",
        says=(
            "`native_layer_norm` on ranks 0-1 (aten.native_layer_norm.default) has 1e-06, "
            "the sequential `native_layer_norm` has 1e-05"
        ),
    ),
)


def at_break(place: Break) -> Finding | None:
    """The same operator with other attributes, or over another dimension."""
    scene, of, dists = place.scene, place.of, [*place.at(Reason.ATTRIBUTE), *place.ranged]
    rows = scene.rows(_ATTRIBUTES, place.seq, dists)
    told = {d: t for d, a, b in rows if (t := _unlike(a, b)) is not None}
    if not told:
        told = {d: (a, b) for d, a, b in scene.rows(_DIMENSIONS, place.seq, dists)}
    if not told:
        return None
    mine, right = next(iter(told.values()))
    names = scene.names(told)
    return MISTAKE.finding(
        f"{names_text(names)} ({of.target}) has {mine}, the sequential `{of.node}` has {right}",
        seq=of.node,
        dist=tuple(names),
        trigger=f"an attribute of {of.target} differs: {mine}, not {right}",
        effect=f"what is to be `{of.node}` is computed in another way",
        expected=f"{of.target} with {right}",
        found=f"{of.target} with {mine}",
        outputs=place.outputs,
    )


def _unlike(seq: str, dist: str) -> tuple[str, str] | None:
    """The words in which two signatures differ: those of the ranks, and the sequential ones."""
    if seq == dist or seq.partition("(")[0] != dist.partition("(")[0]:
        return None
    a, b = (re.split(r"[(),]+", text) for text in (seq, dist))
    pairs = [(y.strip(), x.strip()) for x, y in zip(a, b, strict=False) if x != y]
    if not pairs or len(a) != len(b):
        return dist, seq
    return some([y for y, _ in pairs]), some([x for _, x in pairs])


_ATTRIBUTES = """
    SELECT DISTINCT d.gives, a.attributes, b.attributes
    FROM result_of s JOIN operator_node a ON a."by" = s."by" AND a.side = 'seq'
    JOIN result_of d ON d.gives IN (SELECT unnest($2))
    JOIN operator_node b ON b."by" = d."by" AND b.side = 'dist'
    WHERE s.gives = $1 AND a.target = b.target AND a.attributes <> b.attributes ORDER BY ALL"""

# The same operator, whole or reduced in another dimension of its one operand.
_DIMENSIONS = """
    WITH worked AS (
        SELECT r.gives, list(DISTINCT e.dim ORDER BY e.dim) AS dims, o.signed FROM result_of r
        JOIN (SELECT * FROM seq_operator UNION SELECT * FROM dist_operator) o ON o."by" = r."by"
        JOIN operand_count c ON c."by" = o."by" AND c.total = 1
        JOIN label_of l ON l.shaped = o.shaped AND l.kind IN ('whole', 'sum', 'max', 'min')
        JOIN digit_of e ON e.shaped = o.shaped AND e.label = l.label AND e.place = 0
        WHERE r.gives = $1 OR r.gives IN (SELECT unnest($2)) GROUP BY r.gives, o.signed
    )
    SELECT d.gives, 'dim ' || list_aggregate(d.dims, 'string_agg', ', '),
           'dim ' || list_aggregate(s.dims, 'string_agg', ', ')
    FROM worked s JOIN worked d ON s.gives = $1 AND d.gives <> $1
    WHERE s.dims <> d.dims AND s.signed = d.signed ORDER BY ALL"""
