"""The rows of an audit on disk: each written once, in one go; many small files become a large one.

A row is a file of its own until there are :data:`MANY` of them, or the run ends. Then they are
written into one file, whose metadata names them, and only then removed: whoever is interrupted in
between leaves rows twice, which the next one to write removes, and which no view shows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from gg_datalog.audit.schema import table

if TYPE_CHECKING:
    import pyarrow as pa

MANY = 500
MADE_OF = b"gg_datalog.made_of"
SMALL = "row"
LARGE = "rows"
TEMPORARY = ".new"


class Lake:
    """Parquet files below one folder, ``appended=DAY/`` each day's; one process writes files
    that begin with its ``writer``, any number read."""

    def __init__(self, folder: Path, writer: str, many: int = MANY) -> None:
        self.folder, self.writer, self.many = folder, writer, many
        self._names = (f"{writer}-{uuid4().hex[:12]}-{number}" for number in count(1))
        self._small: list[Path] = []

    def recover(self) -> None:
        """What an earlier process of this writer left half done: rows that are in a large file
        are not kept as small ones, and small files of any number count towards the next large
        one."""
        merged: set[str] = set()
        for path in self._own(LARGE):
            merged |= set(_sources(path))
        for path in self._own(SMALL):
            if path.name in merged:
                path.unlink(missing_ok=True)
            else:
                self._small.append(path)
        for path in self.folder.glob(f"*/{self.writer}-*{TEMPORARY}"):
            path.unlink(missing_ok=True)
        self._compact_when_many()

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds rows: all of them are there afterwards, however the process ends then."""
        self.add(table(rows))

    def add(self, found: pa.Table) -> None:
        """The same for a table."""
        path = self._place(SMALL)
        _write(path, found)
        self._small.append(path)
        self._compact_when_many()

    def take(self, path: Path) -> None:
        """Makes a file on the same disk one of the lake."""
        place = self._place(SMALL)
        _synced(path)
        os.replace(path, place)
        self._small.append(place)
        self._compact_when_many()

    def compact(self) -> None:
        """Makes one large file of the small ones."""
        from pyarrow import parquet

        if len(self._small) < 2:
            return
        chosen, self._small = self._small, []
        place, fresh = self._place(LARGE), None
        fresh = place.with_suffix(TEMPORARY)
        schema = parquet.read_schema(chosen[0])
        names = json.dumps([path.name for path in chosen]).encode()
        schema = schema.with_metadata({**(schema.metadata or {}), MADE_OF: names})
        with parquet.ParquetWriter(fresh, schema, compression="zstd") as writer:
            for group in _grouped(chosen):
                writer.write_table(group.cast(schema))
        _synced(fresh)
        os.replace(fresh, place)
        for path in chosen:
            path.unlink(missing_ok=True)

    def _compact_when_many(self) -> None:
        if len(self._small) >= self.many:
            self.compact()

    def _place(self, kind: str) -> Path:
        day = self.folder / f"appended={datetime.now(UTC).date().isoformat()}"
        day.mkdir(parents=True, exist_ok=True)
        return day / f"{next(self._names)}.{kind}.parquet"

    def _own(self, kind: str) -> Iterator[Path]:
        return iter(sorted(self.folder.glob(f"*/{self.writer}-*.{kind}.parquet")))


def _grouped(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """The tables of files, some at a time, so that memory holds."""
    import pyarrow as pa
    from pyarrow import parquet

    for first in range(0, len(paths), 100):
        chosen = paths[first : first + 100]
        tables = [parquet.read_table(path, partitioning=None) for path in chosen]
        yield pa.concat_tables([part.replace_schema_metadata(None) for part in tables])


def _sources(path: Path) -> list[str]:
    from pyarrow import ArrowException, parquet

    try:
        named = (parquet.read_schema(path).metadata or {}).get(MADE_OF)
    except (ArrowException, OSError):
        return []
    return [str(name) for name in json.loads(named)] if named else []


def _write(path: Path, found: pa.Table) -> None:
    from pyarrow import parquet

    fresh = path.with_suffix(TEMPORARY)
    parquet.write_table(found, fresh, compression="zstd")
    _synced(fresh)
    os.replace(fresh, path)


def _synced(path: Path) -> None:
    """The file's bytes are on the disk before its name is."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
