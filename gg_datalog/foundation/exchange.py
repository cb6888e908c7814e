"""Two folders swapped in one step, so that there is no moment without either of them."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

HERE = -100  # Linux: paths are relative to the current folder
SWAP = 2  # Linux calls it RENAME_EXCHANGE, macOS RENAME_SWAP
UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV)


def swapped(first: Path, other: Path) -> bool:
    """Swaps two folders of one file system; False where the system cannot do that."""
    call = _call()
    if call is None:
        return False
    ctypes.set_errno(0)
    if call(os.fsencode(first), os.fsencode(other)) == 0:
        return True
    code = ctypes.get_errno()
    if code in UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(other))


@cache
def _call() -> Any:
    """The system's function, given two paths."""
    if sys.platform == "win32":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        swap = getattr(library, "renamex_np", None)
        return swap and (lambda one, other: swap(one, other, SWAP))
    swap = getattr(library, "renameat2", None)
    return swap and (lambda one, other: swap(HERE, one, HERE, other, SWAP))
