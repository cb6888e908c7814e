"""Files that are made once and kept: sealed by their hash, whole or not at all.

Each begins with the hash of what follows, so that one that was cut off or changed is made anew, and
any number of processes may write the same one. They lie beside what they are made of, as Python's
own files do, or, where these cannot be written, in the user's folder for such things.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

Made = TypeVar("Made")


def folders(source: Path) -> Iterator[Path]:
    """Where entries may lie, the best place first: ``$GG_DATALOG_CACHE`` alone where it is set.

    Args:
        source: the file that they are made of.
    """
    named = os.environ.get("GG_DATALOG_CACHE")
    if named:
        yield Path(named)
        return
    if not sys.dont_write_bytecode:
        yield source.parent / "__pycache__"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    yield Path(base, "gg-datalog")


def read_made(name: str, source: Path, read: Callable[[bytes], Made]) -> Made | None:
    """What ``read`` makes of an entry; None where there is none, or none that can be trusted."""
    for folder in folders(source):
        # What is kept decides verdicts: nobody else may have written it.
        with suppress(Exception), (folder / name).open("rb") as file:
            status = os.fstat(file.fileno())
            ours = status.st_uid in (os.geteuid(), source.stat().st_uid)
            if not ours or status.st_mode & 0o022:
                continue
            seal, _, content = file.read().partition(b"\n")
            if sha256(content).hexdigest().encode() == seal:
                return read(content)
    return None


def write_made(name: str, source: Path, content: bytes, most: int) -> None:
    """Keeps an entry in the first folder where that is possible, and with it the newest of its
    kind, ``most`` in all; the kind is what comes before the first ``-`` of its name."""
    sealed = sha256(content).hexdigest().encode() + b"\n" + content
    for folder in folders(source):
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(folder / name, sealed)
            _forget(folder, name.partition("-")[0], most)
            return


def _replace(place: Path, content: bytes) -> None:
    kind = place.name.partition("-")[0]
    number, name = tempfile.mkstemp(dir=place.parent, prefix=f"{kind}-", suffix=".tmp")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, place)
    except BaseException:
        os.unlink(name)
        raise


def _forget(folder: Path, kind: str, most: int) -> None:
    """Removes the oldest entries, of what was before."""
    entries = [file for file in folder.glob(f"{kind}-*") if file.suffix != ".tmp"]
    for file in sorted(entries, key=lambda file: file.stat().st_mtime)[:-most]:
        file.unlink(missing_ok=True)
