"""A summary in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.listing import listed
from gg_datalog.audit.summary import headline, read_status
from gg_datalog.foundation.visible import visible


def render(folder: AuditFolder, _: str) -> str:
    """How many items ended how, and those that are not as expected."""
    return "\n".join(_lines(folder)) + "\n"


def _lines(folder: AuditFolder) -> Iterator[str]:
    status = read_status(folder)
    yield from (f"**{headline(status)}**", "", "| status | items | not as expected |")
    yield "| --- | ---: | ---: |"
    for name, count in status.counts.items():
        yield f"| {name} | {count} | {status.unexpected.get(name, 0)} |"
    rows = [row for row in listed(folder) if not row["as_expected"] and row["status"] != "pending"]
    if rows:
        yield from ("", "| item | status | expected | why |", "| --- | --- | --- | --- |")
    for row in rows:
        cells = (row["item"], row["status"], " or ".join(row["expected"]), row["why"])
        yield f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """A text that stays in its cell, and means nothing in Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", visible(text))
