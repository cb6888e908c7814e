"""What each relation means: the comments above the declarations, and those of the report's own.

python -m gg_datalog.documentation > docs/relations.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import as_file, files
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gg_datalog.engine.program import Program, TypeDef

_DECLARATION = re.compile(r"\s*\.decl\s+(\w+)\s*\(")
_COMMENT = re.compile(r"\s*//\s?(.*)")
_DIVIDER = re.compile(r"-{4} .* -{4,}\s*")

REPORT_RELATIONS = {
    "graph_node": "A node of a captured graph (side seq or dist). It is `times` times a view of "
    "base tensor `tensor`, which `made_by` gives.",
    "operator_node": "Operator `by` stands for node `node`, of the first rank where several agree.",
    "tensor_needs": "Base tensor `tensor` is computed from base tensor `needs` by operator `by`.",
    "base_tensor": "A base tensor: the result of an operator before any movement, without its "
    "dimensions of one position.",
    "output_name": "Output `wants` is sequential node `seq`; partial: it may be an open sum; name: "
    "what the program calls it, where a capture knows.",
    "returned_name": "Rank `rank` returns node `dist` for output `wants`.",
    "state_name": "Output `wants` is the new value of sequential input `seq`, of which rank `rank` "
    "was given `dist`.",
    "gradient_lacked": "Output `wants` is the gradient of what rank `rank` uses as `dist`, and it "
    "returns none.",
    "input_row": "Row `row` of the input relations: seq[seq_box] == dist[dist_box] on `rank`.",
    "assumption": "Something that the verdict takes on trust.",
    "unsupported_operator": "A node that no rule of the operator table describes: equal operands "
    "give equal results, and nothing more.",
    "opaque_input": "A node of which nothing is known.",
    "uninitialised": "A node whose memory is never written; it equals nothing.",
    "collective": "Node `node` of rank `rank` takes part in collective `instance`.",
    "collective_mismatch": "A collective that does not line up between its members.",
    "warning": "What extraction warned of.",
    "output_view": "How an output lies over its base tensor: per dimension its digits, "
    "`base dimension/extent/stride`, outermost first.",
}


def program_path() -> Path:
    """The rules as a file that an engine can open."""
    with as_file(files("gg_datalog.datalog")) as folder:
        return folder / "main.dl"


def relation_comments() -> dict[str, str]:
    """A sentence or two for every relation that facts, rules or report declare."""
    found = dict(REPORT_RELATIONS)
    for path in sorted(program_path().parent.rglob("*.dl")):
        found.update(_comments(path.read_text(encoding="utf-8")))
    return found


def _comments(text: str) -> dict[str, str]:
    """Comments right above a ``.decl``; one without any shares that of the one before."""
    found: dict[str, str] = {}
    above: list[str] = []
    last = ""
    for line in text.splitlines():
        declared = _DECLARATION.match(line)
        comment = _COMMENT.match(line)
        if declared:
            last = " ".join(above) or last
            if last:
                found[declared[1]] = last
            above = []
        elif comment and not _DIVIDER.match(comment[1]):
            above.append(comment[1])
        elif not line.strip():
            above, last = [], ""
        elif not comment and not line.startswith(".input"):
            above = []
    return found


INTRODUCTION = """\
# The relations

Written by `make docs` from the comments above the declarations; do not edit. How the rules work
together is told in [rules.md](rules.md).

An *input* is a file of the facts folder, an *output* one of the result folder; both are views of
the same name in `result.duckdb`. Everything else lives only while the rules run. A name that ends
with `_want` holds what is asked for, the relation without it the answers.

`result.duckdb` has more than these: `SELECT view_name, comment FROM duckdb_views()` lists them all.
What people ask first is in `shard` (which rank holds which range of which dimension of which
tensor), `operator` and `collective`. Records are rows there: `block_run`, `part_axis` and
`coefficient_value` have what `block`, `parts` and `times` of a relation say.
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
    helpers = []
    for relation in program.declarations.values():
        if relation.pos.file != path:
            continue
        columns = ", ".join(f"{column.name}: {column.type}" for column in relation.columns)
        text, name = f"`{relation.name}({columns})`", relation.name
        for names, kind in (program.inputs, "input"), (program.outputs, "output"):
            if name in names:
                yield f"- *{kind}* {text}: {comments[name]}"
                break
        else:
            doc = " ".join(_DIVIDER.sub("", relation.doc).split())
            if doc:
                yield f"- {text}: {doc}"
            else:
                helpers.append(text)
    if helpers:
        yield f"- Helpers: {', '.join(helpers)}."


def _above(lines: Sequence[str], number: int) -> str:
    """The comment right above a line."""
    found: list[str] = []
    while number and (comment := _COMMENT.match(lines[number - 1])):
        found.insert(0, comment[1])
        number -= 1
    return _DIVIDER.sub("", " ".join(found))


def _header(path: Path) -> str:
    """The comment that a file begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = takewhile(bool, map(_COMMENT.match, lines))
    return "\n".join(c[1] for c in comments if c).strip()


if __name__ == "__main__":
    sys.stdout.write(reference())
