"""Progress of an audit on stderr: one display on a terminal, lines anywhere else."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import click

from gg_datalog.foundation.visible import visible

if TYPE_CHECKING:
    from gg_datalog.audit.items import Item
    from gg_datalog.audit.jobs import Tally

FEW = 200
PAUSE = 10.0  # seconds between lines that say how far it is
AT_ONCE = 0.2
WINDOW, BETWEEN = 60.0, 1.0  # seconds that a rate is over, and between what it is taken from


class Display(Protocol):
    """Something that is told how an audit goes."""

    def ended(
        self, item: Item, status: str, expected: bool, seconds: float | None, tally: Tally
    ) -> None:
        """An item has ended; in ``seconds``, or None where its end was known."""

    def tick(self, tally: Tally, running: int) -> None:
        """So much is done and running; called often."""


class Rate:
    """How fast items end: those that had to be run, in the last minute."""

    def __init__(self) -> None:
        self._seen = deque([(monotonic(), 0)])

    def of(self, tally: Tally) -> float:
        """Items a second that were run."""
        now, ran = monotonic(), tally.done - tally.cached
        if now - self._seen[-1][0] >= BETWEEN:
            self._seen.append((now, ran))
        while len(self._seen) > 1 and now - self._seen[1][0] >= WINDOW:
            self._seen.popleft()
        began, before = self._seen[0]
        return (ran - before) / (now - began) if now > began else 0.0

    def told(self, tally: Tally, running: int) -> str:
        """How far it is, in one line."""
        rate = self.of(tally)
        left = tally.total - tally.done
        parts = [f"{tally.done} of {tally.total} done", f"{running} running"]
        parts.append(f"{tally.unexpected.total()} not as expected")
        if tally.cached:
            parts.append(f"{tally.cached} cached")
        if rate:
            parts.append(f"{rate * 3600:,.0f} an hour")
            parts.append(f"{duration(left / rate)} left")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """A duration in words: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Lines:
    """A line for each item of a small audit, and for each that is not as expected; of a large one
    now and then how far it is."""

    def __init__(self, total: int) -> None:
        self._all = total <= FEW
        self._rate = Rate()
        self._said = monotonic()

    def ended(
        self, item: Item, status: str, expected: bool, seconds: float | None, tally: Tally
    ) -> None:
        """Says how an item ended."""
        if self._all or not expected:
            took = "cached" if seconds is None else f"{seconds:.1f} s"
            mark = "" if expected else f", expected {' or '.join(item.expect)}"
            at = f"[{tally.done}/{tally.total}]"
            click.echo(visible(f"{at} {item.name}: {status}{mark} ({took})"), err=True)

    def tick(self, tally: Tally, running: int) -> None:
        """Says now and then how far it is."""
        if monotonic() - self._said >= PAUSE:
            self._said = monotonic()
            click.echo(self._rate.told(tally, running), err=True)


class Terminal:
    """A bar with what is done, running and left; what is not as expected stays above it."""

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task
        self._rate = Rate()
        self._shown = 0.0

    def ended(
        self, item: Item, status: str, expected: bool, seconds: float | None, tally: Tally
    ) -> None:
        """Shows what is not as expected."""
        if not expected:
            from rich.text import Text

            line = Text(visible(f"{item.name}: "))
            line.append(status, style="bold yellow" if status == "inconclusive" else "bold red")
            line.append(f", expected {' or '.join(item.expect)}")
            self._bar.console.print(line, soft_wrap=True)

    def tick(self, tally: Tally, running: int) -> None:
        """Moves the bar."""
        if monotonic() - self._shown >= AT_ONCE or tally.done == tally.total:
            self._shown = monotonic()
            text = self._rate.told(tally, running)
            self._bar.update(self._task, completed=tally.done, description=text)


@contextmanager
def display(total: int) -> Iterator[Display]:
    """The display that suits stderr."""
    if not sys.stderr.isatty():
        yield Lines(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), BarColumn(30), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Terminal(bar, bar.add_task("starting workers", total=total))
