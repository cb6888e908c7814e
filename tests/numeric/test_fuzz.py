"""Random programs: every relation that is derived is right by execution."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import pytest
from fuzz import generate
from interpreter import execute
from judge import check, judge, outputs_right
from kernels_np import Invalid
from relations import Report

CASES = 250
SEEDS = {"fixed": 1, "fresh": secrets.randbelow(2**20)}


def examine(seeds: Sequence[int]) -> tuple[Report, list[int], list[int]]:
    """All relations of many programs; programs without a mistake, those of them that are refused."""
    made = [generate(seed) for seed in seeds]
    report = Report()
    clean, refused = [], []
    for seed, (program, good), judged in zip(seeds, made, judge([p for p, _ in made]), strict=True):
        try:
            execution = execute(program, np.random.default_rng(seed))
        except Invalid:
            continue
        found = check(judged, execution) if judged.extracted is not None else Report()
        if judged.refines and not outputs_right(program, execution):
            found.wrong.append("it is said to refine")
        found.wrong = [f"seed {seed}: {problem}" for problem in found.wrong]
        report.add(found)
        clean += [seed] if good else []
        refused += [seed] if good and not judged.refines else []
    return report, clean, refused


@pytest.mark.parametrize("which", SEEDS)
def test_relations_are_right(which: str) -> None:
    """None of the relations of a few hundred programs is wrong."""
    first = SEEDS[which] * 1000
    report, clean, refused = examine(range(first, first + CASES))
    print(
        f"seeds from {first}: {report.nodes} nodes, {report.relations} relations ({report.parts} open), "
        f"{len(report.wrong)} wrong; {len(refused)} of {len(clean)} right programs refused: {refused[:9]}"
    )
    assert report.relations > CASES
    assert not report.wrong, "\n".join(report.wrong[:8])
