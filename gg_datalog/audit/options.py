"""Options of capture, reading and run, as a plan writes them: checked, paths made absolute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Check = Callable[[Any, Path], Any]


def _text(value: Any, _: Path) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no text")
    return value


def _one_of(*known: str) -> Check:
    def check(value: Any, _: Path) -> str:
        if value not in known:
            raise ValueError(f"{value!r} is none of {', '.join(known)}")
        return str(value)

    return check


def _seconds(value: Any, _: Path) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e9:
        raise ValueError(f"{value!r} is no number of seconds")
    return float(value)


def _flag(value: Any, _: Path) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _count(value: Any, _: Path) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number of 0 or more")
    return value


def _texts(value: Any, home: Path) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is no list of texts")
    return [_text(one, home) for one in value]


def _path(value: Any, home: Path) -> str:
    return str((home / _text(value, home)).absolute())


def _paths(value: Any, home: Path) -> list[str]:
    return [_path(one, home) for one in _texts(value, home)]


def _groups(value: Any, home: Path) -> list[str]:
    """``{ "12" = [0, 1] }`` as the command line writes it: ``12=0,1``."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is no table of groups, each a list of ranks")
    found = []
    for name, ranks in value.items():
        if not isinstance(ranks, list):
            raise ValueError(f"group `{name}` is no list of ranks")
        found.append(f"{name}={','.join(str(_count(rank, home)) for rank in ranks)}")
    return found


# By the name in a plan: the name in Python, and how a value is checked.
RUN: dict[str, tuple[str, Check]] = {
    "engine": ("engine", _one_of("auto", "souffle", "clingo")),
    "timeout": ("timeout", _seconds),
    "repairs": ("repairs", _flag),
    "confirm": ("confirm", _seconds),
    "allow-partial": ("partial", _texts),
    "allow-layout": ("layouts", _texts),
}
EXTRACT: dict[str, tuple[str, Check]] = {
    "operators": ("operators", _paths),
    "output": ("chosen", _texts),
    "allow-partial": ("extract_partial", _texts),
}
CAPTURE: dict[str, tuple[str, Check]] = {
    "world-size": ("world_size", _count),
    "mode": ("mode", _one_of("dynamo", "eager")),
    "backward": ("backward", _flag),
    "ranks": ("ranks", _text),
    "relations": ("relations", _path),
    "jobs": ("jobs", _count),
}
READING: dict[str, tuple[str, Check]] = {
    "reader": ("reader", _text),
    "sequential": ("sequential", _text),
    "ranks": ("ranks", _text),
    "groups": ("groups", _groups),
}


def checked(
    table: Mapping[str, Any], known: Mapping[str, tuple[str, Check]], home: Path
) -> dict[str, Any]:
    """Options by their names in Python.

    Raises:
        ValueError: there is no such option, or that is no value for it.
    """
    found = {}
    for name, value in table.items():
        if name not in known:
            raise ValueError(f"there is no option `{name}` (options: {', '.join(known)})")
        python, check = known[name]
        try:
            found[python] = check(value, home)
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from None
    return found
