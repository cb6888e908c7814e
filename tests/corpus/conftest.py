"""Runs cases once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .trial import Bench


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Runs cases through the command line; a case that was run before is not run again."""
    yield Bench(tmp_path_factory.mktemp("cases"))
