"""From a report to the fields of a row, and what is kept beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.queries import statement
from gg_datalog.result.report import Finding, Report, as_json

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from gg_datalog.result.store import Facts

Json = dict[str, Any]


def of_result(
    report: Report, facts: Facts, result: Path, task: Mapping[str, Any], scratch: Path
) -> Json:
    """The record of an item that has a verdict, but for its operators."""
    kept = is_kept(report, task)
    files = _kept(report, facts, result, task["key"], scratch) if kept else {}
    return {
        "status": report.verdict,
        "reason": "",
        "facts": report.stats["facts"],
        "derived": report.stats["relations"],
        "engine": " ".join(filter(None, (report.engine["name"], report.engine["version"]))),
        "outputs": [
            {"seq": row.seq, "name": row.name, "status": row.status, "relation": row.relation,
             "evidence": row.evidence}
            for row in report.outputs
        ],
        "findings": [_finding(found) for found in report.findings],
        "assumptions": [{"kind": row.kind, "text": row.text} for row in report.assumptions],
        "report": json.dumps(json.loads(as_json(report)), separators=(",", ":")),
        "files": files,
        "page": "page" in files,
    }  # fmt: skip


def is_kept(report: Report, task: Mapping[str, Any]) -> bool:
    """Do facts, derived relations and page of this item stay?"""
    keep = task["keep"]
    return bool(keep == "facts" or (keep == "failures" and report.verdict != "refines"))


def _finding(found: Finding) -> Json:
    names = ("code", "level", "message", "title", "fingerprint", "seq", "seq_source",
             "dist_source", "module", "trigger", "expected", "found", "certain")  # fmt: skip
    repair = found.repair
    return {
        **{name: getattr(found, name) for name in names},
        "dist": list(found.dist),
        "outputs": list(found.outputs),
        "repair": repair and repair.text,
        "tried": repair is not None and repair.tried,
    }


def operators_of(database: duckdb.DuckDBPyConnection) -> list[Json]:
    """Every kind of operator of both sides, as the query of that name has it."""
    rows = database.execute(statement("operators")).fetchall()
    names = ("target", "seq", "dist", "supported", "reason")
    return [dict(zip(names, row, strict=True)) for row in rows]


# ---- what is kept --------------------------------------------------------------------------------
def _kept(report: Report, facts: Facts, result: Path, key: str, scratch: Path) -> dict[str, str]:
    """Facts and derived relations in one file, and the item's own report."""
    from pyarrow import parquet

    from gg_datalog.reporting import render

    parquet.write_table(packed(key, facts, result), scratch / "kept.parquet", compression="zstd")
    page = render("html", report, result)
    (scratch / "page.html").write_text(page, encoding="utf-8", errors="backslashreplace")
    return {"kept": "kept.parquet", "page": "page.html"}


def packed(key: str, facts: Facts, result: Path) -> pa.Table:
    """Facts and derived relations of one item, one row for each fact."""
    import pyarrow as pa
    from pyarrow import parquet

    from gg_datalog.audit.schema import kept

    derived = {
        path.stem: parquet.read_table(path, partitioning=None) for path in result.glob("*.parquet")
    }
    parts = [part for side, tables in (("facts", facts.tables), ("derived", derived))
             for part in _relations(key, side, tables)]  # fmt: skip
    return pa.concat_tables([kept().empty_table(), *parts])


def _relations(key: str, side: str, tables: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
    for name in sorted(tables):
        if tables[name].num_rows:
            yield _rows(key, side, name, tables[name])


def _rows(key: str, side: str, name: str, table: pa.Table) -> pa.Table:
    import pyarrow as pa

    from gg_datalog.audit.schema import kept

    count = table.num_rows
    fields: dict[bool, list[pa.Array]] = {True: [], False: []}
    for column in table.columns:
        fields[pa.types.is_integer(column.type)].append(column.combine_chunks())
    lists = [_side_by_side(fields[True], pa.int64(), count)]
    lists += [_side_by_side(fields[False], pa.string(), count)]
    said = [pa.array([text] * count, pa.string()) for text in (key, side, name)]
    return pa.table([*said, pa.array(range(count), pa.int64()), *lists], schema=kept())


def _side_by_side(columns: list[Any], kind: Any, count: int) -> Any:
    """Columns as one column of lists: row by row what stands side by side."""
    import pyarrow as pa

    width = len(columns)
    if not width:
        return pa.array([[]] * count, pa.list_(kind))
    flat = pa.concat_arrays([column.cast(kind) for column in columns])
    order = [place * count + row for row in range(count) for place in range(width)]
    offsets = pa.array(range(0, count * width + 1, width), pa.int32())
    return pa.ListArray.from_arrays(offsets, flat.take(pa.array(order, pa.int64())))
