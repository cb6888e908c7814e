"""The tables of rules: what they say is mapped is so by execution, and every relation is right."""

from __future__ import annotations

import numpy as np
from coverage import Coverage
from interpreter import execute
from judge import Judged, check, outputs_right
from kernels_np import NotExecuted
from promotion import Invalid
from relations import Report

# Executed in another way than they are meant.
OTHERWISE = {
    "test_unsound: constant in the relations: of value 2, and 1 is used": (
        "the relations name a constant of known value: extraction says so and leaves them out"
    ),
}


def problems(judged: Judged, seed: int) -> tuple[Report, list[str]]:
    """What is checked, and what is wrong."""
    if judged.extracted is None:
        return Report(), []
    try:
        execution = execute(judged.program, np.random.default_rng(seed))
    except (Invalid, NotExecuted):
        return Report(), []
    report = check(judged, execution)
    wrong = list(report.wrong)
    if judged.refines and not outputs_right(judged.program, execution):
        wrong.append("it is said to refine, and the outputs differ")
    return report, wrong


def test_tables_are_right(tabled: tuple[dict[str, Judged], Coverage]) -> None:
    """Every case that can be executed: its verdict and all its relations."""
    total, wrong, executed = Report(), [], 0
    for number, (name, judged) in enumerate(tabled[0].items()):
        report, found = problems(judged, number)
        executed += report.nodes > 0
        total.add(report)
        wrong += [f"{name}: {problem}" for problem in found if name not in OTHERWISE]
    print(f"{executed} of {len(tabled[0])} cases executed, {total.relations} relations")
    assert executed > 600 and total.relations > 5000
    assert not wrong, "\n".join(wrong[:8])


def test_defects_stay_closed(tabled: tuple[dict[str, Judged], Coverage]) -> None:
    """Pairs of which something wrong was derived once can all be executed."""
    found = {name: j for name, j in tabled[0].items() if name.startswith("defect: ")}
    assert found and all(problems(judged, 0)[0].nodes for judged in found.values())
