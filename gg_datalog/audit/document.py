"""An audit as JSON."""

from __future__ import annotations

import json

from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.listing import listed
from gg_datalog.audit.summary import read_status
from gg_datalog.foundation.visible import visible_json


def render(folder: AuditFolder, _: str) -> str:
    """How many items ended how, and every item."""
    status = read_status(folder)
    document = {
        "schema_version": 1,
        "total": status.total,
        "pending": status.pending,
        "statuses": status.counts,
        "unexpected": status.unexpected,
        "items": listed(folder),
    }
    return visible_json(json.dumps(document, indent=1, ensure_ascii=False)) + "\n"
