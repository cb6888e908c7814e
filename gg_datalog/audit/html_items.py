"""The items of an audit as its page has them, and the causes behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gg_datalog.audit.database import asked
from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.items import PENDING, VERDICTS

Json = dict[str, Any]
ITEMS = """
    SELECT i.item, i.entry, i.program, p.axes, i.status, i.expected, i.as_expected, i."like",
           i.seconds, i.cpu, i.memory, i.engine, i.tool, i.torch, i.host, i.page, i.key,
           CAST(CAST(i.finished AS DATE) AS VARCHAR) AS day, coalesce(i.reason, '') AS reason,
           r.findings[1] AS first,
           coalesce(len(r.findings), 0) AS findings, coalesce(len(r.outputs), 0) AS outputs,
           coalesce(len(list_filter(r.outputs, lambda o: o.status = 'mapped')), 0) AS mapped
    FROM items i JOIN planned p USING (item) LEFT JOIN results r ON r.key = i.key
    ORDER BY i.position"""
STAGES = """
    SELECT stage, sum(seconds) FROM (
        SELECT unnest(stages, recursive := true) FROM results WHERE key IN (SELECT key FROM items))
    GROUP BY stage ORDER BY sum(seconds) DESC, stage"""


@dataclass(frozen=True)
class Row:
    """An item. ``why`` is the message of its cause, ``report`` the file name of its own report;
    both are empty where there is none. ``memory`` is in bytes."""

    item: str
    entry: str
    program: str
    axes: tuple[tuple[str, str], ...]
    status: str
    expected: str
    unexpected: bool
    like: str
    seconds: float | None
    cpu: float | None
    memory: int | None
    engine: str
    tool: str
    torch: str
    host: str
    day: str
    report: str
    code: str
    fingerprint: str
    why: str
    seq_source: str
    dist_source: str
    repair: str
    findings: int
    outputs: int
    mapped: int


def read_items(folder: AuditFolder) -> list[Row]:
    """All items of the last plan."""
    found = asked(folder, ITEMS)
    return [_row(dict(zip(found.columns, values, strict=True))) for values in found.rows]


def _row(found: Json) -> Row:
    same = ("item", "entry", "program", "status", "seconds", "cpu", "memory",
            "findings", "outputs", "mapped")  # fmt: skip
    texts: Json = {
        name: found[name] or "" for name in ("like", "engine", "tool", "torch", "host", "day")
    }
    wrong = not found["as_expected"] and found["status"] != PENDING
    return Row(
        **{name: found[name] for name in same},
        **texts,
        **_caused(found["status"], found["first"] or {}, found["reason"]),
        axes=tuple((axis["name"], axis["value"]) for axis in found["axes"] or ()),
        expected=" or ".join(found["expected"]),
        unexpected=wrong,
        report=f"{found['key']}.html" if found["page"] else "",
    )


def _caused(status: str, first: Json, reason: str) -> Json:
    """The cause, as the query `by_cause` has it: the first finding, or why there is no verdict."""
    names = ("code", "fingerprint", "seq_source", "dist_source", "repair")
    if status in VERDICTS[1:]:
        return {n: first.get(n) or "" for n in names} | {"why": first.get("message") or ""}
    code = status if status not in (VERDICTS[0], PENDING) else ""
    return dict.fromkeys(names, "") | {"code": code, "why": reason.partition("\n")[0]}


@dataclass
class Cause:
    """What stands in the way of ``items``, given by their places, and of how many that was not
    expected; the message of the first."""

    code: str
    message: str
    source: str
    items: list[int] = field(default_factory=list)
    unexpected: int = 0
    programs: set[str] = field(default_factory=set)


def causes(rows: Sequence[Row]) -> list[Cause]:
    """The causes, those of most items first."""
    found: dict[tuple[str, str], Cause] = {}
    for place, row in enumerate(rows):
        if row.code:
            source = row.dist_source or row.seq_source
            made = Cause(row.code, row.why, source)
            cause = found.setdefault((row.code, row.fingerprint or row.why), made)
            cause.items.append(place)
            cause.unexpected += row.unexpected
            cause.programs.add(row.program)
            cause.source = cause.source if cause.source == source else ""
    return sorted(found.values(), key=lambda cause: (-len(cause.items), cause.code, cause.items[0]))


def read_stages(folder: AuditFolder) -> list[tuple[str, float]]:
    """Stages with their seconds in all that was run, the longest first."""
    return [(stage, float(seconds)) for stage, seconds in asked(folder, STAGES).rows]
