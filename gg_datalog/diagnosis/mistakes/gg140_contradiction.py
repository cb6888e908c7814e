"""GG140: numbers contradict what was derived: a rule is wrong."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Mistake

MISTAKE = Mistake(
    code="GG140",
    title="numbers contradict what was derived: a rule is wrong",
    level="error",
    note="""
`gg-datalog replay` executed both programs, and a relation that the rules derived does not hold
in numbers. The verdict of `run` cannot be trusted for this case.""",
    remedy="""
Please report the case; it is a defect of gg-datalog, or of a row of `--operators`.""",
    repairs=(),
)
