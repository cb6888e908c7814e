"""The cases of a module run as one batch, when the first of them is asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .build import Case, Outcome, batch

Outcomes = Callable[[Case], Outcome]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Outcomes:
    """What clingo derives for a collected case of this module. Not of all modules: with several
    processes each of them would run all cases, and only look at some."""
    cases = []
    for item in request.session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if isinstance(case, Case) and item.module is request.module:
            cases.append(case)
    cases = list(dict.fromkeys(cases))
    found = dict(zip(cases, batch(cases), strict=True))
    return found.__getitem__
