"""What one item may use, all of its processes together."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B?)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """``wall`` and ``cpu`` in seconds, ``memory`` and ``output`` (what it prints) in bytes,
    ``processes`` at a time."""

    wall: float = 600.0
    cpu: float = 600.0
    memory: int = 4 * 2**30
    output: int = 16 * 2**20
    processes: int = 256

    def document(self) -> dict[str, float]:
        """The limits by name."""
        return dict(vars(self))

    def within(self, other: Mapping[str, float]) -> bool:
        """Is none of these larger than in ``other``? What broke those breaks these, too."""
        return all(value <= other.get(name, -1) for name, value in vars(self).items())

    def changed(self, given: Mapping[str, Any]) -> Limits:
        """The limits with some given otherwise, as a plan writes them.

        Raises:
            ValueError: there is no such limit, or that is no value for it.
        """
        known = self.document()
        if unknown := sorted(given.keys() - known.keys()):
            raise ValueError(f"there is no limit `{unknown[0]}` (limits: {', '.join(known)})")
        return replace(self, **{name: _value(name, value) for name, value in given.items()})


def _value(name: str, value: Any) -> Any:
    if name in ("wall", "cpu"):
        return _positive(name, value, float)
    if name == "processes":
        return _positive(name, value, int)
    return parsed_size(name, value)


def _positive(name: str, value: Any, kind: Any) -> Any:
    known = isinstance(value, int if kind is int else (int, float))
    if not known or isinstance(value, bool) or not 0 < value < 1e12:
        raise ValueError(f"limit `{name}` is {value!r}, no number above 0")
    return kind(value)


def parsed_size(name: str, value: Any) -> int:
    """Bytes, from a number or a text such as ``"4 GB"``; ValueError where it is neither."""
    if isinstance(value, str):
        found = SIZE.fullmatch(value)
        unit = "" if found is None else found[2].upper()
        unit = unit if unit in UNITS else f"{unit}B"
        value = None if found is None else int(float(found[1]) * UNITS[unit])
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f'limit `{name}` is no size: write bytes, or a text such as "4 GB"')
    return value


def usual(jobs: int) -> Limits:
    """The limits where a plan says nothing: of the machine's memory each job's share, 8 GB at
    most."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = int(total * 0.8) // max(jobs, 1)
    return Limits(memory=max(2**30, min(8 * 2**30, share)))
