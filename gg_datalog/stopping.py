"""Signals that end a command: it cleans up first, then ends as one that was ended by the signal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

ENDING = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Stopped(KeyboardInterrupt):
    """The process was asked to end; whatever is under way is undone on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.number = number


@contextmanager
def stoppable() -> Iterator[None]:
    """While this lasts, what would end the process at once raises :class:`Stopped` instead."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        ours = os.getpid()
        for number in (getattr(signal, name) for name in ENDING):
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, lambda n, _: _stop(n, ours))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, ours: int) -> None:
    if os.getpid() != ours:  # a process that was forked has nothing to clean up
        end(number)
    for name in ENDING:  # once is enough: a second one must not stop the cleaning
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    raise Stopped(number)


def end(number: int) -> NoReturn:
    """Ends the process as the signal would have."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)
