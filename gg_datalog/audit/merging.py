"""Audits of parts of one plan, made one audit: ``gg-datalog audit merge``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.audit.database import asked, ensure
from gg_datalog.audit.folder import AuditFolder, Shard, held, made, opened, refuse, running
from gg_datalog.audit.lake import TEMPORARY, Lake
from gg_datalog.audit.planned import write_plan
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 500
WRITER = "merged"
ROW = ("run", "item", "key", "finished")
"""What tells the rows of a lake from each other."""


@dataclass(frozen=True)
class End:
    """How an item ended in an audit, and by which key."""

    status: str
    key: str
    part: Path


def merge(out: Path, parts: Sequence[Path], progress: Progress) -> AuditFolder:
    """Adds what is in the parts to an audit, which is made where it is not there yet. What is in
    it already is not added again, so a merge that was interrupted is repeated.

    Raises:
        InputError: a part is no audit, is being run, or does not fit the others.
    """
    refuse(out)
    given = [opened(part) for part in parts]
    _refuse_twice(out, given)
    there = [opened(out)] if AuditFolder(out).known() else []
    plan = _one_plan([*there, *given])
    ends = _ends([*there, *given])
    folder = made(out)
    with held(folder, Shard()):
        ensure(folder)
        for part in given:
            progress(f"merging {part.path}")
            _add(folder, part, ends)
        write_plan(folder, plan)
    return folder


def _refuse_twice(out: Path, parts: Sequence[AuditFolder]) -> None:
    places = [out.resolve()]
    for part in parts:
        place = part.path.resolve()
        if place in places:
            raise InputError("the folder is named twice", str(part.path), "name each part once")
        places.append(place)
        if running(part):
            raise InputError("an audit is running in it", str(part.path), "wait for its end")


# ---- do they fit -------------------------------------------------------------------------------
SAME = ("item", "kind", "expected")


def _one_plan(audits: Sequence[AuditFolder]) -> list[dict[str, Any]]:
    """The plan that all of them are parts of."""
    first, known = audits[0], _plan(audits[0])
    for audit in audits[1:]:
        plan = _plan(audit)
        if not known:  # an audit that nothing was merged into yet
            first, known = audit, plan
        if text := _other(known, plan):
            raise InputError(
                f"its plan is not that of {first.path}: {text}",
                str(audit.path),
                "merge audits of one plan, each run with --shard; `audit diff` compares others",
            )
    return known


def _plan(audit: AuditFolder) -> list[dict[str, Any]]:
    found = asked(audit, "SELECT * FROM planned ORDER BY position")
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def _other(plan: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> str:
    """What is in one of two plans and not in the other."""
    for ours, theirs in zip(plan, other, strict=False):
        for name in SAME:
            if ours[name] != theirs[name]:
                return f"item `{theirs['item']}` has {name} {theirs[name]!r}, not {ours[name]!r}"
    return "" if len(plan) == len(other) else f"{len(other)} items, not {len(plan)}"


ENDS = "SELECT item, ended, key FROM latest WHERE item IN (SELECT item FROM planned)"


def _ends(audits: Sequence[AuditFolder]) -> dict[str, End]:
    """How each item ended. What was lost in one part may be known in another."""
    known: dict[str, End] = {}
    for audit in audits:
        for item, status, key in asked(audit, ENDS).rows:
            found = known.get(item)
            if found is None or found.status == "lost":
                known[item] = End(status, key, audit.path)
            elif status != "lost" and (found.status, found.key) != (status, key):
                _refuse_other(item, found, End(status, key, audit.path))
    return known


def _refuse_other(item: str, one: End, other: End) -> None:
    what = "of the same content" if one.key == other.key else "of other content, rules or options"
    raise InputError(
        f"item `{item}` ended as {one.status} in {one.part}, and as {other.status} here, {what}",
        str(other.part),
        "leave one of them out, or look at both with `gg-datalog audit diff`",
    )


# ---- what is added -------------------------------------------------------------------------------
def _add(folder: AuditFolder, part: AuditFolder, ends: Mapping[str, End]) -> None:
    """Everything of a part; rows last: what they speak of is there then."""
    for ours, theirs in (
        (folder.cases, part.cases),
        (folder.captures, part.captures),
        (folder.reports, part.reports),
    ):
        _copy(theirs, ours)
    known = {row[0] for row in asked(folder, "SELECT DISTINCT key FROM kept").rows}
    _append(folder, folder.kept, _kept(part, known))
    seen = set(asked(folder, f"SELECT {', '.join(ROW)} FROM history").rows)
    _append(folder, folder.rows, _rows(part, seen, ends))


def _copy(source: Path, target: Path) -> None:
    for path in sorted(source.iterdir()):
        place = target / path.name
        if path.is_file() and not path.name.startswith(".") and not place.exists():
            fresh = target / f".{path.name}"
            shutil.copyfile(path, fresh)
            fresh.rename(place)


def _append(folder: AuditFolder, place: Path, tables: Iterator[pa.Table]) -> None:
    """Adds tables as one file of the lake, which appears whole."""
    from pyarrow import parquet

    lake = Lake(place, WRITER)
    lake.recover()
    first = next(tables, None)
    if first is None:
        return
    fresh = place / f"{WRITER}{TEMPORARY}"
    with parquet.ParquetWriter(fresh, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)
    lake.take(fresh)


def _batches(place: Path) -> Iterator[pa.Table]:
    """The rows of a lake, a few at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    for path in sorted(place.glob("*/*.parquet")):
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH):
                yield pa.Table.from_batches([batch])


def _kept(part: AuditFolder, known: set[str]) -> Iterator[pa.Table]:
    """Facts and derived relations of keys that are not kept yet."""
    import pyarrow as pa

    for table in _batches(part.kept):
        wanted = [key not in known for key in table["key"].to_pylist()]
        if any(wanted):
            yield table.filter(pa.array(wanted))


def _rows(
    part: AuditFolder, seen: set[tuple[Any, ...]], ends: Mapping[str, End]
) -> Iterator[pa.Table]:
    """Rows that are not there yet, but for those that were lost and are known elsewhere."""
    import pyarrow as pa

    for table in _batches(part.rows):
        columns = [table[name].to_pylist() for name in (*ROW, "status")]
        wanted = []
        for *row, status in zip(*columns, strict=True):
            end = ends.get(row[1])
            found = status == "lost" and end is not None and end.status != "lost"
            wanted.append(not found and tuple(row) not in seen)
            seen.add(tuple(row))
        if any(wanted):
            yield table.filter(pa.array(wanted))
