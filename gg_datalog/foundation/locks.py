"""Locks, so that nobody replaces what another gg-datalog reads.

A lock is on a file or folder that is there anyway. It works where nothing may be written, and is
gone with the process, however that ends. Where the file system knows no such locks, everything
goes on without.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gg_datalog.foundation.visible import visible

if sys.platform != "win32":
    import fcntl


@contextmanager
def locked(path: Path, exclusive: bool) -> Iterator[None]:
    """While this lasts nobody else has the lock of what is at this path (or, where it is not
    ``exclusive``, nobody has it for himself). Nothing there is nothing to lock."""
    handle = opened(path, exclusive)
    try:
        while handle is not None:
            _wait(handle, path, exclusive)
            if is_at(handle, path):
                break
            gone, handle = handle, opened(path, exclusive)  # it was replaced while we waited
            os.close(gone)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _wait(handle: int, path: Path, exclusive: bool) -> None:
    if sys.platform == "win32":
        return
    if taken(handle, exclusive) is False:
        where = visible(str(path.parent))
        click.echo(f"waiting for another gg-datalog, which uses {where}", err=True)
        fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)


def taken(handle: int, exclusive: bool = True) -> bool | None:
    """Takes the lock behind a handle, if nobody has it; None where there are no locks."""
    if sys.platform == "win32":
        return None
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def opened(path: Path, exclusive: bool = False) -> int | None:
    """A handle to lock something by; None where it cannot be opened. Some file systems lock only
    what may be written, for one alone."""
    for mode in (os.O_RDWR, os.O_RDONLY) if exclusive else (os.O_RDONLY,):
        try:
            return os.open(path, mode | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            continue
    return None


def is_at(handle: int, path: Path) -> bool:
    """Is what this handle is of still what is at this path?"""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False
