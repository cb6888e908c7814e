"""Makes the helpers beside the tests, those of ``tests/numeric`` and the generators importable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "numeric", HERE.parents[1] / "bench"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from trial import Bench  # noqa: E402


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Runs cases through the command line; a case that was run before is not run again."""
    yield Bench(tmp_path_factory.mktemp("cases"))
