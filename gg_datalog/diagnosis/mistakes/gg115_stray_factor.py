"""GG115: a tensor is used multiplied by a number."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.factors import Multiplied
from gg_datalog.result.placement import names_text
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG115",
    title="a tensor is used multiplied by a number",
    level="error",
    note="""
An operator of the ranks takes what the sequential one takes, but for a factor: a scale that is
applied twice, forgotten, or computed from the size of a shard.""",
    remedy="""
Compare the scale at the two lines; a scale that depends on a size has to take the whole size.""",
    example=Example(
        sequential="""
x: f32[4, 8]
h = mul(x, 0.125)
return tanh(h)""",
        wrong="""
x: f32[4, 8]
h = mul(x, 0.25)
return tanh(h)""",
        right="""
x: f32[4, 8]
h = mul(x, 0.125)
return tanh(h)""",
        says=(
            "`h` on ranks 0-1 (aten.mul.default): 1/4 times `x` goes into what is to give "
            "`out` (aten.tanh.default), 1/8 times is right"
        ),
    ),
    certain=True,
)


def at_factors(used: Multiplied) -> Finding:
    """What is multiplied at a break: the nodes that bring the factor in."""
    first, user = used.factors[0], used.place.of
    of = used.place.scene.seq(first.seq)
    alike = [f for f in used.factors if f.seq == first.seq and f.times == first.times]
    names = tuple(dict.fromkeys(name for factor in alike for name in factor.names))
    told, right = first.times.text, first.right.text
    text = (
        f"{names_text(names)} ({first.target}): {told} times `{of.node}` goes into what is to give "
        f"`{user.node}` ({user.target})"
    )
    text += f", {right} times is right" if used.certain else ": no rule shows what comes of it"
    return MISTAKE.finding(
        text,
        seq=user.node,
        dist=names,
        trigger=f"the factor {told} comes in at {first.target}; the sequential program has {right}",
        effect=f"`{user.node}` is computed from {told} times `{of.node}`",
        expected=f"{'' if right == '1' else right + ' x '}{of.node}",
        found=f"{'' if told == '1' else told + ' x '}{of.node}",
        outputs=used.place.outputs,
        certain=used.certain,
    )
