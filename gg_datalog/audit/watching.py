"""One item's process: forked, watched, ended with all that came of it."""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from gg_datalog.audit.limits import Limits
from gg_datalog.audit.processes import (
    descendants,
    die_with_parent,
    end_descendants,
    memory_of,
    own_memory_of,
)
from gg_datalog.foundation.garbage import collected_seldom

Json = dict[str, Any]
OFTEN = 0.05
PRINTED = 4096
RECORD = "record.json"


class Abandoned(Exception):
    """Nobody waits for the item any more."""


@dataclass
class Watched:
    """What is seen of an item while it runs; ``broken`` is the limit that it broke."""

    limits: Limits
    began: float = field(default_factory=monotonic)
    printed: bytes = b""
    output: int = 0
    memory: int = 0
    cpu: float = 0.0
    processes: int = 1
    broken: str | None = None

    def wall(self) -> float:
        """Seconds since it began."""
        return monotonic() - self.began

    def read(self, pipe: int) -> bool:
        """Takes what it printed; False where nothing more will come."""
        try:
            text = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return True
        self.output += len(text)
        self.printed += text[: max(0, PRINTED - len(self.printed))]
        if self.output > self.limits.output:
            self.broken = "output"
        return bool(text)

    def look(self, before: float) -> None:
        """Looks at its processes; ``before`` are the CPU seconds of those that are gone."""
        found = descendants(os.getpid())
        self.processes = max(self.processes, len(found))
        self.cpu = max(self.cpu, _gone() - before + sum(process.cpu for process in found))
        memory = sum(memory_of(process.pid) for process in found)
        if memory > self.limits.memory:  # what it shares with us counted each time
            memory = sum(own_memory_of(process.pid) for process in found)
        self.memory = max(self.memory, memory)
        self._compare(len(found), memory)

    def _compare(self, processes: int, memory: int) -> None:
        limits = self.limits
        used = {"memory": memory, "processes": processes, "cpu": self.cpu, "wall": self.wall()}
        for name, value in used.items():
            if self.broken is None and value > getattr(limits, name):
                self.broken = name

    def measured(self) -> Json:
        """What it used, by the name of the limit."""
        return {
            "wall": round(self.wall(), 3),
            "cpu": round(self.cpu, 3),
            "memory": self.memory,
            "output": self.output,
            "processes": self.processes,
            "printed": self.printed.decode("utf-8", "replace"),
        }


def watch(
    work: Callable[[], Json],
    scratch: Path,
    limits: Limits,
    abandoned: int,
    closed: tuple[int, ...] = (),
) -> tuple[Json, Json]:
    """Does some work in a process of its own: the record of it, and what it used.

    Args:
        work: gives a record that JSON can hold.
        scratch: a folder for what it writes.
        limits: what all of its processes together may use.
        abandoned: a descriptor that can be read once nobody waits any more.
        closed: descriptors that are not the item's.

    Raises:
        Abandoned: nobody waits any more.
    """
    before = _gone()
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if not child:
        _child(work, scratch, limits, theirs, (ours, abandoned, *closed), parent)
    os.close(theirs)
    seen = Watched(limits)
    try:
        status = _watched(child, ours, abandoned, seen, before)
    finally:
        end_descendants()
        os.close(ours)
    seen.cpu = max(seen.cpu, _gone() - before)
    return _record(scratch, status, seen), seen.measured()


def _gone() -> float:
    """CPU seconds of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watched(child: int, pipe: int, abandoned: int, seen: Watched, before: float) -> int | None:
    """Waits for its end, or brings it about; the status, None where it had to be ended."""
    ended = os.pidfd_open(child)
    poll = select.poll()
    for handle in (ended, pipe, abandoned):
        poll.register(handle, select.POLLIN)
    look = 0.0
    try:
        while True:
            ready = {handle for handle, _ in poll.poll(OFTEN * 1000)}
            if pipe in ready and not seen.read(pipe):
                poll.unregister(pipe)
            if abandoned in ready:
                raise Abandoned
            if ended in ready:
                while pipe in ready and seen.output <= seen.limits.output and _more(seen, pipe):
                    pass
                return os.waitpid(child, 0)[1]
            if seen.broken is None and monotonic() - look >= OFTEN:
                seen.look(before)
                look = monotonic()
            if seen.broken is not None:
                return None
    finally:
        os.close(ended)


def _more(seen: Watched, pipe: int) -> bool:
    """Takes what is left in the pipe."""
    count = seen.output
    return seen.read(pipe) and seen.output > count


BROKEN = {
    "wall": ("timeout", "it took more than {:g} s"),
    "cpu": ("timeout", "its processes took more than {:g} s of CPU"),
    "memory": ("memory", "its processes had more than {:,.0f} MB"),
    "output": ("crash", "it printed more than {:,.1f} MB"),
    "processes": ("crash", "it had more than {:g} processes at a time"),
}


def _record(scratch: Path, status: int | None, seen: Watched) -> Json:
    """What the process left, or how it ended."""
    if seen.broken is not None or status is None:
        name = seen.broken or "wall"
        found, text = BROKEN[name]
        size = 2**20 if name in ("memory", "output") else 1
        return {"status": found, "reason": text.format(getattr(seen.limits, name) / size)}
    if os.WIFSIGNALED(status):
        return _signalled(os.WTERMSIG(status), seen)
    code = os.WEXITSTATUS(status)
    try:
        record = json.loads((scratch / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {
            "status": "crash",
            "reason": f"its process ended with code {code}, and left nothing",
        }
    if code:
        return {"status": "crash", "reason": f"its process ended with code {code}"}
    return dict(record)


def _signalled(number: int, seen: Watched) -> Json:
    if number == signal.SIGXCPU:
        return {"status": "timeout", "reason": BROKEN["cpu"][1].format(seen.limits.cpu)}
    name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
    record = {"status": "crash", "reason": f"its process was ended by signal {number} ({name})"}
    return {**record, "killed": True} if number == signal.SIGKILL else record


# ---- in the child --------------------------------------------------------------------------------
def _child(
    work: Callable[[], Json],
    scratch: Path,
    limits: Limits,
    output: int,
    closed: tuple[int, ...],
    parent: int,
) -> None:
    """Does the work, and ends; nothing returns from here."""
    code = 1
    try:
        os.setsid()
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        _settle(scratch, limits, output, closed)
        collected_seldom()
        _save(work(), scratch)
        sys.stdout.flush()
        sys.stderr.flush()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) and 0 < error.code < 256 else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _settle(scratch: Path, limits: Limits, output: int, closed: tuple[int, ...]) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for handle, place in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(handle, place)
    for handle in (nothing, output, *closed):
        with suppress(OSError):
            if handle > 2:
                os.close(handle)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL if number != signal.SIGPIPE else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = int(limits.cpu) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    temporary = scratch / "tmp"
    temporary.mkdir()
    os.environ["TMPDIR"] = str(temporary)
    tempfile.tempdir = None
    os.chdir(scratch)


def _save(record: Mapping[str, Any], scratch: Path) -> None:
    fresh = scratch / "record.new"
    fresh.write_text(json.dumps(record), encoding="utf-8")
    os.replace(fresh, scratch / RECORD)


def cleared(scratch: Path) -> Path:
    """A folder of this name with nothing in it."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    return scratch
