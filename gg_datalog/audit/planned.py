"""The plan that a folder was last run with, as a table beside its rows."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime

from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.items import Item
from gg_datalog.audit.key import digest
from gg_datalog.audit.recording import said_of
from gg_datalog.audit.schema import clean, planned


def store(folder: AuditFolder, items: Sequence[Item]) -> None:
    """Makes these the items of the folder; one file for each plan that was ever run."""
    write_plan(
        folder,
        [
            {"position": place, **said_of(item), "expected": list(item.expect),
             "settings": json.dumps(settings_of(item))}
            for place, item in enumerate(items)
        ],
    )  # fmt: skip


def settings_of(item: Item) -> dict[str, object]:
    """What an item is run with, beside what it is."""
    return {
        "run": dict(item.run),
        "reading": dict(item.reading),
        "limits": item.limits.document(),
    }


def write_plan(folder: AuditFolder, rows: Sequence[dict[str, object]]) -> None:
    """The same for rows."""
    from pyarrow import parquet

    name = digest([clean(dict(row)) for row in rows])[:16]
    last = max((path.name for path in folder.plans.glob("*.parquet")), default="")
    if last.endswith(f"-{name}.parquet"):
        return
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    fresh = folder.plans / f".{stamp}-{name}"
    parquet.write_table(planned(rows), fresh, compression="zstd")
    os.replace(fresh, folder.plans / f"{stamp}-{name}.parquet")
