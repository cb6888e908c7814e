"""Files that are read: what is no regular file is refused before it can hang or count as absent."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from gg_datalog.foundation.errors import InputError

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def refuse_special(path: Path) -> None:
    """An error where ``path`` is there and no regular file.

    Input is read more than once and hashed; a pipe gives what it holds once, and waits for it."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(
                "this link leads round in a circle", str(path), "give a file, which may be a copy"
            ) from None
        return  # whoever reads it says what is wrong
    except ValueError as error:
        raise InputError(f"this is no path: {error}", str(path), "give another one") from None
    for is_kind, name in KINDS:
        if is_kind(mode):
            raise InputError(
                f"this is {name}, no regular file", str(path), "give a file, which may be a copy"
            )


def is_there(path: Path) -> bool:
    """Is there a file of this name, or a link to one? What is no regular file is refused."""
    refuse_special(path)
    return os.path.lexists(path)
