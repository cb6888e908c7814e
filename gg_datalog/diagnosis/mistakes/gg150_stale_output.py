"""GG150: an output comes back as it was before an operator."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.result.names import ranked
from gg_datalog.result.placement import names_text, some
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG150",
    title="an output comes back as it was before an operator",
    level="error",
    note="""
What is returned is a tensor from which the output is computed, not the output: a result that
was dropped, an update that is not stored, a return of the wrong name.""",
    remedy="""
Return what the operator gives, and keep it where the operator works out of place.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 8]
h = mm(x, w)
return tanh(h)""",
        wrong="""
x: f32[4, 8]
w: f32[8, 8]
h = mm(x, w)
y = tanh(h)
return h""",
        right="""
x: f32[4, 8]
w: f32[8, 8]
h = mm(x, w)
return tanh(h)""",
        says=(
            "`h` on ranks 0-1, returned for `out`, is still `h`: `out` (aten.tanh.default) "
            "is not applied to it"
        ),
    ),
    certain=True,
)


def at_break(place: Break) -> Finding | None:
    """An output for which the ranks return something that comes before it, where nothing comes
    close to it."""
    if place.dists:
        return None
    scene, of = place.scene, place.of
    found: dict[str, set[str]] = {}
    wanted = {}
    for wants, node, dist, held in scene.rows(_EARLIER, place.seq):
        found.setdefault(held, set()).add(dist)
        wanted[wants] = node
    if not found:
        return None
    earlier = scene.seq(next(iter(found)))
    names = sorted({d for dists in found.values() for d in dists}, key=ranked)
    nodes = tuple(dict.fromkeys(wanted.values()))
    outputs = some([f"`{node}`" for node in nodes])
    return MISTAKE.finding(
        f"{names_text(names)}, returned for {outputs}, is still `{earlier.node}`: `{of.node}` "
        f"({of.target}) is not applied to it",
        seq=of.node,
        dist=tuple(names),
        trigger=f"what is returned is a tensor from which {outputs} is only computed later",
        effect=f"whoever reads {outputs} gets `{earlier.node}`",
        expected=nodes[0],
        found=earlier.node,
        outputs=nodes,
        certain=bool(scene.rows(_COMPUTED, place.seq)),
    )


# What only puts elements elsewhere may be made up for.
_COMPUTED = """
    SELECT 1 FROM result_of r JOIN seq_operator s ON s."by" = r."by" WHERE r.gives = ? LIMIT 1"""

_EARLIER = """
    WITH RECURSIVE before(wants, tensor) AS (
        SELECT w.wants, n.needs FROM wanted w JOIN seq_break c ON c.wants = w.wants
        JOIN seq_needs n ON n."of" = c.tensor
        WHERE c.tensor = ?
        UNION SELECT b.wants, n.needs FROM before b JOIN seq_needs n ON n."of" = b.tensor
    )
    SELECT DISTINCT r.wants, o.seq, 'r' || r.rank || '.' || m.dist, h.seq
    FROM returned r JOIN returned_name m USING (wants, rank) JOIN output_name o USING (wants)
    JOIN holds h ON h.dist = r."of" AND NOT is_open(h.parts) AND is_one(h.times)
    JOIN before b ON b.wants = r.wants AND b.tensor = h.seq
    WHERE r.wants NOT IN (SELECT wants FROM output_mapped)
    ORDER BY ALL"""
