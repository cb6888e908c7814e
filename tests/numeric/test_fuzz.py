"""Random programs: every relation that is derived is right by execution, and every rule derives one."""

from __future__ import annotations

import os
import time

from coverage import Coverage
from features import FEATURES
from judge import Judged
from seeds import FIXED, FRESH
from sweep import Found, sweep

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
