"""The plan that a folder was last run with, as a table beside its rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.items import Item
from gg_datalog.audit.recording import said_of
from gg_datalog.audit.schema import clean, planned

BATCH = 2000  # rows that are in memory at a time
Json = dict[str, Any]


def store(folder: AuditFolder, items: Sequence[Item]) -> None:
    """Makes these the items of the folder; one file for each plan that was ever run."""
    write_plan(folder, (_row(place, item) for place, item in enumerate(items)))


def _row(place: int, item: Item) -> Json:
    settings = json.dumps(settings_of(item))
    expected = list(item.expect)
    return {"position": place, **said_of(item), "expected": expected, "settings": settings}


def settings_of(item: Item) -> Json:
    """What an item is run with, beside what it is."""
    return {
        "run": dict(item.run),
        "reading": dict(item.reading),
        "limits": item.limits.document(),
    }


def write_plan(folder: AuditFolder, rows: Iterable[Json]) -> None:
    """The same for rows."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    fresh = folder.plans / f".{stamp}-{os.getpid()}"
    try:
        name = _written(fresh, rows)[:16]
        last = max((path.name for path in folder.plans.glob("*.parquet")), default="")
        if not last.endswith(f"-{name}.parquet"):
            os.replace(fresh, folder.plans / f"{stamp}-{name}.parquet")
    finally:
        fresh.unlink(missing_ok=True)


def _written(path: Path, rows: Iterable[Json]) -> str:
    """Writes rows, some at a time; their hash."""
    from pyarrow import parquet

    found = sha256()
    with parquet.ParquetWriter(path, planned([]).schema, compression="zstd") as writer:
        for batch in _batches(map(clean, rows)):
            writer.write_table(planned(batch))
            found.update("".join(json.dumps(row, sort_keys=True) for row in batch).encode())
    return found.hexdigest()


def _batches(rows: Iterator[Json]) -> Iterator[list[Json]]:
    while batch := list(islice(rows, BATCH)):
        yield batch
