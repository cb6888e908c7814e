"""Lines of the user's code."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from sysconfig import get_path
from types import FrameType

import torch

FRAME = re.compile(r'File "(.+)", line (\d+), in (\S+)\n\s*(.*)')
CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
OWN = (
    f"{Path(torch.__file__).resolve().parent}/",
    f"{Path(__file__).resolve().parent}/",
)
STANDARD = tuple(f"{Path(get_path(name)).resolve()}/" for name in ("stdlib", "platstdlib"))
INSTALLED = ("site-packages", "dist-packages")
PROGRAM_RUNS_IN = str(Path(__file__).with_name("eager_route.py"))
ENGINE = "_engine_run_backward"  # the function in which a backward pass runs


@cache
def is_library(file: str) -> bool:
    """Is this a file of torch or of what it is built on, of Python itself or of this package, or no
    file at all?"""
    if file.startswith("<"):
        return True
    path = Path(file).resolve()
    standard = str(path).startswith(STANDARD) and not set(INSTALLED) & set(path.parts)
    return standard or str(path).startswith(OWN) or bool(_required() & {path, *path.parents})


@cache
def _required() -> frozenset[Path]:
    """The modules of the packages that torch requires: decorators of torch run in them
    (``typing_extensions.deprecated``)."""
    try:
        needed = [text for text in requires("torch") or () if ";" not in text]
    except PackageNotFoundError:
        return frozenset()
    names = [re.split(r"[^\w.-]", text)[0] for text in needed]
    return frozenset(module for name in names for module in _modules(name))


def _modules(name: str) -> set[Path]:
    """The folders and files of Python that an installed package has at the top."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return set()
    tops = {file.parts[0] for file in package.files or () if file.suffix == ".py"} - {".."}
    return {Path(str(package.locate_file(top))).resolve() for top in tops}


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


def traced_line() -> tuple[str, bool]:
    """The innermost line of the user's inside of the program that is traced, as torch writes a
    frame of a stack, and whether a backward pass has it; a line of torch's where there is none."""
    here = sys._getframe(1)
    frame: FrameType | None = here
    found: FrameType | None = None
    while frame is not None and frame.f_code.co_filename != PROGRAM_RUNS_IN:
        code = frame.f_code
        if found is None:
            found = None if is_library(code.co_filename) else frame
        elif code.co_name == ENGINE:
            return _frame_of(found), True
        frame = frame.f_back
    return _frame_of(found or here), False


def _frame_of(frame: FrameType) -> str:
    code = frame.f_code
    return _written(code.co_filename, frame.f_lineno, code.co_name)


@cache
def _written(file: str, line: int, function: str) -> str:
    """One frame as text: its line is read once."""
    frame = traceback.FrameSummary(file, line, function)
    return "".join(traceback.format_list([frame]))


def forget_lines() -> None:
    """Files may have changed since their lines were read."""
    linecache.checkcache()
    _written.cache_clear()
