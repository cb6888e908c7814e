"""How fast an audit is said to be."""

from __future__ import annotations

from collections import Counter

import pytest

from gg_datalog.audit import display
from gg_datalog.audit.display import Rate
from gg_datalog.audit.jobs import Tally


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which the test sets."""
    now = [1000.0]
    monkeypatch.setattr(display, "monotonic", lambda: now[0])
    return now


def test_the_rate_is_that_of_the_last_minute(clock: list[float]) -> None:
    rate, tally = Rate(), Tally(Counter(), total=10_000)
    assert rate.of(tally) == 0
    for second in range(1, 301):
        clock[0] += 1
        tally.statuses["refines"] += 1 if second <= 200 else 5
        found = rate.of(tally)
        assert second > 200 or found == 1
    assert found == 5
    assert "18,000 an hour" in rate.told(tally, 2)
    assert len(rate._seen) < 70  # it does not grow


def test_what_was_known_is_not_in_the_rate(clock: list[float]) -> None:
    rate, tally = Rate(), Tally(Counter(refines=500), cached=490, total=600)
    clock[0] += 10
    assert rate.of(tally) == 1
    assert "490 cached" in rate.told(tally, 1) and "100 s left" not in rate.told(tally, 1)
    assert rate.told(tally, 1).endswith("2 min left")
