"""Places in code: what a report says of a source line, as other tools want to have it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import quote

# `model.py:15 in forward: y = self.down(x)`; a reader may know neither function nor code.
SOURCE = re.compile(r"(?P<path>.+?):(?P<line>\d+)(?: in (?P<function>[^:]+))?(?:: ?(?P<code>.*))?")
DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True)
class Place:
    """A line of code; ``line`` counts from 1 and is None where it is not known."""

    path: str
    line: int | None
    function: str
    code: str

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


def place(source: str | None) -> Place | None:
    """The place that a source text names, or None where that is no line of a file."""
    found = SOURCE.fullmatch(source or "")
    if found is None or found["path"].startswith("<") or len(found["line"]) > 9:
        return None
    line = int(found["line"]) or None  # readers write 0 where they do not know
    return Place(_from_root(found["path"]), line, found["function"] or "", found["code"] or "")


def uri(path: str) -> tuple[str, bool]:
    """A path as a URI, and whether that is relative to the root of the sources."""
    if DRIVE.match(path):
        return PureWindowsPath(path).as_uri(), False
    if path.startswith("/"):
        return PurePosixPath(path).as_uri(), False
    return quote(path, safe="/"), True


def _from_root(path: str) -> str:
    """A path from the root of the sources, where it lies below; other paths as they are.

    Paths within an installed package (``transformers/models/...``) are relative to no folder that
    we know: they stay.
    """
    if DRIVE.match(path):
        return path
    inside = os.path.normpath(Path.cwd() / path)
    root = _root()
    if os.path.isabs(path) or path.startswith("..") or os.path.exists(inside):
        return os.path.relpath(inside, root) if Path(inside).is_relative_to(root) else inside
    return os.path.normpath(path)


def _root() -> Path:
    """The checkout that a workflow of GitHub works in, else the current folder."""
    here = Path.cwd()
    workspace = os.environ.get("GITHUB_WORKSPACE")
    return Path(workspace) if workspace and here.is_relative_to(workspace) else here
