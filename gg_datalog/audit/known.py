"""What is known from earlier runs: verdicts by key, and how each item ended last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


def read_known(folder: AuditFolder) -> Known:
    """What the rows of a folder tell."""
    from gg_datalog.audit.database import connected

    known = Known({}, {})
    with connected(folder) as database:
        found = database.execute("SELECT key, status, limits, page, item FROM results")
        while rows := found.fetchmany(1000):
            for key, status, limits, page, item in rows:
                known.outcomes[key] = Outcome(status, _allowed(status, limits), bool(page), item)
        found = database.execute("SELECT item, key, ended FROM latest")
        while rows := found.fetchmany(1000):
            known.last.update({item: (key, ended) for item, key, ended in rows})
    return known


def _allowed(status: str, limits: list[dict[str, Any]] | None) -> Mapping[str, float]:
    """The limits, where they count."""
    if status in ALWAYS:
        return {}
    return {row["name"]: row["allowed"] for row in limits or ()}
