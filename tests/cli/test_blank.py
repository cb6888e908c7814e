"""Results begin as copies of an empty one, and skip what can have no answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from gg_datalog.reference.views import empty_result
from gg_datalog.result import blank as making
from gg_datalog.result.blank import blank, stored_queries
from gg_datalog.result.database import AT_BREAKS
from gg_datalog.result.folder import open_result


def stored(database: duckdb.DuckDBPyConnection) -> dict[str, int]:
    sql = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'stored'"
    names = [name for (name,) in database.execute(sql).fetchall()]
    return {
        name: len(database.execute(f'SELECT * FROM stored."{name}"').fetchall()) for name in names
    }


def test_an_empty_result_has_no_rows() -> None:
    with empty_result() as database:
        rows = stored(database)
    assert set(stored_queries()) < set(rows)
    assert not any(rows.values())


@pytest.mark.parametrize("reduced", [True, False])
def test_what_is_skipped_would_have_had_no_rows(
    judged: Callable[[bool], Path], reduced: bool
) -> None:
    queries = stored_queries()
    assert set(queries) > AT_BREAKS
    with open_result(judged(reduced) / "result") as database:
        rows = stored(database)
        counts = {name: len(database.execute(query).fetchall()) for name, query in queries.items()}
    assert {name: rows[name] for name in queries} == counts
    broken = {name for name in AT_BREAKS if counts[name]}
    assert not broken if reduced else broken > {"chain_break", "blocked"}


def test_it_is_made_once_for_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GG_DATALOG_CACHE", str(tmp_path))
    monkeypatch.setattr(making, "_memory", {})
    monkeypatch.setattr(making, "VIEWS", ())
    texts, numbers = (pa.schema([("of", kind)]) for kind in (pa.string(), pa.int64()))
    first = blank({"a": texts, "b": numbers})
    making._memory.clear()
    assert blank({"b": numbers, "a": texts}) == first
    assert len(os.listdir(tmp_path)) == 1
    assert blank({"a": texts, "b": texts}) != first
    assert len(os.listdir(tmp_path)) == 2
