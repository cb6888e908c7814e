"""Generated and shipped pairs: verdict, lowering and every relation against execution."""

from __future__ import annotations

import pytest

from .judge import Judged, check, judge, truth
from .pairs import EXAMPLES, SIZES, pair
from .relations import Report

NAMES = [*SIZES, *EXAMPLES]
WRONG = {"case-missing-all-reduce"}


@pytest.fixture(scope="module")
def judged() -> dict[str, Judged]:
    """All pairs in one run of the engine."""
    return dict(zip(NAMES, judge([pair(name) for name in NAMES]), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_relations_are_right(name: str, judged: dict[str, Judged]) -> None:
    """Every node is lowered to what it computes, and every relation holds."""
    _, executions = truth(pair(name), seed=0)
    report = Report()
    for execution in executions:
        report.add(check(judged[name], execution))
    print(f"{name}: {report.nodes} nodes, {report.relations} relations ({report.parts} open)")
    assert report.relations and not report.skipped
    assert not report.wrong, "\n".join(report.wrong[:5])


@pytest.mark.parametrize("name", NAMES)
def test_verdict_agrees(name: str, judged: dict[str, Judged]) -> None:
    """The pair refines exactly where the numbers agree."""
    right, _ = truth(pair(name), seed=1)
    assert right == (name not in WRONG)
    assert judged[name].refines == right
