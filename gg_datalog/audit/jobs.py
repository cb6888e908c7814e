"""Items on their way, what a worker is told of them, and what came of all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gg_datalog.audit.items import Item
from gg_datalog.audit.key import is_packed

Json = dict[str, Any]


@dataclass
class Job:
    """An item on its way; ``attempt`` counts from 1."""

    item: Item
    attempt: int = 1
    content: str = ""
    key: str = ""
    capture_key: str = ""
    note: Json = field(default_factory=dict)


@dataclass
class Tally:
    """What came of the items: how many ended with each status, were known, are not as expected."""

    statuses: Counter[str] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    cached: int = 0
    total: int = 0

    @property
    def done(self) -> int:
        """How many items have ended."""
        return self.statuses.total()

    def count(self, status: str, expected: bool) -> None:
        """Counts an item that has ended."""
        self.statuses[status] += 1
        if not expected:
            self.unexpected[status] += 1

    def exit_code(self) -> int:
        """0 where all are as expected, 3 where what is not is inconclusive, else 1."""
        if not self.unexpected:
            return 0
        return 3 if set(self.unexpected) == {"inconclusive"} else 1


class Alike:
    """Jobs that wait for another one with the same key: what is the same is run once."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Job]] = {}

    def waits(self, key: str, job: Job) -> bool:
        """Does the job wait? It does not where it is the first with this key."""
        if key in self._waiting:
            self._waiting[key].append(job)
            return True
        self._waiting[key] = []
        return False

    def free(self, key: str) -> list[Job]:
        """The jobs that waited for the one with this key, which has ended."""
        return self._waiting.pop(key, [])


# ---- tasks ---------------------------------------------------------------------------------------
def capture_task(item: Item) -> Json:
    """What a worker is told, to capture a program."""
    return {
        "does": "capture",
        "source": item.source,
        "home": item.home,
        "arguments": dict(item.arguments),
        "optional": list(item.optional),
        "capture": dict(item.capture),
    }


def check_task(job: Job, place: Path, keep: str) -> Json:
    """What a worker is told, to check what lies at ``place``."""
    item, program = job.item, job.item.kind == "program"
    unnamed = program or item.kind == "text" or is_packed(item)  # no case that a user could give
    return {
        "does": "check",
        "kind": "case" if program else item.kind,
        "place": str(place),
        "content": job.content,
        "key": job.key,
        "run": dict(item.run),
        "reading": dict(item.reading),
        "keep": keep,
        "replayable": "CASE" if unnamed else str(place),
    }
