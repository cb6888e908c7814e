"""Lines of the user's code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from sysconfig import get_path

import torch

FRAME = re.compile(r'File "(.+)", line (\d+), in (\S+)\n\s*(.*)')
CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
LIBRARIES = (
    f"{Path(torch.__file__).resolve().parent}/",
    f"{Path(__file__).resolve().parent}/",
)
STANDARD = tuple(f"{Path(get_path(name)).resolve()}/" for name in ("stdlib", "platstdlib"))
INSTALLED = ("site-packages", "dist-packages")


@cache
def is_library(file: str) -> bool:
    """Is this a file of torch, of Python itself or of this package, or no file at all?"""
    if file.startswith("<"):
        return True
    path = Path(file).resolve()
    standard = str(path).startswith(STANDARD) and not set(INSTALLED) & set(path.parts)
    return standard or str(path).startswith(LIBRARIES)


@cache
def shown_path(file: str) -> str:
    """A path as short as it stays clear: from the current folder, or within its package."""
    path = Path(file)
    if path.is_relative_to(Path.cwd()) and "site-packages" not in path.parts:
        return str(path.relative_to(Path.cwd()))
    for folder in INSTALLED:
        if folder in path.parts:
            return str(Path(*path.parts[path.parts.index(folder) + 1 :]))
    return file


@cache
def source_line(stack_trace: str | None) -> str | None:
    """``file:line in function: code`` of the innermost frame outside torch."""
    frames = FRAME.findall(stack_trace or "")
    outside = [frame for frame in frames if not is_library(frame[0])]
    if not outside:
        return None
    file, line, function, code = outside[-1]
    text = f"{shown_path(file)}:{line} in {function}: {code.strip()}"
    return CONTROL.sub(" ", text)
