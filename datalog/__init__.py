"""The rules that relate the tensors of both sides."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path


def program_path() -> Path:
    """The rules as a file that an engine can open."""
    with as_file(files(__name__)) as folder:
        return folder / "main.dl"
