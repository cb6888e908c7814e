"""What several tests look at is computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .coverage import Coverage
    from .judge import Judged
    from .sweep import Found


@pytest.fixture(scope="session")
def fixed() -> tuple[Found, Coverage]:
    """Programs of fixed seeds, and which rules fired on them."""
    from .coverage import Coverage, instrumented
    from .seeds import FIXED
    from .sweep import sweep

    coverage = Coverage()
    with instrumented() as rules:
        return sweep(range(1000, 1000 + FIXED), rules, coverage.add), coverage


@pytest.fixture(scope="session")
def tabled() -> tuple[dict[str, Judged], Coverage]:
    """The tables of rules, judged in one run, and which rules fired on them."""
    from .coverage import Coverage, instrumented
    from .judge import judge
    from .lowered import case_of, extract
    from .relations import derive
    from .tables import programs, written, zeros

    coverage, found = Coverage(), programs()
    with instrumented() as rules:
        judged = judge(list(found.values()), rules, coverage.add)
        with written(zeros()) as folder:
            coverage.add(derive(extract(case_of(folder)).tables, rules))
    return dict(zip(found, judged, strict=True)), coverage
