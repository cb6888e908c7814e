"""Colour on a terminal, and only there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gg_datalog.reporting.text import as_text
from gg_datalog.result.folder import read_result

ESCAPE = re.compile(r"\x1b\[[\d;]*m")


def _on_terminal(result: Path, **variables: str) -> str:
    """What a terminal gets."""
    ours, theirs = pty.openpty()
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-m", "gg_datalog", "report", str(result)]
    with subprocess.Popen(
        command, stdout=theirs, env={**kept, "TERM": "xterm", **variables}
    ) as run:
        os.close(theirs)
        got = b""
        try:
            while part := os.read(ours, 65536):
                got += part
        except OSError:
            pass  # so a terminal says that the other end is closed
    os.close(ours)
    assert run.returncode == 0
    return got.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("name", ["refines", "missing", "mismatch", "inconclusive"])
def test_colours_are_all_that_a_terminal_gets_beside_the_text(
    facts: dict[str, Path], name: str
) -> None:
    result = facts[name] / "result"
    shown, plain = _on_terminal(result), as_text(read_result(result)[0])
    assert ESCAPE.sub("", shown).rstrip("\n") == plain
    verdict = ESCAPE.match(shown)
    assert verdict is not None
    codes = set(re.findall(r"GG\d+ \w+", plain))
    for code in codes:
        assert re.search(rf"\x1b\[\d+m\s*{code}\x1b\[0m", shown)


def test_who_wants_no_colour_gets_none(facts: dict[str, Path]) -> None:
    result = facts["missing"] / "result"
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        shown = _on_terminal(result, **variables)
        assert not re.search(r"\x1b\[3\dm", shown)
        assert ESCAPE.sub("", shown).rstrip("\n") == as_text(read_result(result)[0])
