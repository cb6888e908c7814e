"""Makes the helpers of the other tests importable, and replays every captured case once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
for folder in (*(TESTS / n for n in ("numeric", "corpus", "cli")), TESTS.parent / "bench", HERE):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from pairs import CORPUS  # noqa: E402

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
