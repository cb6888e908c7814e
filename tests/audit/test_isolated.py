"""An item that crashes, hangs, eats memory, forks or prints ends as itself, with all its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gg_datalog.audit.pool import Worker

# In a process of its own: whoever watches ends all of its descendants.
WATCH = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from gg_datalog.audit.limits import Limits
from gg_datalog.audit.processes import adopt_orphans
from gg_datalog.audit.watching import watch
adopt_orphans()
kept, abandoned = os.pipe()
def daemon():
    if not os.fork():
        os.setsid()
        if not os.fork():
            Path("../pid").write_text(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    while not Path("../pid").exists() or not Path("../pid").read_text():
        time.sleep(0.01)
    return {"status": "refines", "reason": ""}
def eat():
    held = bytearray()
    while True:
        held += b"x" * 2**24
def spin():
    while True:
        pass
def fork():
    while True:
        os.fork()
        time.sleep(0.01)
def say():
    while True:
        print("x" * 10000)
works = {
    "good": lambda: {"status": "refines", "reason": ""},
    "hang": lambda: time.sleep(600), "spin": spin, "eat": eat, "fork": fork, "print": say,
    "abort": os.abort, "kill": lambda: os.kill(os.getpid(), 9), "exit": lambda: os._exit(0),
    "raise": lambda: 1 / 0, "daemon": daemon,
}
scratch = Path(sys.argv[2]) / "scratch"
scratch.mkdir()
wall = 1 if sys.argv[1] == "hang" else 60
limits = Limits(wall=wall, cpu=1, memory=2**28, output=2**20, processes=16)
record, used = watch(works[sys.argv[1]], scratch, limits, kept)
print(json.dumps(record))
"""
ENDS = {
    "good": "refines",
    "hang": "timeout",
    "spin": "timeout",
    "eat": "memory",
    "fork": "crash",
    "print": "crash",
    "abort": "crash",
    "kill": "crash",
    "exit": "crash",
    "raise": "crash",
    "daemon": "refines",
}


@pytest.mark.parametrize(("work", "status"), ENDS.items())
def test_what_an_item_does_ends_as_itself(work: str, status: str, tmp_path: Path) -> None:
    assert _watched(work, tmp_path)["status"] == status


def test_a_daemon_does_not_outlive_its_item(tmp_path: Path) -> None:
    _watched("daemon", tmp_path)
    pid = int((tmp_path / "pid").read_text())
    time.sleep(0.1)
    assert not os.path.exists(f"/proc/{pid}")


def _watched(work: str, folder: Path) -> Any:
    import json

    done = subprocess.run(
        [sys.executable, "-c", WATCH, work, str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_worker_that_cannot_start_says_with_which_code_it_ended() -> None:
    worker = Worker({"preload": ["no_such_module"], "quiet": True}, "nobody's")
    assert worker.line.recv(1) == b""
    assert worker.end() == 1
    assert worker.process.stderr is not None
    with worker.process.stderr as printed:
        assert b"no_such_module" in printed.read()
    worker.close()
