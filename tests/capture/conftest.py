"""Reads the rules once, and runs the command line in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from gg_datalog.cli import main


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Runs ``gg-datalog`` with these arguments; what its processes print counts, too."""

    def run(*arguments: object) -> Outcome:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["gg-datalog", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capfd.readouterr()
        assert isinstance(stop.value.code, int)
        return Outcome(stop.value.code, out, err)

    return run
