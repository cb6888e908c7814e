"""Keeps what is made of a program's text, in memory and on disk: rules change far less often than
they are run, and reading and translating them takes longer than evaluating a small case.

What is kept is used only while every file of the program, the engine's own source and the version
of Python are what they were. A folder that cannot be written, or an entry that is not ours or
cannot be read, only costs the time to make it again.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from .program import Program, digest

Made = TypeVar("Made")
Digests = dict[Path, str]  # of files

_memory: dict[tuple[str, Path], tuple[Digests, Any]] = {}


def cache_folder() -> Path:
    """``$GG_DATALOG_CACHE``, or ``gg-datalog`` in the user's folder for such things."""
    named = os.environ.get("GG_DATALOG_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(base, "gg-datalog")


def kept(
    kind: str,
    path: Path,
    make: Callable[[Path], Made],
    program: Callable[[Made], Program],
) -> Made:
    """What ``make`` gives for a program.

    Args:
        kind: what it is, in a word.
        path: the program's main file; of a relative path nothing is kept.
        make: makes it; what it raises is passed on, and nothing is kept.
        program: the program that it was made of.
    """
    if not path.is_absolute():
        return make(path)
    for digests, found in filter(None, _entries(kind, path)):
        now = {file: _digest(file) for file in digests}
        if digests == now:
            _memory[kind, path] = digests, found
            made: Made = found
            return made
    made = make(path)
    entry = _memory[kind, path] = dict(program(made).files), made
    _write(kind, path, entry)
    return made


def _entries(kind: str, path: Path) -> Iterator[tuple[Digests, Any] | None]:
    yield _memory.get((kind, path))
    yield _read(kind, path)


def _digest(file: Path) -> str:
    try:
        return digest("\n".join(file.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError):
        return ""  # equal to that of no file


@cache
def _stamp() -> str:
    """What an entry depends on besides the program: this engine, and the Python that wrote it."""
    sources = [_digest(file) for file in sorted(Path(__file__).parent.glob("*.py"))]
    return sha256(f"{sys.version} {sources}".encode()).hexdigest()


def _place(kind: str, path: Path) -> Path:
    return cache_folder() / f"{kind}-{sha256(os.fsencode(path)).hexdigest()[:16]}.pickle"


def _read(kind: str, path: Path) -> tuple[Digests, Any] | None:
    # Unpickling runs what a file says: nobody else may have written it.
    with suppress(Exception), _place(kind, path).open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None
        if file.read(64).decode() == _stamp():
            digests, found = pickle.load(file)
            return dict(digests), found
    return None


def _write(kind: str, path: Path, entry: tuple[Digests, Any]) -> None:
    place = _place(kind, path)
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=place.parent)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(_stamp().encode())
                pickle.dump(entry, file, pickle.HIGHEST_PROTOCOL)
            os.replace(name, place)
        except BaseException:
            os.unlink(name)
            raise
