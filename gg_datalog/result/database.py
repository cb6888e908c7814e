"""``result.duckdb``: facts, derived relations and what follows from them, as documented views."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from gg_datalog.foundation.errors import InputError
from gg_datalog.result.comments import relation_comments
from gg_datalog.result.records import (
    COMMENTS,
    ONE_KEY,
    PASSED,
    WHOLE,
    passed_type,
    record_tables,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from gg_datalog.result.report import Report

DATABASE = "result.duckdb"
BLOCK = 32 * 2**10  # bytes: a hundred relations of a few rows each take 2 MB, not 12
VIEWS = ("chains", "reasons", "verdict", "shards")
PEOPLE = (
    *("shard", "relation", "operator", "edge", "collective", "tensor_node", "tensor_mapped"),
    *("verdict", "output_status", "returned_state", "chain_break", "blocked"),
)
"""The views that people ask first; relations and records apart, the others serve the program."""
PATH = "SET search_path = 'main,internal'"
"""Names are those of views for people and of relations, then those that serve the program."""
MACROS = f"""
    CREATE MACRO is_open(parts) AS parts <> '{WHOLE}';
    CREATE MACRO is_one(times) AS times = '{ONE_KEY}'"""


def create(path: Path, facts: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """A database with these relations, to be completed; the rows lie in the file, so it can be
    moved."""
    import duckdb

    try:
        connection = duckdb.connect(str(path), config={"default_block_size": BLOCK, **_threads()})
    except duckdb.IOException as error:
        raise InputError(
            f"DuckDB cannot write here: {str(error).splitlines()[0]}",
            str(path.parent),
            "give another folder with -o (DuckDB takes no backslash in a path)",
        ) from None
    connection.execute(
        f"BEGIN; CREATE SCHEMA stored; CREATE SCHEMA internal; {PATH}; {MACROS}; "
        "CREATE TABLE stored.output_decision (wants BIGINT, status VARCHAR, evidence VARCHAR)"
    )
    _store(connection, facts)
    connection.execute("COMMIT")
    return connection


def _threads() -> dict[str, int]:
    """As many threads as OpenMP would have, where that is said: where many cases are judged side by
    side more of them only cost time."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return {"threads": int(said)} if said.isdecimal() and int(said) else {}


def complete(connection: duckdb.DuckDBPyConnection, derived: Mapping[str, pa.Table]) -> None:
    """Adds the derived relations, their records as rows, and the views over everything."""
    connection.execute("BEGIN")
    _store(connection, derived)
    _store(connection, record_tables(derived))
    connection.execute("COMMIT; BEGIN")  # of rows that are not committed DuckDB has no statistics
    views = files("gg_datalog.result").joinpath("views")
    for name in VIEWS:
        connection.execute(views.joinpath(f"{name}.sql").read_text("utf-8"))
    connection.execute("COMMIT")


def decide(connection: duckdb.DuckDBPyConnection, report: Report) -> None:
    """Adds what a report says of every output, for views that speak of it."""
    outputs = connection.execute("SELECT wants FROM output_name ORDER BY wants").fetchall()
    rows = [
        [wants, row.status, row.evidence]
        for (wants,), row in zip(outputs, report.outputs, strict=True)
    ]
    if rows:
        connection.executemany("INSERT INTO stored.output_decision VALUES (?, ?, ?)", rows)


def _store(connection: duckdb.DuckDBPyConnection, relations: Mapping[str, pa.Table]) -> None:
    comments = {**relation_comments(), **COMMENTS}
    # Most relations of most cases are empty: registering each of them takes longer than all else.
    empty = [name for name, table in relations.items() if not table.num_rows and table.num_columns]
    connection.execute("\n".join(_declared(name, relations[name].schema) for name in empty))
    for name, table in relations.items():
        if name in empty:
            continue
        connection.register("incoming", table)
        connection.execute(f'CREATE TABLE stored."{name}" AS SELECT * FROM incoming')
        connection.unregister("incoming")
    connection.execute("\n".join(_view(name, comments.get(name)) for name in relations))


def _declared(name: str, schema: pa.Schema) -> str:
    import pyarrow as pa

    kinds = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", passed_type(): PASSED}
    columns = (f'"{field.name}" {kinds.get(field.type, "VARCHAR")}' for field in schema)
    return f'CREATE TABLE stored."{name}" ({", ".join(columns)});'


def _view(name: str, comment: str | None) -> str:
    view = f'CREATE VIEW "{name}" AS SELECT * FROM stored."{name}";'
    if comment is None:
        return view
    quoted = comment.replace("'", "''")
    return f"{view} COMMENT ON VIEW \"{name}\" IS '{quoted}';"
