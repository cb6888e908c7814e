"""Hashes of facts and of the files that they were extracted from.

A table's hash is over its rows, in order, not over the file that holds them: the same facts in
Parquet and as text have the same hash, and so they have with another release of Arrow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SOURCES = "sources"


def file_hash(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table_hash(table: pa.Table) -> str:
    """The hash of a table of int64 and string columns without nulls."""
    found = hashlib.sha256(f"{table.num_rows} rows\n".encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        found.update(f"{name}: {column.type}\n".encode())
        for part in _parts(column):
            found.update(part)
    return found.hexdigest()


def _parts(column: pa.ChunkedArray) -> Iterator[memoryview]:
    """The values of a column, however they are cut into chunks; of texts where each ends, too."""
    import pyarrow as pa

    # One array that begins with its own first value, and what each of its values ends with.
    whole = pa.concat_arrays([*column.chunks, pa.array([], column.type)])
    if not len(whole):
        return
    *ends, values = (memoryview(part or b"").cast("B") for part in whole.buffers()[1:])
    if not ends:
        yield values[: 8 * len(whole)]
        return
    yield ends[0][: 4 * (len(whole) + 1)]
    yield values[: ends[0].cast("i")[len(whole)]]


def case_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The case that the manifest of facts remembers, with the hashes of its files."""
    case = manifest.get("case")
    return {**(case if isinstance(case, dict) else {}), SOURCES: manifest.get(SOURCES)}


def sources(case: Mapping[str, Any]) -> Mapping[str, Any]:
    """By role the hashes of the files of a case, as the manifest of its facts remembers it."""
    found = case.get(SOURCES)
    return found if isinstance(found, Mapping) else {}


def joint_hash(tables: Mapping[str, str], sources: Mapping[str, Any]) -> str:
    """One hash for everything: those of the tables by name, and those of the graphs and of what
    was read with them. How long a capture took is in no table, and does not count."""
    lines = [f"table {name} {text}" for name, text in sorted(tables.items())]
    for role, texts in sorted(sources.items()):
        if role != "about" and texts is not None:
            listed = texts if isinstance(texts, list) else [texts]
            lines += [f"{role} {place} {text}" for place, text in enumerate(listed)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
