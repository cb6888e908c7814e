"""Replays every captured case once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ..numeric.pairs import CORPUS

Captured = Callable[[str], Any]


@pytest.fixture(scope="session")
def captured() -> Captured:
    """What the replay of a captured case found; the test is skipped where the corpus is absent."""
    known: dict[str, Any] = {}

    def found(name: str) -> Any:
        if not (CORPUS / name).is_dir():
            pytest.skip(f"the corpus is not at {CORPUS}")
        if name not in known:
            from gg_datalog.extract import case_files
            from gg_datalog.replay.command import replay

            known[name] = replay(case_files(CORPUS / name), [], 0, False, lambda text: None)
        return known[name]

    return found
