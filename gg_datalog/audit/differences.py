"""Two audits side by side: what is new, fixed, changed, flapping, slower.

Items are the same by their names, findings by their fingerprints, which do not depend on how nodes
are numbered. What is expected is what the later plan says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from gg_datalog.audit.database import asked
from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.items import PENDING, VERDICTS

SLOWER = 2.0
LEAST = 1.0  # CPU seconds by which an item is slower at least: less than that is noise
LUCK = ("timeout", "memory", "lost")
"""How an item ends by the limits or the machine: no other end of the same is a surprise."""
BETTER = ("refines", "inconclusive", "does-not-refine")
"""Statuses from good to bad; those that are no verdict are worse than all of them."""


class Ended(NamedTuple):
    """How an item ended in one of the audits."""

    status: str
    expected: list[str]
    key: str | None
    content: str | None
    rules: str | None
    tool: str | None
    cpu: float | None
    reason: str

    @property
    def good(self) -> bool:
        """Is it as expected?"""
        return self.status in self.expected


@dataclass(frozen=True)
class Found:
    """A finding of an item; ``count`` of one fingerprint, where an item has several."""

    item: str
    code: str
    fingerprint: str
    level: str
    message: str
    source: str | None
    count: int = 1


@dataclass(frozen=True)
class Changed:
    """An item that ended otherwise; ``what`` is another: content, rules, tool, settings or none.
    ``reason`` says why it ended so now, where that is no verdict."""

    item: str
    before: str
    after: str
    what: str
    worse: bool
    reason: str = ""


@dataclass(frozen=True)
class Slower:
    """An item that took more CPU seconds."""

    item: str
    before: float
    after: float


@dataclass(frozen=True)
class Differences:
    """What became of the items. ``added`` and ``removed`` are items of one plan only, with their
    status; ``unrun`` ended before, and are still to be run; ``counts`` says whether being slower
    is worse."""

    both: int = 0
    new: list[Found] = field(default_factory=list)
    fixed: list[Found] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    flapping: list[tuple[str, list[str]]] = field(default_factory=list)
    slower: list[Slower] = field(default_factory=list)
    added: list[Changed] = field(default_factory=list)
    removed: list[tuple[str, str]] = field(default_factory=list)
    unrun: list[tuple[str, str]] = field(default_factory=list)
    counts: bool = False

    def worse(self) -> dict[str, int]:
        """How much of what is worse."""
        found = {
            "new findings": sum(row.count for row in self.new if row.level != "note"),
            "items that end worse": sum(row.worse for row in self.changed),
            "added items that are not as expected": sum(row.worse for row in self.added),
            "flapping items": len(self.flapping),
            "items that are still to be run": len(self.unrun),
            "slower items": len(self.slower) if self.counts else 0,
        }
        return {name: count for name, count in found.items() if count}

    def document(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        pairs = ("item", "status")
        given = asdict(self)
        given["flapping"] = [{"item": item, "statuses": ways} for item, ways in self.flapping]
        for name in ("removed", "unrun"):
            given[name] = [dict(zip(pairs, row, strict=True)) for row in getattr(self, name)]
        given["added"] = [
            {"item": r.item, "status": r.after, "worse": r.worse, "reason": r.reason}
            for r in self.added
        ]
        return {"schema_version": 1, "worse": self.worse(), **given}


def compared(
    before: AuditFolder,
    after: AuditFolder,
    slower: float | None = None,
    only: Collection[str] | None = None,
) -> Differences:
    """What became of the items of an audit in another one.

    Args:
        before, after: the audits.
        slower: how many times as slow an item is that counts as worse; by default it is said of
            those that are twice as slow, and counts for nothing.
        only: the items to compare; all by default.
    """
    old, new = _items(before, only), _items(after, only)
    told = Differences(both=len(old.keys() & new.keys()), counts=slower is not None)
    ways = _ways(before, after)
    for item, now in new.items():
        if now.key in ways and now.status != PENDING:
            told.flapping.append((item, ways[now.key]))
        if item in old:
            _compare(told, item, old[item], now, slower or SLOWER)
        else:
            worse = not now.good and now.status != PENDING
            told.added.append(Changed(item, "", now.status, "added", worse, now.reason))
    told.removed.extend((item, was.status) for item, was in old.items() if item not in new)
    _findings(told, (before, old), (after, new))
    return told


def _compare(told: Differences, item: str, was: Ended, now: Ended, slower: float) -> None:
    if PENDING in (was.status, now.status):
        if now.status == PENDING != was.status:
            told.unrun.append((item, was.status))
        return
    if was.status != now.status:
        change = Changed(
            item, was.status, now.status, _what(was, now), _worse(was, now), now.reason
        )
        told.changed.append(change)
    elif was.cpu and now.cpu and now.cpu > max(slower * was.cpu, was.cpu + LEAST):
        told.slower.append(Slower(item, was.cpu, now.cpu))


def _worse(was: Ended, now: Ended) -> bool:
    """What is as expected is good; of what is not, some is worse than the rest."""
    if now.good:
        return False
    return was.status in now.expected or _rank(now.status) > _rank(was.status)


def _rank(status: str) -> int:
    return BETTER.index(status) if status in BETTER else len(BETTER)


def _what(was: Ended, now: Ended) -> str:
    for name in ("content", "rules", "tool"):
        if getattr(was, name) != getattr(now, name):
            return name
    return "none" if was.key == now.key else "settings"


# ---- what the audits say -------------------------------------------------------------------------
ITEMS = """
    SELECT item, status, expected, key, content, coalesce(rules, ''), tool, cpu,
           coalesce(reason, '') FROM items
    ORDER BY position"""
FINDINGS = """
    SELECT item, fingerprint, any_value(code), any_value(level), any_value(message),
           any_value(coalesce(dist_source, seq_source)), count(*)
    FROM findings GROUP BY item, fingerprint ORDER BY item, fingerprint"""
WAYS = """
    SELECT key, list(DISTINCT status) FROM history
    WHERE "like" IS NULL AND NOT list_contains(?, status) GROUP BY key"""


def _items(folder: AuditFolder, only: Collection[str] | None) -> dict[str, Ended]:
    rows = asked(folder, ITEMS).rows
    return {row[0]: Ended(*row[1:]) for row in rows if only is None or row[0] in only}


def _ways(*folders: AuditFolder) -> dict[str | None, list[str]]:
    """Keys that ended in more than one way, though nothing that matters changed, and those ways."""
    found: dict[str | None, set[str]] = {}
    for folder in folders:
        for key, statuses in asked(folder, WAYS, [list(LUCK)]).rows:
            found.setdefault(key, set()).update(statuses)
    return {key: sorted(statuses) for key, statuses in found.items() if len(statuses) > 1}


Side = tuple[AuditFolder, Mapping[str, Ended]]


def _findings(told: Differences, before: Side, after: Side) -> None:
    """Findings of items that have a verdict in both: an item that did not end fixes nothing."""
    common = {
        item
        for item in before[1].keys() & after[1].keys()
        if before[1][item].status in VERDICTS and after[1][item].status in VERDICTS
    }
    old, new = (_counted(folder, common) for folder, _ in (before, after))
    told.new.extend(_left(new, old))
    told.fixed.extend(_left(old, new))


Counts = dict[tuple[str, str], Found]


def _counted(folder: AuditFolder, items: set[str]) -> Counts:
    found = {}
    for item, fingerprint, code, level, message, source, count in asked(folder, FINDINGS).rows:
        if item in items:
            one = Found(item, code, fingerprint, level, message, source, count)
            found[item, fingerprint] = one
    return found


def _left(these: Counts, those: Counts) -> Iterator[Found]:
    """What of these there is more than of those."""
    less = Counter({place: found.count for place, found in those.items()})
    for place, found in these.items():
        if found.count > less[place]:
            yield Found(**{**asdict(found), "count": found.count - less[place]})
