"""GG104: an output comes back as a part of a reduction."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.outputs import Output
from gg_datalog.result.placement import names_text, some
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG104",
    title="an output comes back as a part of a reduction",
    level="error",
    note="""
Each rank returns what its own share adds to the output. Who takes one of these for the output
has too little.""",
    remedy="""
Put an all-reduce (or reduce-scatter) before the output. If the parts are meant to be added up
later, declare the output partial: `extract --allow-partial SEQ`.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 6]
y = mm(x, w)
return y""",
        wrong="""
x: f32[4, 4]
w: f32[4, 6]
y = mm(x, w)
return y""",
        right="""
x: f32[4, 4]
w: f32[4, 6]
y = mm(x, w)
return all_reduce(y, "sum", "g")""",
        says=(
            "`y` on ranks 0-1: each rank returns only its part of `y`: the reduction over "
            "the ranks is missing"
        ),
    ),
    certain=True,
)


def at_output(output: Output) -> Finding | None:
    """Parts of an output that come back."""
    if not output.is_part:
        return None
    text = (
        f"{output.names}: each rank returns only its part of `{output.seq}`: the reduction over "
        "the ranks is missing"
    )
    effect, certain = "every rank returns too little", not output.scene.fades
    return MISTAKE.finding(text, effect=effect, certain=certain, **output.part)


def of_several(outputs: Sequence[Output]) -> str:
    """Parts of several outputs."""
    names = names_text([name for output in outputs for name in output.dist])
    return (
        f"{names}: each rank returns only its part of {len(outputs)} outputs "
        f"({some([f'`{output.told}`' for output in outputs])}): the reduction over the ranks is "
        "missing"
    )
