"""Runs the command line in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ..command import run
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


FAST = ("--engine", "clingo", "--no-repairs")


@pytest.fixture(scope="session")
def _once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    """A folder with a case, its facts and its result; made once for each of the two cases."""

    @cache
    def made(reduced: bool) -> Path:
        home = tmp_path_factory.mktemp("judged")
        case = write_case(home / ("good" if reduced else "bad"), documents(reduced))
        assert run("extract", case, "-o", home / "facts").status == 0
        assert run("run", home / "facts", *FAST).status == (0 if reduced else 1)
        return home

    return made


@pytest.fixture
def judged(_once: Callable[[bool], Path], tmp_path: Path) -> Callable[[bool], Path]:
    """The facts and the result of the case that refines, or of that which does not: a copy in the
    folder of the test, which it may change."""

    def copied(reduced: bool) -> Path:
        home = _once(reduced)
        shutil.copytree(home, tmp_path, dirs_exist_ok=True)
        for manifest in (tmp_path / "facts").rglob("manifest.json"):
            manifest.write_text(manifest.read_text().replace(str(home), str(tmp_path)))
        return tmp_path / "facts"

    return copied
