"""The rows of the table of operators, compact: columns, with every text written once."""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from gg_datalog.foundation.visible import visible
from gg_datalog.reporting.html_tensors import Tensors
from gg_datalog.reporting.wording import numbers

if TYPE_CHECKING:
    import duckdb

MOST_ROWS = 30_000
FEW = 40  # links of one tensor that are listed
COLUMNS = ("side", "name", "ranks", "target", "shape", "status", "module", "source", "group")


class Texts:
    """Texts by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def operators(database: duckdb.DuckDBPyConnection, tensors: Tensors) -> dict[str, Any]:
    """Columns of nodes, of which those that are alike on several ranks are one row.

    A text is its number in ``texts``; ``rank_sets`` and ``links`` (per group: the groups of the
    other side and how they relate) are lists that rows refer to; ``left_out`` counts rows.
    """
    merged: dict[tuple[Any, ...], list[int]] = {}
    shown = cache(visible)  # the same few texts on every rank
    for side, rank, *row in database.sql(_NODES).fetchall():
        about = [shown(text) for text in row]
        group = tensors.of_node.get((side, rank, about[0]), -1)
        merged.setdefault((side, *about, group), []).append(rank)
    texts, rank_sets = Texts(), Texts()
    columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
    for key, ranks in islice(merged.items(), MOST_ROWS):
        side, name, target, kind, shape, module, source, group = key
        status = tensors.groups[group].status if group >= 0 else "none"
        values = (
            int(side == "dist"), texts(name), rank_sets(" ".join(map(str, ranks))), texts(target),
            texts(f"{kind} {shape}".strip()), texts(status), texts(module), texts(source), group,
        )  # fmt: skip
        for column, value in zip(COLUMNS, values, strict=True):
            columns[column].append(value)
    return {
        "texts": list(texts.numbers),
        "rank_sets": [[int(rank) for rank in key.split()] for key in rank_sets.numbers],
        "columns": columns,
        "left_out": max(0, len(merged) - MOST_ROWS),
        **_groups(tensors),
    }


def _groups(tensors: Tensors) -> dict[str, Any]:
    """Names of the groups, and their links to the other side."""
    names, links = [], []
    for group in tensors.groups:
        ranks = f"r{numbers(group.ranks)}." if group.side == "dist" else ""
        names.append(ranks + group.node)
        shown = sorted(group.links.items())[:FEW]
        links.append([[other, kind] for other, kind in shown])
    return {"groups": names, "links": links}


_NODES = """
    SELECT side, rank, name, target, dtype, shape, module, source FROM graph_node
    WHERE op <> 'output' ORDER BY side DESC, op = 'placeholder', rank, position"""
