"""The keys of a configuration file, and what their values have to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.diagnosis.findings import BESIDE, PAGES, REPLAYED

if TYPE_CHECKING:
    from gg_datalog.reporting.targets import Target

LEVELS = ("error", "warning", "note", "off")

# A check takes a value and the folder of the file; ValueError says what is wrong, and what to do.
Check = Callable[[Any, Path], Any]


def _one_of(*known: str) -> Check:
    def check(value: Any, _: Path) -> Any:
        if value not in known or not isinstance(value, str):
            raise ValueError(f"{value!r} is none of {', '.join(known)}", *_meant(value, known))
        return value

    return check


def _seconds(value: Any, _: Path) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e9:
        raise ValueError(f"{value!r} is no number of seconds above 0")
    return float(value)


def _budget(value: Any, folder: Path) -> float:
    if value == 0 and not isinstance(value, bool):
        return 0.0
    try:
        return _seconds(value, folder)
    except ValueError:
        raise ValueError(f"{value!r} is no number of seconds", "0 turns it off") from None


def _switch(value: Any, _: Path) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _path(value: Any, folder: Path) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no path")
    return folder / value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError(f"{value!r} is no list of texts", 'such as ["one", "two"]')
    return list(value)


def _paths(value: Any, folder: Path) -> list[Path]:
    return [folder / path for path in _texts(value)]


def _names(value: Any, _: Path) -> list[str]:
    return _texts(value)


def _reports(value: Any, folder: Path) -> list[Target]:
    from gg_datalog.reporting.targets import STDOUT, Target, parsed

    targets = [parsed(text) for text in _texts(value)]
    if any(target.path == STDOUT for target in targets):
        raise ValueError("stdout holds the report of run alone", "give a path")
    return [Target(target.form, str(folder / target.path)) for target in targets]


def _severity(value: Any, _: Path) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is no table", 'such as { GG133 = "error" }')
    for code, level in value.items():
        _check_level(code, level)
    return dict(value)


def _check_level(code: str, level: Any) -> None:
    known = [code for code in PAGES if code not in REPLAYED]
    if code not in known:
        what = f"unknown code `{code}`"
        if code in REPLAYED:
            what = f"{code} is said by `gg-datalog replay` alone, which takes no severities"
        raise ValueError(what, f"codes: {', '.join(known)}")
    if not isinstance(level, str) or level not in LEVELS:
        what = f"{level!r}, for {code}, is none of {', '.join(LEVELS)}"
        raise ValueError(what, *_meant(level, LEVELS))
    if level == "off" and code not in BESIDE:
        what = f"{code} says why an output is not shown to be right: it cannot be off"
        raise ValueError(what, "make it a note, or accept single findings by a baseline")


def _meant(word: Any, known: Sequence[str]) -> list[str]:
    close = get_close_matches(str(word), known, n=1)
    return [f"did you mean `{close[0]}`?"] if close else [f"known: {', '.join(known)}"]


KEYS: dict[str, Check] = {
    "engine": _one_of("auto", "souffle", "clingo"),
    "timeout": _seconds,
    "operators": _paths,
    "allow-partial": _names,
    "allow-layout": _names,
    "format": _one_of("human", "json"),
    "report": _reports,
    "baseline": _path,
    "repairs": _switch,
    "confirm": _budget,
    "severity": _severity,
}
