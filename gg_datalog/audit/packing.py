"""Cases in one file, named by what they hold."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any

from gg_datalog.foundation.errors import InputError

SUFFIX = ".tar.gz"
# Python before 3.11.4 has no filter.
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def pack(folder: Path, place: Path) -> None:
    """Writes the files of a folder into one; the same files give the same bytes."""
    fresh = place.with_name(place.name + ".new")
    with (
        fresh.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                _add(archive, path, path.relative_to(folder).as_posix())
    os.replace(fresh, place)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    content = path.read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def unpack(place: Path, folder: Path) -> None:
    """Writes the files of a packed folder.

    Raises:
        InputError: it cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(place, "r:gz") as archive:
            archive.extractall(folder, **SAFELY)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(
            f"the packed case cannot be read: {error}", str(place), "capture it again"
        ) from None
