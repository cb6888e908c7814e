"""What an engine is: a program and tables in, tables out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class EngineResult:
    """The ``.output`` relations, rows sorted, and the seconds each phase took."""

    relations: dict[str, pa.Table]
    seconds: dict[str, float] = field(default_factory=dict)
    rounds: int | None = None


class Engine(Protocol):
    """Something that runs a Datalog program; all engines give identical relations."""

    @property
    def name(self) -> str:
        """The name by which the engine is chosen."""

    def version(self) -> str:
        """The version of the engine underneath."""

    def word_bits(self) -> int:
        """The size of a number; larger facts are refused."""

    def run(
        self,
        program_path: Path,
        facts: Mapping[str, pa.Table],
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> EngineResult:
        """Evaluate the program over the facts, one table for each ``.input`` relation."""


class Stopwatch:
    """Tells progress what begins and keeps the seconds of each phase."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._phase: str | None = None
        self._since = self._start = perf_counter()
        self._seconds: dict[str, float] = {}

    def phase(self, name: str, message: str) -> None:
        """End the phase before and begin the next."""
        self._close()
        self._phase = name
        if self._progress is not None:
            self._progress(message)

    def stop(self) -> dict[str, float]:
        """End the last phase; the seconds of all, and their total."""
        self._close()
        return {**self._seconds, "total": perf_counter() - self._start}

    def _close(self) -> None:
        now = perf_counter()
        if self._phase is not None:
            self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._since
        self._since = now
