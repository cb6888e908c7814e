"""Where each item stands on the page: programs x configurations, or side by side."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import dirname
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gg_datalog.audit.html_items import Row

NOTHING = -1
Json = dict[str, Any]
Axes = tuple[tuple[str, str], ...]


class Texts:
    """Texts by number, each kept once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def known(self) -> list[str]:
        """All texts in the order of their numbers."""
        return list(self._numbers)


def grouped(rows: Sequence[Row]) -> list[Json]:
    """Groups of items: an entry with a matrix is one, with ``columns`` and ``rows`` of places; what
    has no configuration stands side by side as ``tiles``, by its entry or the folder it lies in."""
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row.entry] = sizes.get(row.entry, 0) + 1
    found: dict[tuple[str, bool], list[int]] = {}
    for place, row in enumerate(rows):
        name = row.entry if row.axes or sizes[row.entry] > 1 else dirname(row.item)
        found.setdefault((name, bool(row.axes)), []).append(place)
    return [
        {"name": name, **(_matrix(rows, places) if matrix else {"tiles": places})}
        for (name, matrix), places in found.items()
    ]


def _matrix(rows: Sequence[Row], places: Sequence[int]) -> Json:
    """Items by program and configuration. Where two have both in common, the second one gets
    another row."""
    columns: dict[Axes, int] = {}
    for place in places:
        columns.setdefault(rows[place].axes, len(columns))
    lines: dict[tuple[str, int], list[int]] = {}
    for place in places:
        program, column = rows[place].program, columns[rows[place].axes]
        copy = 0
        while lines.get((program, copy), [NOTHING] * len(columns))[column] != NOTHING:
            copy += 1
        lines.setdefault((program, copy), [NOTHING] * len(columns))[column] = place
    return {
        "axes": [name for name, _ in next(iter(columns))],
        "columns": [[value for _, value in axes] for axes in columns],
        "rows": [[program, cells] for (program, _), cells in lines.items()],
    }
