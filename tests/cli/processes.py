"""The command line in processes of its own, which may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gg_datalog

ROOT = Path(gg_datalog.__file__).parents[1]
# The process kills itself before or after one of its own functions: `module:function`.
KILLED = """
import os, signal, sys
from importlib import import_module
from gg_datalog.cli import main
when, place, number = sys.argv[1:4]
sys.argv = ["gg-datalog", *sys.argv[4:]]
module, _, name = place.partition(":")
module = import_module(module)
kept = getattr(module, name)
def dying(*given, **named):
    if when == "after":
        kept(*given, **named)
    os.kill(os.getpid(), int(number))
setattr(module, name, dying)
main()
"""


def started(*arguments: object) -> subprocess.Popen[bytes]:
    """``gg-datalog`` with these arguments, running."""
    return _process("-m", "gg_datalog", *arguments)


def run(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    """``gg-datalog`` with these arguments, ended."""
    with started(*arguments) as process:
        out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def killed_at(when: str, place: str, number: int, *arguments: object) -> int:
    """Runs ``gg-datalog`` up to this place; what it ended with."""
    with _process("-c", KILLED, when, place, number, *arguments) as process:
        process.communicate(timeout=300)
    return process.returncode


def killed_after(seconds: float, number: int, *arguments: object) -> int:
    """Runs ``gg-datalog`` for that long, if it takes that long; what it ended with."""
    with started(*arguments) as process:
        time.sleep(seconds)
        process.send_signal(signal.Signals(number))
        process.communicate(timeout=300)
    return process.returncode


def _process(*arguments: object) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment)
