"""GG153: an operator is left out on the ranks."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.result.placement import names_text
from gg_datalog.result.reasons import Reason
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG153",
    title="an operator is left out on the ranks",
    level="error",
    note="""
The ranks go on with what the operator takes, as if it were not there: a forgotten residual,
norm, scale or dropout.""",
    remedy="""
Compare the lines around the operator that is named; a branch of a configuration is a usual
cause.""",
    example=Example(
        sequential="""
x: f32[4, 8]
r: f32[4, 8]
h = add(relu(x), r)
return tanh(h)""",
        wrong="""
x: f32[4, 8]
r: f32[4, 8]
h = relu(x)
return tanh(h)""",
        right="""
x: f32[4, 8]
r: f32[4, 8]
h = add(relu(x), r)
return tanh(h)""",
        says=(
            "`h` (aten.add.default) is left out on the ranks: `out` on ranks 0-1 takes "
            "`relu` where the sequential `out` takes `h`"
        ),
    ),
)


def at_break(place: Break) -> Finding | None:
    """An operator whose operand goes on the ranks where its result goes sequentially."""
    scene, of = place.scene, place.of
    rows = scene.rows(_LEFT_OUT, place.seq, place.at(Reason.NO_COUNTERPART))
    if not rows:
        return None
    names = scene.names(dist for dist, *_ in rows)
    user, before = rows[0][1], scene.seq(rows[0][2])
    return MISTAKE.finding(
        f"`{of.node}` ({of.target}) is left out on the ranks: {names_text(names)} takes "
        f"`{before.node}` where the sequential `{user}` takes `{of.node}`",
        seq=of.node,
        dist=tuple(names),
        trigger=f"{names_text(names)} has the operand of `{of.node}` for its own",
        effect=f"everything behind it is computed without `{of.node}`",
        expected=of.node,
        found=before.node,
        outputs=place.outputs,
    )


# An operator of the kind that uses the sequential tensor takes what the tensor is computed from.
_LEFT_OUT = """
    SELECT DISTINCT d.tensor, u.node, n.needs
    FROM tensor_node u
    JOIN tensor_needs v ON v.side = 'seq' AND v.tensor = u.tensor AND v.needs = $1
    JOIN tensor_node d ON d.side = 'dist' AND d.target = u.target
        AND d.tensor IN (SELECT unnest($2))
    JOIN (
        SELECT needs FROM tensor_needs WHERE side = 'seq' AND tensor = $1
        UNION SELECT needs FROM seq_needs WHERE "of" = $1
    ) n ON true
    JOIN holds h ON h.seq = n.needs AND NOT is_open(h.parts)
    JOIN tensor_needs e ON e.side = 'dist' AND e.tensor = d.tensor AND e.needs = h.dist
    WHERE u.side = 'seq' AND NOT EXISTS (
        SELECT 1 FROM tensor_node o JOIN tensor_node q ON q.target = o.target
        JOIN tensor_needs m ON m.side = 'dist' AND m.tensor = q.tensor AND m.needs = h.dist
        WHERE o.side = 'seq' AND o.tensor = $1 AND q.side = 'dist'
    ) ORDER BY ALL"""
