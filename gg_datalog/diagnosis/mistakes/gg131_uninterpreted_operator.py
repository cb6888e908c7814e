"""GG131: an operator that no rule describes."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.unknowns import unknowns
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG131",
    title="an operator that no rule describes",
    level="note",
    note="""
Equal operands give equal results, and nothing more is known of it. That is enough where both
sides call it with the same whole tensors. A kernel that is no function of its operands would
have to be known.""",
    remedy="""
Nothing, if the outputs are mapped. Else describe it: `run --operators FILE`
(docs/operators.md).""",
    example=Example(
        sequential="""
x: f32[4, 8]
h: f32[4, 8] = my.kernel(x)
return relu(h)""",
        wrong="""
x: f32[4, 8]
h: f32[4, 8] = my.kernel(x)
return relu(h)""",
        says=(
            "my.kernel.default is not interpreted (not in the operator table): equal "
            "operands give equal results, and nothing more"
        ),
    ),
)


def uninterpreted_operators(scene: Scene) -> Iterator[Finding]:
    """One finding per operator and reason."""
    for one in unknowns(scene, "unsupported_operator", "target"):
        text = (
            f"{one.subject} is not interpreted ({one.reason}): equal operands give equal results, "
            "and nothing more"
        )
        yield MISTAKE.finding(text, seq=one.seq, dist=one.dist)
