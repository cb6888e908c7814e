"""GG118: an operator that needs a whole dimension has a shard of it."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.result.placement import names_text
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG118",
    title="an operator that needs a whole dimension has a shard of it",
    level="error",
    note="""
A softmax, a norm or a sort looks at all of a dimension at once. On a shard it normalises over
the shard, and nothing that is added up later makes that right.""",
    remedy="""
Gather the dimension before the operator, shard another dimension, or use an implementation
that exchanges the statistics between the ranks.""",
    example=Example(
        sequential="""
x: f32[4, 8]
return _softmax(x, 1, False)""",
        wrong="""
x: f32[4, 4]
return _softmax(x, 1, False)""",
        right="""
x: f32[4, 4]
a = all_gather_into_tensor(t(x), 2, "g")
return _softmax(t(a), 1, False)""",
        says=(
            "`out` on ranks 0-1 (aten._softmax.default) works over 4 positions of a "
            "dimension that has 8 in the sequential `out`: every rank does it over its own "
            "shard only"
        ),
    ),
)


def at_break(place: Break) -> Finding | None:
    """An operator that needs all of a dimension and has a shard of it."""
    rows = place.scene.rows(_WHOLE, place.seq, place.ranged)
    if not rows:
        return None
    of, (_, mine, whole) = place.of, rows[0]
    names = place.scene.names([dist for dist, *_ in rows])
    return MISTAKE.finding(
        f"{names_text(names)} ({of.target}) works over {mine} positions of a dimension that has "
        f"{whole} in the sequential `{of.node}`: every rank does it over its own shard only",
        seq=of.node,
        dist=tuple(names),
        trigger=f"{of.target} looks at a whole dimension at once; the ranks have shards of {mine}",
        effect=f"each rank computes `{of.node}` as if its shard were everything",
        expected=f"{of.target} over {whole} positions",
        found=f"{of.target} over {mine} positions",
        outputs=place.outputs,
    )


_WHOLE = """
    SELECT r.gives, b.extent, a.extent FROM result_of q JOIN result_of r ON true
    JOIN seq_operator s ON s."by" = q."by" JOIN dist_operator d ON d."by" = r."by"
    JOIN label_of a ON a.shaped = s.shaped JOIN label_of b ON b.shaped = d.shaped
    WHERE q.gives = ? AND r.gives IN (SELECT unnest(?)) AND s.signed = d.signed
      AND a.factor = b.factor AND a.kind = 'whole' AND b.kind = 'whole' AND b.extent < a.extent
      AND r.gives NOT IN (  -- a lookup in a shard whose other rows are hidden
        SELECT l.gives FROM dist_lookup l
        JOIN dist_lookup h ON h."table" = l."table" AND h.ids = l.ids
        JOIN lookup_masked m ON m."by" = h."by")
    ORDER BY ALL"""
