"""GG132: an input of which nothing is known."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.unknowns import unknowns
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG132",
    title="an input of which nothing is known",
    level="note",
    note="""
No input relation speaks of this input. That is harmless where no output depends on it.""",
    remedy="""
Nothing, if the outputs are mapped. Else add rows for it to `relations.json` (docs/format.md).""",
    example=Example(
        sequential="""
x: f32[4, 8]
u: f32[4]
return relu(x)""",
        wrong="""
x: f32[4, 8]
u: f32[4]
return relu(x)""",
        relate={"u": []},
        says="nothing is known of `u`: no input relation speaks of it",
    ),
)


def unrelated_inputs(scene: Scene) -> Iterator[Finding]:
    """One finding per input and reason."""
    for one in unknowns(scene, "opaque_input", "node"):
        text = f"nothing is known of `{one.subject}`: {one.reason}"
        yield MISTAKE.finding(text, seq=one.seq, dist=one.dist)
