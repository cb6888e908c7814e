"""GG119: a gradient is not added up over the ranks."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.outputs import Output
from gg_datalog.diagnosis.sites.reductions import Reduction
from gg_datalog.result.placement import names_text, some
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG119",
    title="a gradient is not added up over the ranks",
    level="error",
    note="""
The gradient of a parameter that several ranks have comes back, or is used in the update, as
each rank's own share of it: of its own tokens, samples or heads. The replicas of the parameter
drift apart.""",
    remedy="""
Add an all-reduce over the ranks that have the parameter (a norm's weight under sequence
parallel, every parameter under data parallel), before the optimizer takes the gradient.""",
    example=Example(
        sequential="""
x: f32[8, 4]
d: f32[8, 6]
grad_w = mm(t(x), d)
return grad_w""",
        wrong="""
x: f32[4, 4]
d: f32[4, 6]
grad_w = mm(t(x), d)
return grad_w""",
        right="""
x: f32[4, 4]
d: f32[4, 6]
grad_w = all_reduce(mm(t(x), d), "sum", "g")
return grad_w""",
        names=["grad_w"],
        kinds=["gradient"],
        says=(
            "`grad_w` on ranks 0-1: gradient `grad_w` comes back as what each rank's own "
            "share gives to it: it is not added up over the ranks"
        ),
    ),
    certain=True,
    explains=True,
)


def at_reduction(reduction: Reduction) -> Finding | None:
    """The parts are each rank's share of a gradient, which goes into one update: all that waits for
    it, of what the program has a name for, is the gradient or the new value of one parameter."""
    kinds = [kind for (kind,) in reduction.scene.rows(_KINDS, list(reduction.wants))]
    if reduction.late or len(kinds) != 1 or kinds[0] is None or _forward(reduction):
        return None
    text = (
        f"gradient {reduction.named(reduction.opened)} goes into {reduction.used_by} without being "
        "added up over the ranks: each rank has only what its own share gives to "
        f"`{reduction.of.node}`"
    )
    certain = not reduction.may_be_completed
    return MISTAKE.finding(text, certain=certain, **reduction.unreduced)


def of_reductions(reductions: Sequence[Reduction]) -> str:
    """Several gradients that go into updates."""
    first = reductions[0]
    opened = [dist for reduction in reductions for dist in reduction.opened]
    users = [dist for reduction in reductions for dist in reduction.users]
    return (
        f"{len(reductions)} gradients, {first.named(opened)}, go into {first.named(users)} without "
        "being added up over the ranks: each rank has only what its own share gives to them"
    )


def of_outputs(outputs: Sequence[Output]) -> str:
    """Several gradients that come back."""
    names = names_text([name for output in outputs for name in output.dist])
    return (
        f"{names}: {len(outputs)} gradients ({some([f'`{output.told}`' for output in outputs])}) "
        "come back as what each rank's own share gives to them: they are not added up over the "
        "ranks"
    )


def at_output(output: Output) -> Finding | None:
    """A gradient comes back as each rank's share of it."""
    if not output.is_part or output.kind is None:
        return None
    text = (
        f"{output.names}: gradient `{output.name or output.seq}` comes back as what each rank's "
        "own share gives to it: it is not added up over the ranks"
    )
    effect = "every rank goes on with another gradient, and the replicas drift apart"
    certain = not output.scene.fades
    return MISTAKE.finding(text, effect=effect, certain=certain, **output.part)


def _forward(reduction: Reduction) -> bool:
    """Does something that is no gradient and no update depend on it? Then it is no gradient."""
    return bool(reduction.scene.rows(_RESULTS, reduction.origin))


_RESULTS = """
    WITH RECURSIVE after(tensor) AS (
        SELECT b.tensor FROM base_tensor o JOIN base_tensor b USING (side, node)
        WHERE o.side = 'seq' AND o.tensor = ?
        UNION
        SELECT n.tensor FROM after a JOIN tensor_needs n ON n.side = 'seq' AND n.needs = a.tensor
    )
    SELECT 1 FROM wanted w JOIN after a ON a.tensor = w."of"
    WHERE w.wants NOT IN (SELECT wants FROM output_kind)
      AND EXISTS (SELECT 1 FROM output_name o WHERE o.wants = w.wants AND o.name <> '') LIMIT 1"""

_KINDS = """
    SELECT any_value(k.kind) FROM output_name o LEFT JOIN output_kind k USING (wants)
    WHERE (o.name <> '' OR k.kind IS NOT NULL) AND wants IN (SELECT unnest(?))
    GROUP BY coalesce(nullif(o.name, ''), o.seq)"""
