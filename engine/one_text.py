"""A program as one text, its includes in place: for the Soufflé binary, or for a reader."""

from __future__ import annotations

import re
from pathlib import Path

from gg_datalog.foundation.errors import EngineError

INCLUDE = re.compile(r'^\.include\s*"([^"\\\n]*)"[^\n]*\n?', re.MULTILINE)


def one_text(path: Path) -> str:
    """All of a program; above what an include brings stands where it comes from.

    Raises:
        EngineError: a file cannot be read, or includes itself.
    """
    return _whole(path, path.parent, ())


def _whole(path: Path, root: Path, outer: tuple[Path, ...]) -> str:
    if path in outer:
        raise EngineError("the file includes itself", str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"cannot read the program: {error}", str(path)) from error

    def brought(include: re.Match[str]) -> str:
        target = path.parent / include[1]
        name = target.relative_to(root).as_posix()
        return f"\n// ==== {name}\n{_whole(target, root, (*outer, path))}"

    return INCLUDE.sub(brought, text)
