"""``gg-datalog`` in this process, and what it did."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple
from unittest.mock import patch

from gg_datalog.cli import main


class Outcome(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        """stdout as JSON."""
        return json.loads(self.out)


Cli = Callable[..., Outcome]


def ended(*arguments: object) -> int:
    """Runs the command; its exit status."""
    with patch.object(sys, "argv", ["gg-datalog", *map(str, arguments)]):
        try:
            main()
        except SystemExit as stop:
            assert isinstance(stop.code, int)
            return stop.code
    raise AssertionError("it returned without a status")


def run(*arguments: object) -> Outcome:
    """The same for helpers that are no fixtures: what Python prints, not what processes do."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = ended(*arguments)
    return Outcome(status, out.getvalue(), err.getvalue())
