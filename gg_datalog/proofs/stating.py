"""The nodes that make base tensors, as a person knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Made:
    """The node that makes a base tensor; ``name`` has its rank before it."""

    side: str
    rank: int
    name: str
    target: str
    source: str
    module: str


def nodes(database: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], Made]:
    """By side and base tensor, or input that nothing uses, the node that makes it."""
    return {
        (side, tensor): Made(side, rank, name, target, source, module)
        for side, tensor, rank, name, target, source, module in database.sql(_MADE).fetchall()
    }


_MADE = """
    SELECT t.side, t.tensor, t.rank,
           CASE t.side WHEN 'seq' THEN t.node ELSE 'r' || t.rank || '.' || t.node END,
           coalesce(g.target, ''), coalesce(g.source, ''), coalesce(g.module, '')
    FROM internal.held_tensor t
    LEFT JOIN graph_node g ON g.side = t.side AND g.rank = t.rank AND g.name = t.node"""
