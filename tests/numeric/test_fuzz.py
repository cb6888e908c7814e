"""Random programs and the tables of rules: every relation that is derived is right by execution, and
every rule derives one. One file, so that one process judges the tables once."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from .coverage import Coverage
from .features import FEATURES
from .interpreter import execute
from .judge import Judged, check, outputs_right
from .kernels_np import NotExecuted
from .promotion import Invalid
from .relations import Report
from .seeds import FIXED, FRESH
from .sweep import Found, sweep

SEED = "GG_DATALOG_SEED"  # the first seed of the fresh programs: to see a failure again

# Rules that no program can make fire, and why.
UNREACHED = {
    "trail(l, 0, 1, nil) :- trail_want(l, 0, 1).": (
        "below a run of stride `b` > 1 a digit of `e` < b positions leaves the stride b / e > 1"
    ),
}
# A veto, after the fixpoint, on relations that may be wrong in numbers: no table can hold a case.
# tests/rules/test_captured.py has them.
VETOES = ("draw_before(", "draw_before_seq(", "draws_differ(", "draw_shared(")
# What becomes of state from step to step, of which a program that is executed once says nothing.
# tests/rules/test_placing.py has cases of each.
STATE = ("given_as(", "lying(k, r, g, v) :- given_as(", "state_")
# Executed in another way than they are meant.
OTHERWISE = {
    "test_softmax: log-probabilities as a loss": (
        "no program speaks of targets that are ignored: the verdict lists that there are none"
    ),
    "test_softmax: log-probabilities as a loss: positions are compared with it": (
        "the same: whether the numbers that are drawn have ignored targets depends on the seed"
    ),
    "test_unsound: constant in the relations: of value 2, and 1 is used": (
        "the relations name a constant of known value: extraction says so and leaves them out"
    ),
}


def right(found: Found, programs: int) -> None:
    """Nothing is wrong, and enough was looked at."""
    print(found.text())
    report = found.report
    assert found.programs == programs and report.relations > 20 * programs
    assert not found.spoilt, f"the generator thinks that these are right: {found.spoilt}"
    assert not report.skipped, report.skipped[:5]
    assert not found.failed, found.failed[:5]
    assert not report.wrong, "\n".join(report.wrong[:8])


def test_relations_are_right(fixed: tuple[Found, Coverage]) -> None:
    """None of the relations of a few hundred programs is wrong."""
    right(fixed[0], FIXED)


def test_few_right_programs_are_refused(fixed: tuple[Found, Coverage]) -> None:
    """A program without a mistake is refused now and then: forms that no rule describes. There is no
    bound yet for those that speak of more than the plain operators."""
    assert fixed[0].clean > FIXED / 2
    plain = fixed[0].features["plain"]
    assert plain.clean > FIXED / 6 and plain.refused < 0.1 * plain.clean, fixed[0].refused


def test_every_feature_is_spoken_of(fixed: tuple[Found, Coverage]) -> None:
    """In several programs, and something is derived of them."""
    for name in FEATURES:
        row = fixed[0].features[name]
        assert row.programs > FIXED / 20 and row.relations > row.programs, f"{name}: {row}"


@pytest.mark.exhaustive
def test_relations_of_fresh_programs_are_right() -> None:
    """The same for programs that nobody has seen yet."""
    first = int(os.environ.get(SEED, "") or time.time_ns() // 1_000_000 % 10**9 * 1000)
    print(f"{SEED}={first}")
    right(sweep(range(first, first + FRESH)), FRESH)


def test_every_rule_fires(
    fixed: tuple[Found, Coverage], tabled: tuple[dict[str, Judged], Coverage]
) -> None:
    """On these programs, or on the tables of rules; what cannot fire is listed with the reason."""
    one, other = fixed[1], tabled[1]
    silent = [place for place in one.never() if not other.fired[place]]
    texts = {one.text(place).partition(": ")[2]: place for place in silent}
    print(f"{len(one.rules)} rules; random programs leave out {len(one.never())}")
    expected = [
        text for text in texts if text not in UNREACHED and not text.startswith((*VETOES, *STATE))
    ]
    missing = [f"{texts[text]}: {text}" for text in expected]
    assert not missing, "add a pair to rare.py for\n" + "\n".join(missing)
    assert not set(UNREACHED) - set(texts), "these do fire, or are not there any more"


# ---- the tables
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
