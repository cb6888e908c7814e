"""Runs the command line in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from .build import documents, write_case


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A case that refines."""
    return write_case(tmp_path / "good", documents())


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """The same without its all-reduce."""
    return write_case(tmp_path / "bad", documents(reduced=False))


@pytest.fixture
def make_case(tmp_path: Path) -> Callable[[Mapping[str, Any]], Path]:
    """Writes a case of these documents."""
    return lambda files: write_case(tmp_path / "case", files)
