"""Workers on this machine: tasks in, answers out, whatever becomes of a worker."""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from gg_datalog.audit.processes import adopt_orphans, children, end_descendants
from gg_datalog.audit.worker import QUIET
from gg_datalog.foundation.errors import InputError

Json = dict[str, Any]
COMMAND = (sys.executable, "-P", "-m", "gg_datalog.audit.worker")
MARK = "GG_DATALOG_AUDIT"
ENDING = 5.0  # seconds that a worker has to end by itself
HOPELESS = 3  # workers that end before they are ready
LOST = "its worker ended"


@dataclass(frozen=True)
class Answer:
    """What came of a task: its record and what it used; ``lost`` says why there is none."""

    task: Json
    record: Json = field(default_factory=dict)
    used: Json = field(default_factory=dict)
    lost: str = ""
    host: str = ""


class Pool(Protocol):
    """Something that runs tasks."""

    def free(self) -> int:
        """How many more tasks may be given now."""

    def give(self, task: Json) -> None:
        """Starts a task."""

    def answers(self, seconds: float) -> Iterator[Answer]:
        """What has come by now; waits so long for the first."""

    def close(self) -> None:
        """Ends everything, items that are running included."""


class Worker:
    """A process, and what it is doing."""

    def __init__(self, settings: Mapping[str, Any], mark: str) -> None:
        ours, theirs = socket.socketpair()
        paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
        known = {**QUIET, "PYTHONPATH": os.pathsep.join(filter(None, paths)), MARK: mark}
        self.process = subprocess.Popen(
            [*COMMAND, str(theirs.fileno()), json.dumps(settings)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if settings.get("quiet") else None,
            pass_fds=[theirs.fileno()],
            env={**os.environ, **known},
            start_new_session=True,
        )
        theirs.close()
        self.line = ours
        self.task: Json | None = None
        self.ready = False
        self._buffer = b""

    def end(self) -> int:
        """Waits a moment for a worker that is about to end, and ends it; its exit code."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(ENDING)
        self.process.kill()
        return self.process.wait()

    def give(self, task: Json) -> bool:
        """Sends a task; whether the worker is there to take it."""
        self.task = task
        try:
            self.line.sendall(json.dumps(task).encode() + b"\n")
        except OSError:
            return False
        return True

    def said(self) -> list[Json] | None:
        """The complete lines that have come; None where nothing more will."""
        try:
            text = self.line.recv(1 << 20)
        except OSError:
            text = b""
        if not text:
            return None
        *lines, self._buffer = (self._buffer + text).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """The worker ends its item, then itself."""
        self.line.close()


class LocalPool:
    """``jobs`` workers of this machine."""

    def __init__(self, jobs: int, settings: Mapping[str, Any], mark: str) -> None:
        self.jobs, self.settings, self.mark = jobs, settings, mark
        self._host = socket.gethostname()
        self._workers: list[Worker] = []
        self._waiting: list[Answer] = []
        self._hopeless = 0
        self._before = children()
        self._selector = selectors.DefaultSelector()
        adopt_orphans()
        for _ in range(jobs):
            self._start()

    def _start(self) -> None:
        worker = Worker(self.settings, self.mark)
        self._workers.append(worker)
        self._selector.register(worker.line, selectors.EVENT_READ, worker)

    def free(self) -> int:
        """How many workers have nothing to do."""
        return sum(worker.task is None for worker in self._workers)

    def give(self, task: Json) -> None:
        """Starts a task on a worker that has nothing to do, one that is ready if there is one."""
        idle = [worker for worker in self._workers if worker.task is None]
        worker = next((one for one in idle if one.ready), idle[0])
        if not worker.give(task):
            self._buried(worker)

    def answers(self, seconds: float) -> Iterator[Answer]:
        """What has come by now; waits so long for the first."""
        until = monotonic() + seconds
        while not self._waiting:
            left = until - monotonic()
            for key, _ in self._selector.select(max(0.0, left)):
                self._heard(key.data)
            if left <= 0:
                break
        found, self._waiting = self._waiting, []
        yield from found

    def _heard(self, worker: Worker) -> None:
        lines = worker.said()
        if lines is None:
            self._buried(worker)
            return
        for line in lines:
            if "ready" in line:
                worker.ready, self._hopeless = True, 0
            elif worker.task is not None and line["task"] == worker.task["id"]:
                answer = Answer(worker.task, line["record"], line["used"], "", self._host)
                worker.task = None
                self._waiting.append(answer)

    def _buried(self, worker: Worker) -> None:
        """Puts another worker in the place of one that ended; what it left behind is ended."""
        self._selector.unregister(worker.line)
        worker.close()
        self._workers.remove(worker)
        code = worker.end()
        self._end_strays()
        if worker.task is not None and worker.ready:
            self._waiting.append(Answer(worker.task, lost=f"{LOST} ({_how(code)})"))
        elif worker.task is not None:
            self._waiting.append(Answer(worker.task, lost=f"{LOST} before it was ready"))
        if not worker.ready:
            self._hopeless += 1
            if self._hopeless >= HOPELESS:
                raise InputError(
                    f"workers do not start: the last one ended {_how(code)}",
                    None,
                    "what it printed stands above; a plan's `preload` must be importable",
                )
        self._start()

    def _end_strays(self) -> None:
        workers = frozenset(worker.process.pid for worker in self._workers)
        end_descendants(self._before | workers)

    def close(self) -> None:
        """Ends workers and their items."""
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            try:
                worker.process.wait(10)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        self._workers = []
        self._end_strays()
        self._selector.close()
        adopt_orphans(False)


def _how(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with code {code}"
