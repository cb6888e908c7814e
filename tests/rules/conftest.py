"""All cases that were collected run as one batch per engine, when the first of them is asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .build import Case, Outcome, batch

Outcomes = Callable[[Case], Outcome]


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest) -> Outcomes:
    """What clingo derives for a collected case."""
    cases = []
    for item in request.session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if isinstance(case, Case):
            cases.append(case)
    cases = list(dict.fromkeys(cases))
    found = dict(zip(cases, batch(cases), strict=True))
    return found.__getitem__
