"""``query``: questions about a result, those that ship with the package and any other."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from gg_datalog.errors import InputError
from gg_datalog.visible import visible, visible_json


@dataclass(frozen=True)
class Answer:
    """Column names and rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def listed(of: str = "") -> str:
    """Every query with its header comment; of results, or of ``audit``."""
    blocks = []
    for name, text in _queries(of).items():
        blocks.append("\n".join([name, *(f"  {line}" for line in _header(text))]))
    return "\n\n".join(blocks)


def statement(name: str, of: str = "") -> str:
    """The SQL of a query; of results, or of ``audit``."""
    queries = _queries(of)
    if name not in queries:
        raise InputError(
            f"there is no query `{name}`", None, f"known: {', '.join(queries)}; or use --sql"
        )
    return queries[name]


TENSOR = "$tensor"
_KNOWN = "SELECT 1 FROM graph_node WHERE $tensor IN (name, 'r' || rank || '.' || name) LIMIT 1"


def asked(result: Path, name: str, tensor: str | None) -> Answer:
    """The answer to one of the queries; some ask about one tensor.

    Raises:
        InputError: there is no such query, or no such tensor, or it asks about none.
    """
    sql = statement(name)
    if (TENSOR in sql) != (tensor is not None):
        takes = "asks about one tensor" if TENSOR in sql else "asks about no single tensor"
        hint = f"gg-datalog query RESULT {name}" + (" TENSOR" if TENSOR in sql else "")
        raise InputError(f"`{name}` {takes}", None, hint)
    answer = ask(result, sql, tensor)
    if tensor is not None and not answer.rows and not ask(result, _KNOWN, tensor).rows:
        raise InputError(
            f"no node is called `{tensor}`", str(result), "give a node, or one of a rank: r0.mm"
        )
    return answer


def ask(result: Path, sql: str, tensor: str | None = None) -> Answer:
    """Runs a statement over a result folder; the result stays as it is. ``tensor`` is what it has
    as ``$tensor``."""
    import duckdb

    from gg_datalog.results import ask_result

    try:
        with ask_result(result) as connection:
            if not duckdb.extract_statements(sql):
                raise InputError("the statement is empty", None, "see `gg-datalog query --list`")
            found = connection.execute(sql, None if tensor is None else {"tensor": tensor})
            columns = [str(column[0]) for column in found.description or []]
            return Answer(columns, found.fetchall() if columns else [])
    except duckdb.Error as error:
        raise InputError(
            f"DuckDB says: {error}", None, "the views are listed by SHOW TABLES"
        ) from None


def shown(answer: Answer) -> Answer:
    """The answer in texts that can be shown on a terminal."""
    rows = [tuple(visible(_cell(value)) for value in row) for row in answer.rows]
    return Answer([visible(name) for name in answer.columns], rows)


def render(answer: Answer, form: str) -> str:
    """The answer as a table, as CSV, or as a JSON list of objects."""
    if form == "json":
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        return visible_json(json.dumps(rows, indent=1, ensure_ascii=False, default=str)) + "\n"
    if form == "csv":
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([answer.columns, *answer.rows])
        return buffer.getvalue()
    return "".join(line.rstrip() + "\n" for line in _table(answer))


def _table(answer: Answer) -> Iterator[str]:
    rows = [[_cell(value) for value in row] for row in answer.rows]
    widths = [
        max(len(row[i]) for row in [answer.columns, *rows]) for i in range(len(answer.columns))
    ]
    for row in [answer.columns, ["-" * width for width in widths], *rows]:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
    if not rows:
        yield "(no rows)"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def _queries(of: str = "") -> dict[str, str]:
    """SQL by name."""
    found = files("gg_datalog.queries").joinpath(of).iterdir()
    named = {entry.name: entry for entry in found if entry.name.endswith(".sql")}
    return {name.removesuffix(".sql"): named[name].read_text("utf-8") for name in sorted(named)}


def _header(sql: str) -> list[str]:
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return lines
