"""An audit in words: how many items ended how, what is not as expected, and the causes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gg_datalog.audit.database import asked
from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.items import PENDING, STATUSES
from gg_datalog.commands.query import Answer
from gg_datalog.foundation.visible import visible
from gg_datalog.queries import statement

MANY = 20


@dataclass(frozen=True)
class Status:
    """How many items there are, by how they ended; ``unexpected`` those that are not as they
    should be. Pending ones are neither."""

    counts: dict[str, int]
    unexpected: dict[str, int]
    seconds: float = 0.0
    cpu: float = 0.0

    @property
    def total(self) -> int:
        """All items of the plan."""
        return sum(self.counts.values())

    @property
    def pending(self) -> int:
        """Items that were not run yet."""
        return self.counts.get(PENDING, 0)

    def exit_code(self) -> int:
        """0 where everything that has ended is as expected, 3 where what is not is inconclusive,
        else 1."""
        if not self.unexpected:
            return 0
        return 3 if set(self.unexpected) == {"inconclusive"} else 1


STATUS = """
    SELECT status, count(*), count(*) FILTER (NOT as_expected AND status <> 'pending'),
           sum(seconds) FILTER (NOT cached), sum(cpu) FILTER (NOT cached)
    FROM items GROUP BY status"""


def read_status(folder: AuditFolder) -> Status:
    """The status of an audit, as its rows tell it."""
    rows = {row[0]: row[1:] for row in asked(folder, STATUS).rows}
    order = [status for status in (*STATUSES, PENDING) if status in rows]
    return Status(
        {status: rows[status][0] for status in order},
        {status: rows[status][1] for status in order if rows[status][1]},
        sum(row[2] or 0.0 for row in rows.values()),
        sum(row[3] or 0.0 for row in rows.values()),
    )


def headline(status: Status) -> str:
    """The first line."""
    ended, wrong = status.total - status.pending, sum(status.unexpected.values())
    if not ended:
        return f"NOTHING RUN YET: {status.total} items"
    items = "1 item" if ended == 1 else f"{ended} items"
    left = f"; {status.pending} still to be run" if status.pending else ""
    if wrong:
        word = "INCONCLUSIVE" if status.exit_code() == 3 else "NOT AS EXPECTED"
        return f"{word}: {wrong} of {items}{left}"
    return f"AS EXPECTED: {'' if ended == 1 else 'all of '}{items}{left}"


def as_text(folder: AuditFolder) -> str:
    """The whole summary."""
    status = read_status(folder)
    lines = [headline(status), "", "items", *_counted(status)]
    if status.unexpected:
        lines += ["", "not as expected", *_unexpected(folder)]
    if causes := list(_causes(folder)):
        lines += ["", "causes", *causes]
    lines += ["", f"{status.cpu:,.0f} CPU seconds, {status.seconds:,.0f} s of work"]
    return "\n".join(lines)


def _counted(status: Status) -> Iterator[str]:
    width = max(map(len, status.counts), default=0)
    for name, count in status.counts.items():
        wrong = status.unexpected.get(name, 0)
        note = f", {wrong} not as expected" if wrong else ""
        yield f"  {name:<{width}}  {count}{note}"


UNEXPECTED = """
    SELECT item, status, expected, coalesce(reason, '') AS reason FROM items
    WHERE NOT as_expected AND status <> 'pending' ORDER BY position"""


def _unexpected(folder: AuditFolder) -> Iterator[str]:
    rows = asked(folder, f"{UNEXPECTED} LIMIT {MANY + 1}").rows
    for item, status, expected, reason in rows[:MANY]:
        text = f"  {item}: {status}, expected {' or '.join(expected)}"
        yield visible(text + (f": {reason.splitlines()[0]}" if reason else ""))
    if len(rows) > MANY:
        yield "  and more: gg-datalog audit query AUDIT --sql 'FROM items WHERE NOT as_expected'"


def _causes(folder: AuditFolder) -> Iterator[str]:
    found = asked(folder, statement("by_cause", "audit"))
    for row in _named(found)[:MANY]:
        more = "" if row["items"] == 1 else "s"
        yield visible(f"  {row['code']} in {row['items']} item{more}: {row['message']}")
    if len(found.rows) > MANY:
        yield "  and more: gg-datalog audit query AUDIT by_cause"


def _named(found: Answer) -> list[dict[str, Any]]:
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]
