"""An audit as one HTML file: what stands in the way, a matrix of all items, where the time went."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.html_groups import Texts, grouped
from gg_datalog.audit.html_items import Cause, Row, causes, read_items, read_stages
from gg_datalog.audit.items import PENDING, STATUSES
from gg_datalog.audit.summary import headline, read_status
from gg_datalog.reporting.html_page import asset, filled
from gg_datalog.reporting.targets import STDOUT
from gg_datalog.result.printable import printable

PACKAGE = "gg_datalog.audit"
GLYPHS = dict(zip((*STATUSES, PENDING), "✓✗?!∅TMCL·", strict=True))
"""A sign for each status, so that none is told by its colour alone."""
BOUNDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
SLOWEST = 10
MARKS = {0: "✓", 1: "✗", 3: "?"}
Json = dict[str, Any]


def render(folder: AuditFolder, path: str) -> str:
    """The page, whose links lead from ``path`` to the items' own reports."""
    rows = printable(read_items(folder))
    ranked = causes(rows)
    theme = asset("gg_datalog.reporting", "report.css")
    style = theme + asset(PACKAGE, "audit.css")
    content = {
        **_head(folder, rows),
        "causes": ranked,
        "most": max((len(cause.items) for cause in ranked), default=1),
        "axes": _axes(rows),
        **_times(folder, rows),
        "data": _data(rows, ranked, _reports(folder, path)),
    }
    return filled(PACKAGE, "audit.html.j2", style, asset(PACKAGE, "audit.js"), content)


def _head(folder: AuditFolder, rows: Sequence[Row]) -> Json:
    from gg_datalog.foundation.version import __version__

    status = read_status(folder)
    title, _, rest = headline(status).partition(": ")
    return {
        "title": title.capitalize(),
        "lead": rest,
        "code": status.exit_code(),
        "mark": "·" if status.pending == status.total else MARKS[status.exit_code()],
        "status": status,
        "glyphs": GLYPHS,
        "name": folder.path.absolute().name,
        "about": _about(rows),
        "version": __version__,
    }


def _about(rows: Sequence[Row]) -> dict[str, str]:
    """What all of it was run with."""
    found = {
        "Engine": {row.engine for row in rows},
        "gg-datalog": {row.tool for row in rows},
        "torch": {row.torch for row in rows},
        "Machines": {row.host for row in rows},
        "Days": {row.day for row in rows},
    }
    return {name: ", ".join(sorted(filter(None, all))) for name, all in found.items() if any(all)}


def _reports(folder: AuditFolder, path: str) -> str:
    """Where the items' own reports lie, as seen from the page; it ends with a slash."""
    if path == STDOUT:
        return folder.reports.absolute().as_uri() + "/"
    there, here = os.path.realpath(folder.reports), os.path.realpath(Path(path).parent)
    return quote(Path(os.path.relpath(there, here)).as_posix()) + "/"


# ---- configurations and times --------------------------------------------------------------------
def _axes(rows: Sequence[Row]) -> list[Json]:
    """How the items of each value of each axis ended."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        for axis in row.axes:
            found.setdefault(axis, []).append(row)
    names = [name for name, _ in found]
    known = sorted(found, key=lambda axis: names.index(axis[0]))
    return [
        {"axis": name, "value": value, "counts": _counted(found[name, value]),
         "items": len(found[name, value]),
         "unexpected": sum(row.unexpected for row in found[name, value])}
        for name, value in known if names.count(name) > 1
    ]  # fmt: skip


def _counted(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """Statuses with the number of rows, in the order of all statuses."""
    counts = {status: sum(row.status == status for row in rows) for status in GLYPHS}
    return [(status, count) for status, count in counts.items() if count]


def _times(folder: AuditFolder, rows: Sequence[Row]) -> Json:
    ran = [row for row in rows if row.seconds is not None and not row.like]
    slowest = sorted(ran, key=lambda row: -(row.seconds or 0))[:SLOWEST]
    stages = read_stages(folder)
    return {
        "histogram": _histogram([row.seconds or 0.0 for row in ran]),
        "slowest": slowest,
        "stages": stages,
        "all_stages": sum(seconds for _, seconds in stages) or 1.0,
        "cached": sum(bool(row.like) for row in rows),
    }


def _histogram(seconds: Sequence[float]) -> list[tuple[str, int]]:
    """How many items took how long; empty ends are left out."""
    edges = (0.0, *BOUNDS, float("inf"))
    bins = [
        (_between(low, high), sum(low <= one < high for one in seconds))
        for low, high in pairwise(edges)
    ]
    some = [place for place, (_, count) in enumerate(bins) if count]
    return bins[some[0] : some[-1] + 1] if some else []


def _between(low: float, high: float) -> str:
    if not low:
        return f"below {high:g} s"
    return f"above {low:g} s" if high == float("inf") else f"{low:g} to {high:g} s"


# ---- the matrix ----------------------------------------------------------------------------------
def _data(rows: Sequence[Row], ranked: Sequence[Cause], reports: str) -> Json:
    """What the script shows: a column for each field, and where each item stands."""
    texts = Texts()
    of = {place: number for number, cause in enumerate(ranked) for place in cause.items}
    columns: Mapping[str, list[Any]] = {
        name: [texts(getattr(row, name)) for row in rows]
        for name in ("item", "program", "status", "expected", "why", "code", "seq_source",
                     "dist_source", "repair", "like", "report")
    }  # fmt: skip
    numbers = {
        name: [getattr(row, name) for row in rows]
        for name in ("seconds", "cpu", "memory", "findings", "outputs", "mapped")
    }
    flags = {"unexpected": [int(row.unexpected) for row in rows]}
    return {
        "columns": {**columns, **numbers, **flags},
        "cause": [of.get(place, -1) for place in range(len(rows))],
        "groups": grouped(rows),
        "glyphs": GLYPHS,
        "reports": reports,
        "texts": texts.known,
    }
