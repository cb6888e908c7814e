"""GG103: an output comes back multiplied by a number."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.factors import Factor
from gg_datalog.diagnosis.sites.outputs import Output
from gg_datalog.result.placement import names_text, some
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG103",
    title="an output comes back multiplied by a number",
    level="error",
    note="""
What the ranks return is right but for a factor. A gradient that is too large by the number of
ranks or micro-batches trains with another learning rate; nothing crashes.""",
    remedy="""
Divide by the number once, at the place that the finding names: average instead of adding up,
or scale the loss before the backward pass.""",
    example=Example(
        sequential="""
x: f32[4, 8]
return mean.dim(x, [0])""",
        wrong="""
x: f32[2, 8]
m = mean.dim(x, [0])
return all_reduce(m, "sum", "g")""",
        right="""
x: f32[2, 8]
m = mean.dim(x, [0])
return all_reduce(m, "avg", "g")""",
        says="`out` on ranks 0-1, returned for `out`, is 2 times `out`",
    ),
    certain=True,
)


NEAR = 1e-6  # what rounding alone makes of 1


def at_output(output: Output) -> Finding:
    """A multiple of an output that comes back: where the factor comes in, if that is known."""
    seq, times = output.seq, output.scene.records.coefficient(output.times)
    told, origin = times.text, _origin(output)
    text = f"{output.names}, returned for `{seq}`, is {told} times `{seq}`"
    if origin is not None and not set(origin.names) <= set(output.dist):
        text = f"a factor comes in at {names_text(origin.names)} ({origin.target}): {text}"
    where = output.where | ({} if origin is None else {"dist": origin.names})
    return MISTAKE.finding(
        text,
        trigger=None if output.factor is None else _brings(output.scene, output.factor),
        effect=f"whoever reads `{seq}` gets {told} times of it",
        expected=seq,
        found=f"{told} x {seq}",
        certain=abs(times.value - 1) > NEAR,
        **where,
    )


def of_several(outputs: Sequence[Output]) -> str:
    """Several outputs that come back multiplied."""
    origins = [_origin(output) for output in outputs]
    times = {output.scene.records.coefficient(output.times).text: None for output in outputs}
    named = [name for output in outputs for name in output.dist]
    text = f"{len(outputs)} outputs ({some([f'`{one.told}`' for one in outputs])}) come back as "
    text += f"{' or '.join(times)} times what they are"
    if (origin := origins[0]) is None:
        return f"{names_text(named)}: {text}"
    nodes = list(dict.fromkeys(name for one in origins if one for name in one.names))
    return f"a factor comes in at {names_text(nodes)} ({origin.target}): {text}"


def _origin(output: Output) -> Factor | None:
    """What does nothing but multiply, and brings the factor in before the output is returned."""
    factor = output.factor
    return factor if factor is not None and factor.scales else None


def _brings(scene: Scene, factor: Factor) -> str:
    """Where the factor comes from."""
    held = [h for h in scene.held(factor.terms, factor.seq) if not h.whole]
    words = scene.relation(factor.seq, held) if held else None
    if words is not None:
        return f"{names_text(factor.names)} ({factor.target}) adds up {words}"
    return f"the factor comes in at {names_text(factor.names)} ({factor.target})"
