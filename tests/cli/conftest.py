"""Runs the command line in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gg_datalog.cli import main

from .build import Cli, Outcome, documents, write_case


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs ``gg-datalog`` with these arguments."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["gg-datalog", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return Outcome(stop.value.code, out, err)

    return run


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
