"""A printed graph as a syntax tree, with the source line that each comment speaks of."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right

from gg_datalog.foundation.errors import InputError
from gg_datalog.readers.fx_clean import PRINT, Cleaned

SOURCE = re.compile(r"File: (.+?):(\d+)(?: in (.+?))?, code: ?(.*)$")
NO_SOURCE = re.compile(r"No stacktrace found for following nodes|^#\s*$")
CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
TRUNCATED = "the text may be cut short or edited: print the graph again"


def parsed(text: Cleaned) -> ast.Module:
    """The syntax tree; the text is never executed."""
    what = "the text is not a printed graph"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse("\n".join(text.lines) + "\n")
    except SyntaxError as error:
        where = f"{text.path}:{error.lineno or len(text.lines)}"
        raise InputError(f"{what}: {error.msg}", where, TRUNCATED) from None
    except ValueError as error:
        raise InputError(f"{what}: {error}", text.path, TRUNCATED) from None


def functions(text: Cleaned, tree: ast.Module) -> tuple[ast.FunctionDef, ast.FunctionDef | None]:
    """``forward`` of the first class, and ``__init__`` where there is one."""
    body: list[ast.stmt] = tree.body
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            body = statement.body
    found = {s.name: s for s in reversed(body) if isinstance(s, ast.FunctionDef)}
    if "forward" not in found:
        what = "no FX graph found: the text has no `def forward`"
        raise InputError(what, text.path, PRINT)
    return found["forward"], found.get("__init__")


class Sources:
    """The source lines of nodes: a comment holds for what follows, up to the next one."""

    def __init__(self, text: Cleaned) -> None:
        self.comments: list[tuple[int, str]] = []
        for number, line in enumerate(text.lines, 1):
            line = line.strip()
            if not line.startswith("#"):
                continue
            if found := SOURCE.search(line):
                function = f" in {found[3]}" if found[3] else ""
                told = f"{found[1]}:{found[2]}{function}: {found[4]}"
                self.comments.append((number, CONTROL.sub(" ", told).strip()))
            elif NO_SOURCE.search(line):
                self.comments.append((number, ""))

    def of(self, line: int) -> str:
        """What the last comment before a line says."""
        place = bisect_right(self.comments, line, key=lambda comment: comment[0])
        return self.comments[place - 1][1] if place else ""
