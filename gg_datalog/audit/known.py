"""What is known from earlier runs: verdicts by key, and how each item ended last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from types import MappingProxyType
from typing import Any, NamedTuple

from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.items import Item

ALWAYS = ("refines", "does-not-refine", "inconclusive", "crashes-on-rank", "malformed")
"""What comes out again whenever the same is run; the rest depends on limits, or on luck."""


class Outcome(NamedTuple):
    """How a key ended: with which limits, whether its facts are kept, and what item it was."""

    status: str
    limits: Mapping[str, float]
    kept: bool
    item: str


@dataclass
class Known:
    """Outcomes by key, and the key and status that each item has in its last row."""

    outcomes: dict[str, Outcome]
    last: dict[str, tuple[str, str]]

    def usable(self, key: str, item: Item, keep: str) -> Outcome | None:
        """The outcome of a key, if it need not be run again for this item."""
        found = self.outcomes.get(key)
        if found is None or found.status == "lost":
            return None
        if found.status not in ALWAYS and not item.limits.within(found.limits):
            return None
        return None if self._lacks(found, keep) else found

    def _lacks(self, found: Outcome, keep: str) -> bool:
        """Is something to be kept that was not?"""
        verdict = found.status in ALWAYS[:3]
        wanted = keep == "facts" or (keep == "failures" and found.status != "refines")
        return verdict and wanted and not found.kept


RESULTS = """
    SELECT key, status, CASE WHEN list_contains(?, status) THEN NULL ELSE limits END, page, item
    FROM results"""
MEMORY = "96MB"


def read_known(folder: AuditFolder) -> Known:
    """What the rows of a folder tell. Texts that many rows have are held once."""
    from gg_datalog.audit.database import connected

    known = Known({}, {})
    with connected(folder, MEMORY) as database:
        found = database.execute(RESULTS, [list(ALWAYS)])
        while rows := found.fetchmany(1000):
            for key, status, limits, page, item in rows:
                outcome = Outcome(intern(status), _allowed(limits), bool(page), intern(item))
                known.outcomes[intern(key)] = outcome
        found = database.execute("SELECT item, key, ended FROM latest")
        while rows := found.fetchmany(1000):
            for item, key, ended in rows:
                known.last[intern(item)] = (intern(key), intern(ended))
    return known


NONE: Mapping[str, float] = MappingProxyType({})


def _allowed(limits: list[dict[str, Any]] | None) -> Mapping[str, float]:
    """The limits, where they count."""
    return {row["name"]: row["allowed"] for row in limits} if limits else NONE
