"""The views and queries over a result, as ``docs/views.md``: their columns and their comments.

python -m gg_datalog.reference.views > docs/views.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gg_datalog.datalog import program_path
from gg_datalog.engine.kept import kept
from gg_datalog.engine.translate import translated
from gg_datalog.extract.schema import REPORT_RELATIONS, RULE_RELATIONS, Relation
from gg_datalog.queries import listed
from gg_datalog.result.blank import VIEWS
from gg_datalog.result.database import PEOPLE, create
from gg_datalog.result.records import COMMENTS

if TYPE_CHECKING:
    import duckdb

INTRODUCTION = """\
# Views and queries

Written by `make docs` from the comments in SQL; do not edit. How to use them is told in
[ask in SQL](asking.md).

`result.duckdb`, in every result folder, has the facts and the derived relations as views of the
same names ([all relations](relations.md)), and the views and queries below.
`gg-datalog query --tables` lists the views that people ask first.
"""
INTERNAL = (
    "They serve the program and may change with it. They lie in schema `internal`; "
    "`gg-datalog query` finds them by their names alone."
)


def reference() -> str:
    """All views and queries, as Markdown."""
    with empty_result() as database:
        lines = {name: f"- `{head}`: {text}" for name, head, text in described(database)}
    parts = [INTRODUCTION, _section("What people ask first", [lines[name] for name in PEOPLE])]
    parts.append(_section("Records as rows", [lines[name] for name in COMMENTS]))
    parts.append(f"## What serves the program\n\n{INTERNAL}\n")
    for file in VIEWS:
        text = files("gg_datalog.result").joinpath("views", f"{file}.sql").read_text("utf-8")
        made = re.findall(r"CREATE VIEW internal\.(\w+)", text)
        parts.append("#" + _section(_about(text), [lines[name] for name in made]))
    parts.append(f"## Queries\n\n`gg-datalog query RESULT NAME`:\n\n```text\n{listed()}\n```\n")
    return "\n".join(parts)


def _section(title: str, lines: Iterable[str]) -> str:
    return f"## {title}\n\n" + "\n".join(lines) + "\n"


def _about(text: str) -> str:
    """The first sentence of the comment that a file begins with."""
    header = text.partition("\n\n")[0].replace("-- ", "")
    return re.split(r"[.:]", header)[0].replace("\n", " ")


def described(database: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str]]:
    """Every view of a result: its name, the name with the columns, and its comment."""
    found = database.execute(
        "SELECT v.view_name, list(c.column_name ORDER BY c.column_index), v.comment "
        "FROM duckdb_views() v JOIN duckdb_columns() c ON c.table_name = v.view_name "
        "AND c.schema_name = v.schema_name WHERE NOT v.internal GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return [(name, f"{name}({', '.join(columns)})", text or "") for name, columns, text in found]


def tables() -> str:
    """The views that people ask first, each with its columns and what it says."""
    with empty_result() as database:
        found = {name: (head, text) for name, head, text in described(database)}
    return "\n\n".join("{}\n  {}".format(*found[name]) for name in PEOPLE)


@contextmanager
def empty_result() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database as a run writes it, of programs without operators."""
    facts = {r.name: r.arrow().empty_table() for r in (*RULE_RELATIONS, *REPORT_RELATIONS)}
    derived = {r.name: r.arrow().empty_table() for r in _outputs()}
    with TemporaryDirectory() as folder:
        path = Path(folder, "empty.duckdb")
        with create(path, facts, derived) as database:
            yield database


def _outputs() -> Iterator[Relation]:
    program = kept("clingo", program_path(), translated).program
    for name in program.outputs:
        columns = program.declarations[name].columns
        kinds = [
            (c.name, "number" if program.kind(c.type) == "number" else "symbol") for c in columns
        ]
        yield Relation(name, tuple(kinds))


if __name__ == "__main__":
    sys.stdout.write(reference())
