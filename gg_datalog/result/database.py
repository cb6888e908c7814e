"""``result.duckdb``: facts, derived relations and what follows from them, as documented views."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gg_datalog.foundation.errors import InputError
from gg_datalog.result.blank import (
    AFTER_BREAKS,
    BEFORE_BREAKS,
    PATH,
    blank,
    connect_options,
    stored_queries,
)
from gg_datalog.result.chains import write_breaks
from gg_datalog.result.records import record_tables

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from gg_datalog.result.report import Report

DATABASE = "result.duckdb"
PEOPLE = (
    *("shard", "relation", "operator", "edge", "collective", "tensor_node", "tensor_mapped"),
    *("verdict", "output_status", "returned_state", "chain_break", "blocked"),
)
"""The views that people ask first; relations and records apart, the others serve the program."""
MISSING = ("missing", "rank_wrong")
"""Derived relations without rows where no chain breaks."""
AT_BREAKS = frozenset(("operator_pair", "chain_break", "range_origin", "blocked", "break_beyond"))
"""Stored queries that have an answer only where a chain breaks."""


def create(
    path: Path, facts: Mapping[str, pa.Table], derived: Mapping[str, pa.Table]
) -> duckdb.DuckDBPyConnection:
    """A database with these relations, their records as rows, and the views over everything. The
    rows lie in the file, so it can be moved.

    Raises:
        InputError: it cannot be written there.
    """
    relations = {**facts, **derived, **record_tables(derived)}
    connection = _opened(path, blank({name: table.schema for name, table in relations.items()}))
    connection.execute(f"{PATH}; BEGIN")
    for name, incoming in relations.items():
        if incoming.num_rows:  # read by the name that it has here: twice as fast as registered
            connection.execute(f'INSERT INTO stored."{name}" FROM incoming')
    connection.execute("COMMIT; BEGIN")  # of rows that are not committed DuckDB has no statistics
    broken = any(derived[name].num_rows for name in MISSING)
    _store(connection, stored_queries(BEFORE_BREAKS))
    if broken:
        write_breaks(connection)
    queries = stored_queries(AFTER_BREAKS)
    _store(connection, {n: q for n, q in queries.items() if broken or n not in AT_BREAKS})
    connection.execute("COMMIT")
    return connection


def _store(connection: duckdb.DuckDBPyConnection, queries: Mapping[str, str]) -> None:
    for name, query in queries.items():
        connection.execute(f"INSERT INTO stored.{name} {query}")


def _opened(path: Path, content: bytes) -> duckdb.DuckDBPyConnection:
    import duckdb

    try:
        path.write_bytes(content)
        return duckdb.connect(str(path), config=connect_options())
    except (duckdb.IOException, OSError) as error:
        raise InputError(
            f"DuckDB cannot write here: {str(error).splitlines()[0]}",
            str(path.parent),
            "give another folder with -o (DuckDB takes no backslash in a path)",
        ) from None


def forget(connection: duckdb.DuckDBPyConnection) -> None:
    """Says that nobody reads the file once it is closed: it need not be brought up to date."""
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")


def decide(connection: duckdb.DuckDBPyConnection, report: Report) -> None:
    """Adds what a report says of every output, for views that speak of it."""
    outputs = connection.execute("SELECT wants FROM output_name ORDER BY wants").fetchall()
    rows = [
        [wants, row.status, row.evidence]
        for (wants,), row in zip(outputs, report.outputs, strict=True)
    ]
    if rows:
        connection.executemany("INSERT INTO stored.output_decision VALUES (?, ?, ?)", rows)
