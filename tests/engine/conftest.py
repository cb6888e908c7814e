"""Runs small programs on an engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gg_datalog.engine import Engine, select_engine

Rows = list[tuple[Any, ...]]
Run = Callable[..., dict[str, Rows]]


def engine_named(name: str) -> Engine:
    """The engine; the test is skipped where Soufflé is not installed."""
    if name == "souffle" and shutil.which("souffle") is None:
        pytest.skip("souffle is not on the PATH")
    return select_engine(name)


def table(names: str, rows: Rows) -> pa.Table:
    """A table with string and int64 columns from its rows."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names.split())
    return pa.table([pa.array(column) for column in columns], names=names.split())


def rows_of(relations: Mapping[str, pa.Table]) -> dict[str, Rows]:
    """The relations as lists of tuples."""
    return {
        name: [tuple(row[column] for column in found.column_names) for row in found.to_pylist()]
        for name, found in relations.items()
    }


@pytest.fixture(params=["clingo", "souffle"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    return engine_named(request.param)


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a program to a file."""

    def write(text: str, name: str = "main.dl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write
