"""Hidden folders in which results are made, and what is left of them where their maker died.

For OUT that is ``.OUT.gg-datalog-k3j2h1ab`` beside it, in which ``new`` is filled, and in which
``old`` may wait for it where the two cannot be swapped. Its maker holds a lock on it: one that
nobody holds is of somebody who is gone.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.locks import is_at, opened, taken

MARK = ".gg-datalog-"
NEW, OLD = "new", "old"
NAMED = re.compile(rf"\..*{re.escape(MARK)}\w{{8}}", re.DOTALL)


def is_aside(name: str) -> bool:
    """Is this the name of a file or folder that is only there while something is made?"""
    return NAMED.fullmatch(name) is not None


@contextmanager
def made_aside(folder: Path) -> Iterator[Path]:
    """A hidden folder beside ``folder``, gone afterwards; those of the dead are removed, too."""
    recover(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside, handle = _locked(folder)
    except OSError as error:
        raise InputError(
            f"no folder can be made here: {error.strerror}", str(folder.parent), "give another one"
        ) from None
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def recover(folder: Path) -> None:
    """Puts back what was at ``folder`` where somebody died who was replacing it, and removes what
    he left."""
    with suppress(OSError):
        start = f".{folder.name}{MARK}"
        left = [entry for entry in os.scandir(folder.parent) if entry.name.startswith(start)]
        for entry in left:
            if is_aside(entry.name) and entry.is_dir(follow_symlinks=False):
                _recover(Path(entry.path), folder)


def _recover(aside: Path, folder: Path) -> None:
    handle = opened(aside)
    if handle is None:
        return
    try:
        if not taken(handle) or not is_at(handle, aside):
            return
        if (aside / OLD).is_dir() and not os.path.lexists(folder):
            os.rename(aside / OLD, folder)
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        os.close(handle)


def _locked(folder: Path) -> tuple[Path, int | None]:
    """A new folder and its lock. Between the two somebody may take it for a dead one's."""
    while True:
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}{MARK}", dir=folder.parent))
        handle = opened(aside)
        if handle is None or (taken(handle) is not False and is_at(handle, aside)):
            return aside, handle
        os.close(handle)
