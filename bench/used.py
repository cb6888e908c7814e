"""What a command uses: seconds, CPU seconds and memory, of all that it starts."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Used:
    """``seconds`` as a clock has them, ``cpu`` seconds, the most ``memory`` of any of the processes
    and of the first one (``own``), both in MB."""

    seconds: float
    cpu: float
    memory: float
    own: float


def run(command: Sequence[str], codes: Container[int] = (0, 1, 3)) -> Used:
    """Runs a command to its end; SystemExit with what it said where its exit code is another."""
    began, own = time.perf_counter(), 0.0
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        while True:
            own = max(own, peak(process.pid))
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.05)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in codes:
            said.seek(0)
            problem = said.read().decode(errors="replace")
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {problem}")
    return Used(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, own)


def peak(pid: int) -> float:
    """The most memory that a process had, in MB; 0 where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM"))
    return sum(int(line[1]) / 1024 for line in lines)
