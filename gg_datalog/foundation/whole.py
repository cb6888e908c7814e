"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gg_datalog.foundation.aside import MARK


def replace_file(path: Path, text: bytes) -> None:
    """Writes a file, whole or not at all; OSError where that cannot be."""
    if is_stream(path):
        with path.open("ab") as stream:
            stream.write(text)
        return
    place = Path(os.path.realpath(path))  # what a link points to is replaced, not the link
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{place.name[:100]}{MARK}", dir=place.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        fresh.chmod(_mode(place))
        fresh.replace(place)
    finally:
        fresh.unlink(missing_ok=True)


def is_stream(path: Path) -> bool:
    """Whether this is a device or a pipe (``/dev/stderr``), which cannot be replaced."""
    parts = path.absolute().parts[1:3]
    if parts[:1] in (("dev",), ("proc",)) and parts != ("dev", "shm"):
        return True
    return path.exists() and not path.is_file()


def _mode(place: Path) -> int:
    """The permissions of the file that is replaced, or those of any new file."""
    if place.exists():
        return place.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
