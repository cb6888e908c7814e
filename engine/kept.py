"""Keeps what is made of a program's text, in memory and on disk: rules change far less often than
they are run, and reading and translating them takes longer than evaluating a small case.

What is kept is named by all that it depends on: the texts of the program, the engine's own source
and the version of clingo. It is JSON, so that reading it runs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from gg_datalog.foundation.made_once import read_made, write_made

from .program import Column, Declaration, Pos, Program, TypeDef, digest
from .translation import Translated, Translation

Make = Callable[[Path], Translated]

_INCLUDE = re.compile(r'\.include\s*"([^"\\\n]*)"')
ENTRIES = 12  # how many of ours a folder may hold: a few versions, of two kinds

_memory: dict[tuple[str, Path], Translated] = {}


def kept(kind: str, path: Path, make: Make) -> Translated:
    """What ``make`` gives for a program.

    Args:
        kind: what it is, in a word.
        path: the program's main file.
        make: makes it; what it raises is passed on, and nothing is kept.
    """
    texts = _texts(path)
    if texts is None:
        return make(path)
    name = f"rules-{kind}-{_key(path, texts)}.json"
    found = _memory.get((name, path)) or read_made(name, path, partial(_decoded, path))
    if found is None:
        found = make(path)
        if found.program.files != texts:  # an include that only the parser sees
            return found
        write_made(name, path, _encoded(found), ENTRIES)
    _memory[name, path] = found
    return found


def _texts(path: Path) -> dict[Path, str] | None:
    """The digests of a program's files; None where one cannot be read."""
    found: dict[Path, str] = {}
    pending = [path]
    while pending:
        file = pending.pop()
        if file in found:
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        found[file] = digest("\n".join(text.splitlines()))
        pending += [file.parent / name for name in _INCLUDE.findall(text)]
    return found


def _key(path: Path, texts: dict[Path, str]) -> str:
    names = sorted((_name(file, path), text) for file, text in texts.items())
    return sha256(f"{_stamp()} {path.name} {names}".encode()).hexdigest()[:32]


@cache
def _stamp() -> str:
    """What an entry depends on besides the program: this engine, and clingo."""
    from importlib.metadata import version

    sources = [
        digest(file.read_text(encoding="utf-8"))
        for file in sorted(Path(__file__).parent.glob("*.py"))
    ]
    return digest(f"{version('clingo')} {sources}")


def _name(file: Path, path: Path) -> str:
    """A file as the program's main file would name it."""
    inside = file.is_relative_to(path.parent)
    return str(file.relative_to(path.parent) if inside else file)


# ---- as JSON ------------------------------------------------------------------------------------
def _encoded(made: Translated) -> bytes:
    program = made.program
    numbers = {file: number for number, file in enumerate(program.files)}

    def at(pos: Pos | None) -> list[int] | None:
        return None if pos is None else [numbers[pos.file], pos.line]

    def columns(of: tuple[Column, ...]) -> list[list[str]]:
        return [[column.name, column.type] for column in of]

    document = {
        "files": [[_name(file, program.path), text] for file, text in program.files.items()],
        "types": [[t.name, t.base, columns(t.fields), at(t.pos)] for t in program.types.values()],
        "declarations": [
            [d.name, columns(d.columns), d.doc, at(d.pos), d.given]
            for d in program.declarations.values()
        ],
        "inputs": program.inputs,
        "outputs": program.outputs,
        "lines": made.translation.lines,
        "origins": [at(pos) for pos in made.translation.origins],
        "rules": made.translation.rules,
        "needs": made.translation.needs,
        "constants": made.constants,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _decoded(path: Path, text: bytes) -> Translated:
    entry: dict[str, Any] = json.loads(text)
    files = {path.parent / name: text for name, text in entry["files"]}
    names = list(files)

    def pos(found: list[int]) -> Pos:
        return Pos(names[found[0]], found[1])

    def columns(found: list[list[str]]) -> tuple[Column, ...]:
        return tuple(Column(name, kind) for name, kind in found)

    types = [TypeDef(name, base, columns(of), pos(at)) for name, base, of, at in entry["types"]]
    declarations = [
        Declaration(name, columns(of), doc, pos(at), given)
        for name, of, doc, at, given in entry["declarations"]
    ]
    program = Program(
        path,
        files,
        {definition.name: definition for definition in types},
        {declaration.name: declaration for declaration in declarations},
        tuple(entry["inputs"]),
        tuple(entry["outputs"]),
        (),
    )
    origins = [None if found is None else pos(found) for found in entry["origins"]]
    needs = [(head, tuple(names)) for head, names in entry["needs"]]
    lines = Translation(entry["lines"], origins, entry["rules"], needs)
    return Translated(program, lines, tuple(entry["constants"]))
