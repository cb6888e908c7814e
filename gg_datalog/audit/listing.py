"""The items of an audit as reports list them."""

from __future__ import annotations

from typing import Any

from gg_datalog.audit.database import asked
from gg_datalog.audit.folder import AuditFolder

ITEMS = """
    SELECT item, entry, program, configuration, status, expected, as_expected, cached, seconds, cpu,
           coalesce(nullif(reason, ''),
                    (SELECT f.code || ': ' || f.message FROM findings f
                     WHERE f.item = i.item AND f.place = 1), '') AS why, key, page
    FROM items i ORDER BY position"""


def listed(folder: AuditFolder) -> list[dict[str, Any]]:
    """Every item of the plan: how it ended, whether that is as expected, and why."""
    found = asked(folder, ITEMS)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]
