"""Where reports go: ``FORMAT=PATH`` as the user writes it, checked early, written whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.folders import adopt
from gg_datalog.foundation.whole import is_stream, replace_file
from gg_datalog.reporting import FORMATS, render
from gg_datalog.result.printable import printable
from gg_datalog.result.report import Report

STDOUT = "-"
ELSEWHERE = "give another path to --report"


@dataclass(frozen=True)
class Target:
    """A report that is asked for: its format and where it goes (``-`` is stdout)."""

    form: str
    path: str


def parsed(text: str, formats: Collection[str] = FORMATS) -> Target:
    """The target that ``FORMAT=PATH`` names; ValueError says what is wrong with it."""
    form, equals, path = text.partition("=")
    known = f"formats: {', '.join(formats)}"
    if not equals or not path:
        raise ValueError(f"{text!r} is not FORMAT=PATH ({known})")
    if form not in formats:
        raise ValueError(f"no such format: {form!r} ({known})")
    return Target(form, os.path.expanduser(path))  # no shell does it behind the `=`


def check(targets: Sequence[Target], result: Path | None = None) -> None:
    """Refuses what could not be written, before any work is done; makes and changes nothing.
    ``result`` is a folder that will be there by then."""
    seen: dict[str, str] = {}
    folder = None if result is None else Path(os.path.realpath(result))
    for target in targets:
        place = target.path if target.path == STDOUT else os.path.realpath(target.path)
        if place in seen:
            what = f"both {seen[place]} and {target.form} would be written there"
            raise InputError(what, target.path, "give each --report a path of its own")
        if folder is not None and folder.is_relative_to(place):
            raise InputError("a folder of this name will be made", target.path, ELSEWHERE)
        seen[place] = target.form
        if target.path != STDOUT:
            with _explained(target.path):
                _check(Path(target.path))


def write(targets: Sequence[Target], report: Report, result: Path) -> None:
    """Renders all that is asked for, then writes it; a file appears whole or not at all."""
    put(targets, [render(target.form, report, result) for target in targets])
    if any(target.form == "github" for target in targets):
        from gg_datalog.reporting.github import summarize

        summarize(printable(report), result)


def put(targets: Sequence[Target], texts: Sequence[str]) -> None:
    """Writes what was rendered for each target."""
    for target, text in zip(targets, texts, strict=True):
        # Names come from the user's graphs: what UTF-8 cannot hold is written as `\ud800`.
        content = text.encode("utf-8", "backslashreplace")
        if target.path == STDOUT:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
        else:
            with _explained(target.path):
                replace_file(Path(target.path), content)


def own(targets: Sequence[Target]) -> None:
    """Lists what was written in the manifests of the folders of ours that it lies in."""
    for target in targets:
        if target.path != STDOUT and not is_stream(Path(target.path)):
            adopt(Path(target.path))


def _check(path: Path) -> None:
    if path.is_dir():
        raise InputError("there is a folder of this name", str(path), ELSEWHERE)
    if path.exists():
        if not os.access(path, os.W_OK):
            raise InputError("the file may not be written", str(path), ELSEWHERE)
        if is_stream(path):
            return
    with suppress(FileNotFoundError):
        path.lstat()  # a name that is too long fails here already
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise InputError("this is no folder", str(folder), ELSEWHERE)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError("no file may be made in this folder", str(folder), ELSEWHERE)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"the report cannot be written: {reason}", path, ELSEWHERE) from None
