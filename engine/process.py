"""Runs an engine's process: output captured, process group killed at the time limit."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gg_datalog.foundation.errors import EngineError


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that ended by itself."""

    status: int
    stdout: bytes
    stderr: str


def run_process(
    command: Sequence[str],
    *,
    engine: str,
    timeout: float | None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command to its end, or raise EngineError once the time limit is over."""
    try:
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(f"cannot start {engine}: {error}", command[0]) from error
    try:
        stdout, stderr = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise EngineError(
            f"{engine} did not finish within {timeout:g} seconds",
            hint="give it more time, or check fewer layers or ranks",
        ) from None
    finally:
        _kill_group(child)
    return Finished(child.returncode, stdout, stderr.decode("utf-8", "replace"))


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    if child.returncode is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
