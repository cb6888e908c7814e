"""GG130: extraction warned."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG130",
    title="extraction warned",
    level="warning",
    note="""
Something in the graphs or the relations looks unusual. What is doubtful is left out, never
guessed.""",
    remedy="""
Read the text: it names the file and what to check.""",
)


def extraction_warnings(scene: Scene) -> Iterator[Finding]:
    """What extraction said."""
    for (text,) in scene.rows("SELECT text FROM warning"):
        yield MISTAKE.finding(text)
