"""What each relation means: the comments above the declarations, and those of the report's own.

python -m gg_datalog.reference.relations > docs/relations.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from gg_datalog.datalog import program_path
from gg_datalog.result.comments import COMMENT, DIVIDER, relation_comments

if TYPE_CHECKING:
    from gg_datalog.engine.program import Declaration, Program, TypeDef


INTRODUCTION = """\
# The relations

Written by `make docs` from the comments above the declarations; do not edit. How the rules work
together is told in [rules.md](rules.md).

An *input* is a file of the facts folder, an *output* one of the result folder; both are views of
the same name in `result.duckdb`. Everything else lives only while the rules run. The columns before
a bar, as in `times(a, b | c)`, are given by whoever reads the relation: it has rows for these only.

`result.duckdb` has more than these: [views and queries](views.md). What people ask first is in
`shard` (which rank holds which range of which dimension of which tensor), `relation` (the same in
words), `operator`, `edge` and `collective`; `gg-datalog query --tables` lists these views. Records
are rows: `block_run`, `part_axis` and `coefficient_value` have what `block`, `parts` and `times` of
a relation say, which are keys and no text to be taken apart.
"""


def reference() -> str:
    """The reference of all relations, as Markdown."""
    from gg_datalog.engine.parser import parse_program
    from gg_datalog.extract import schema

    program = parse_program(program_path())
    comments = relation_comments()
    sections = [INTRODUCTION]
    for path in program.files:
        lines = [*_types(program, path), *_relations(program, path, comments)]
        if lines:
            title = path.relative_to(program.path.parent).as_posix()
            sections.append(_section(f"`{title}`", _header(path), lines))
    lines = []
    for relation in schema.REPORT_RELATIONS:
        columns = ", ".join(": ".join(column) for column in relation.columns)
        lines.append(f"- `{relation.name}({columns})`: {comments[relation.name]}")
    about = "Facts that no rule reads: names, source lines, assumptions, for people."
    sections.append(_section("Beside the rules", about, lines))
    return "\n".join(sections)


def _section(title: str, about: str, lines: Sequence[str]) -> str:
    paragraphs = [f"## {title}", about, "\n".join(lines)]
    return "\n\n".join(p for p in paragraphs if p) + "\n"


def _types(program: Program, path: Path) -> Iterator[str]:
    texts = path.read_text(encoding="utf-8").splitlines()
    for kind in program.types.values():
        if kind.pos.file == path:
            text = f"{kind.name} <: {kind.base}" if kind.base else f"{kind.name} = {_fields(kind)}"
            _, beside, comment = texts[kind.pos.line - 1].partition("//")
            said = comment.strip() if beside else _above(texts, kind.pos.line - 1)
            yield f"- type `{text}`: {said}" if said else f"- type `{text}`"


def _fields(kind: TypeDef) -> str:
    return "[" + ", ".join(f"{field.name}: {field.type}" for field in kind.fields) + "]"


def _relations(program: Program, path: Path, comments: Mapping[str, str]) -> Iterator[str]:
    for relation in program.declarations.values():
        if relation.pos.file != path:
            continue
        text, name = f"`{relation.name}({_columns(relation)})`", relation.name
        for names, kind in (program.inputs, "input"), (program.outputs, "output"):
            if name in names:
                yield f"- *{kind}* {text}: {comments[name]}"
                break
        else:
            doc = " ".join(DIVIDER.sub("", relation.doc).split())
            yield f"- {text}: {doc}"


def _columns(relation: Declaration) -> str:
    """Its columns, with a bar behind those that are given."""
    texts = [f"{column.name}: {column.type}" for column in relation.columns]
    given, told = ", ".join(texts[: relation.given]), ", ".join(texts[relation.given :])
    return f"{given} | {told}".rstrip() if relation.given else told


def _above(lines: Sequence[str], number: int) -> str:
    """The comment right above a line."""
    found: list[str] = []
    while number and (comment := COMMENT.match(lines[number - 1])):
        found.insert(0, comment[1])
        number -= 1
    return DIVIDER.sub("", " ".join(found))


def _header(path: Path) -> str:
    """The comment that a file begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = takewhile(bool, map(COMMENT.match, lines))
    return "\n".join(c[1] for c in comments if c).strip()


if __name__ == "__main__":
    sys.stdout.write(reference())
