"""Console blocks of the pages: their commands are run as they stand, and what comes out is compared.

A block has commands after ``$`` and what they print, stderr included. A line ``...`` stands for any
lines, ``...`` within a line for any text. Numbers with a decimal point may differ by a thousandth, and
of the line that ends a report nothing is compared but its form: engine and seconds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FLOAT = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")
STATISTICS = re.compile(r"\d+ facts, \d+ derived, \S+ \S+, [\d.]+ s")
SEPARATOR = "\x1e"


@dataclass(frozen=True)
class Step:
    """A command, and the lines that it is said to print."""

    command: str
    shown: tuple[str, ...]


def steps(text: str) -> list[Step]:
    """The commands of all console blocks of a page, in order."""
    found: list[Step] = []
    for block in BLOCK.findall(text):
        first, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
        assert not first, f"a console block begins with output: {first!r}"
        for part in parts:
            command, *shown = part.splitlines()
            found.append(Step(command, tuple(shown)))
    return found


def printed(commands: list[str], folder: Path) -> list[str]:
    """What each command prints, run one after the other in one shell."""
    script = ["status=0"]
    for command in commands:
        script += [f"printf '{SEPARATOR}'", f"(exit $status); {{ {command}", "} 2>&1; status=$?"]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split(SEPARATOR)[1:]


def _environment(folder: Path) -> dict[str, str]:
    """The command ``gg-datalog`` is this checkout's; enough time is there to execute programs."""
    commands = folder / ".commands"
    commands.mkdir()
    shim = commands / "gg-datalog"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m gg_datalog "$@"\n')
    shim.chmod(0o755)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    ours = {"PATH": path, "PYTHONPATH": str(ROOT), "GG_DATALOG_CONFIRM": "120"}
    return {**os.environ, **ours, "GITHUB_STEP_SUMMARY": ""}


def agrees(shown: tuple[str, ...], text: str) -> bool:
    """Whether a command printed what the page shows."""
    lines = [line.rstrip() for line in text.splitlines()]
    said = re.fullmatch("".join(map(_pattern, shown)), "".join(f"{line}\n" for line in lines))
    told = [float(number) for line in shown for number in _numbers(line)]
    found = [float(number) for number in said.groups() if number] if said else []
    return said is not None and all(map(_close, told, found))


def _pattern(line: str) -> str:
    """The lines that a line of a page stands for, as an expression with a group per number."""
    if line == "...":
        return r"(?:.*\n)*"
    if STATISTICS.fullmatch(line):
        return STATISTICS.pattern + r"\n"
    texts = [re.escape(text).replace(r"\.\.\.", ".*") for text in FLOAT.split(line.rstrip())]
    return f"({FLOAT.pattern})".join(texts) + r"\n"


def _numbers(line: str) -> list[str]:
    return [] if STATISTICS.fullmatch(line) else FLOAT.findall(line)


def _close(told: float, found: float) -> bool:
    return abs(told - found) <= 1e-3 * abs(told)
