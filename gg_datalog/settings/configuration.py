"""The configuration file: defaults for options, kept in a project's own files.

Keys stand in ``[tool.gg-datalog]`` of a ``pyproject.toml``, or alone in a ``gg-datalog.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gg_datalog.foundation.documents import read_toml
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.regular import is_there
from gg_datalog.settings.configured import KEYS

OWN = "gg-datalog.toml"
SHARED = "pyproject.toml"
TABLE = "tool.gg-datalog"


@dataclass(frozen=True)
class Configuration:
    """What a configuration file says: checked values by key, paths absolute."""

    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or ``default`` where the file does not have it."""
        return self.values.get(key, default)


def found(folder: Path) -> Configuration:
    """The configuration that holds in a folder: that of the closest file, going up from there.

    A ``pyproject.toml`` without the table is passed over.

    Raises:
        InputError: the file has a mistake, or a folder has both forms.
    """
    for place in (folder.absolute(), *folder.absolute().parents):
        own, shared = place / OWN, place / SHARED
        tables = [(path, _table(path)) for path in (own, shared) if is_there(path)]
        given = [(path, table) for path, table in tables if table is not None]
        if len(given) > 1:
            raise InputError(
                f"this file and [{TABLE}] of {SHARED} beside it both hold a configuration",
                str(own),
                "keep one of the two",
            )
        if given:
            return _checked(*given[0])
    return Configuration()


def load(path: Path) -> Configuration:
    """The configuration in this file.

    Raises:
        InputError: the file cannot be read or has a mistake.
    """
    table = _table(path)
    if table is None:
        raise InputError(f"there is no table [{TABLE}] in it", str(path), "name another file")
    return _checked(path, table)


def _table(path: Path) -> Any:
    """The keys in a file; None for a ``pyproject.toml`` that has none."""
    without = "--no-config does without"
    document = read_toml(path, "the configuration", without, without)
    if path.name != SHARED:
        return document
    tool = document.get("tool")
    return tool.get("gg-datalog") if isinstance(tool, dict) else None


def _checked(path: Path, table: Any) -> Configuration:
    where = f"{path}: [{TABLE}]" if path.name == SHARED else str(path)
    if not isinstance(table, dict):
        raise InputError("this is no table", where, f"write it as [{TABLE}]")
    values = {}
    for key, value in table.items():
        if key not in KEYS:
            raise InputError(f"unknown key `{key}`", where, _meant(key, path))
        try:
            values[key] = KEYS[key](value, path.absolute().parent)
        except ValueError as error:
            what, *hints = error.args
            raise InputError(f"`{key}`: {what}", where, hints[0] if hints else None) from None
    return Configuration(path, values)


def _meant(key: str, path: Path) -> str:
    """What may have been meant by a key that is not known."""
    if key == "tool" and path.name != SHARED:
        return f"only {SHARED} needs the header [{TABLE}]: leave it out here"
    close = get_close_matches(key, KEYS, n=1)
    listed = f"known keys: {', '.join(KEYS)}"
    return f"did you mean `{close[0]}`? {listed}" if close else listed
