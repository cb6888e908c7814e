"""Processes of an item, however they were started: found, measured and ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
PATIENCE = 30.0  # seconds


def supported() -> bool:
    """Can items be run here? They are watched through /proc."""
    return sys.platform == "linux" and (PROC / "self" / "stat").exists()


def adopt_orphans(adopt: bool = True) -> None:
    """From now on what descends from this process, and loses its parent, becomes its child: a
    process that went into the background is found, too."""
    _prctl(PR_SET_CHILD_SUBREAPER, int(adopt))


def children() -> frozenset[int]:
    """The children of this process."""
    return frozenset(_children(os.getpid()))


def die_with_parent() -> None:
    """This process is killed when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@dataclass(frozen=True)
class Process:
    """A row of /proc: CPU seconds of itself and of its children that ended and were waited for;
    bytes of memory that are no file's."""

    pid: int
    parent: int
    state: str
    cpu: float


def read_process(pid: int) -> Process | None:
    """The process of this number; None where it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    used = sum(int(ticks) for ticks in fields[11:15])
    return Process(pid, int(fields[1]), fields[0], used / TICK)


def memory_of(pid: int) -> int:
    """Bytes of memory of a process that are no file's; what it shares with the process that it
    was forked from counts."""
    try:
        _, resident, shared, *_ = (PROC / str(pid) / "statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * PAGE


def own_memory_of(pid: int) -> int:
    """Bytes of memory that no other process has, and its share of those that others have."""
    total = 0
    try:
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:") or line.startswith("SwapPss:"):
                total += int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return 0
    return total


def descendants(root: int) -> list[Process]:
    """All that descend from a process, which is not among them; parents before children."""
    found: list[Process] = []
    waiting = list(_children(root))
    while waiting:
        process = read_process(waiting.pop())
        if process is not None and process.state != "Z":
            found.append(process)
            waiting += _children(process.pid)
    return found


def _children(pid: int) -> Iterator[int]:
    """Children as the kernel lists them; every process is asked where it keeps no such list."""
    tasks = PROC / str(pid) / "task"
    try:
        threads = os.listdir(tasks)
        for thread in threads:
            text = (tasks / thread / "children").read_text()
            yield from map(int, text.split())
    except FileNotFoundError:
        if (PROC / str(pid)).exists() and not _lists_children():
            yield from _searched(pid)
    except OSError:
        return


def _lists_children() -> bool:
    own = os.getpid()
    return (PROC / str(own) / "task" / str(own) / "children").exists()


def _searched(parent: int) -> Iterator[int]:
    for name in os.listdir(PROC):
        if name.isdecimal():
            process = read_process(int(name))
            if process is not None and process.parent == parent:
                yield process.pid


def end_descendants(spared: frozenset[int] = frozenset()) -> int:
    """Kills everything that descends from this process, but for what is spared and descends from
    that, until nothing is left; how many were killed. They are stopped first: a process that
    starts others faster than they are killed cannot. Those of another user cannot be killed: they
    are waited for, and then left."""
    killed: set[int] = set()
    until = monotonic() + PATIENCE
    while monotonic() < until:
        found = [process.pid for process in _unspared(os.getpid(), spared)]
        if not found and not _reaped(spared):
            return len(killed)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        killed.update(found)
        while _reaped(spared):
            pass
        sleep(0.001)
    return len(killed)


def _unspared(root: int, spared: frozenset[int]) -> list[Process]:
    found: list[Process] = []
    waiting = [pid for pid in _children(root) if pid not in spared]
    while waiting:
        process = read_process(waiting.pop())
        if process is not None and process.state != "Z":
            found.append(process)
            waiting += [pid for pid in _children(process.pid) if pid not in spared]
    return found


def _reaped(spared: frozenset[int]) -> bool:
    """Waits for one child that has ended, if there is one and it is not spared."""
    for pid in list(_children(os.getpid())):
        if pid in spared:
            continue
        try:
            gone, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
        if gone:
            return True
    return False


def marked(name: str, value: str) -> Iterator[int]:
    """Processes of this user that have a variable of this value in their environment."""
    wanted = f"{name}={value}".encode()
    for entry in os.listdir(PROC):
        if not entry.isdecimal() or int(entry) == os.getpid():
            continue
        with suppress(OSError):
            place = PROC / entry
            ours = place.stat().st_uid == os.geteuid()
            if ours and wanted in (place / "environ").read_bytes().split(b"\0"):
                yield int(entry)
