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
    """While this lasts, what would end the process at once raises :class:`Stopped` instead; also
    where a library reports in words of its own that it was interrupted."""
    before: dict[int, Any] = {}
    came: list[int] = []
    if threading.current_thread() is threading.main_thread():
        ours = os.getpid()
        for number in (getattr(signal, name) for name in ENDING):
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, lambda n, _: _stop(n, ours, came))
    try:
        yield
    except Exception as error:
        if came:
            raise Stopped(came[0]) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, ours: int, came: list[int]) -> None:
    if os.getpid() != ours:  # a process that was forked has nothing to clean up
        end(number)
    for name in ENDING:  # once is enough: a second one must not stop the cleaning
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    came.append(number)
    raise Stopped(number)


def end(number: int) -> NoReturn:
    """Ends the process as the signal would have."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)
