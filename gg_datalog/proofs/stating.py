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
    """By side and base tensor the node that makes it."""
    rows = database.sql(
        "SELECT side, tensor, rank, name, target, source, module FROM tensor_node"
    ).fetchall()
    return {
        (side, tensor): Made(side, rank, name, target, source, module)
        for side, tensor, rank, name, target, source, module in rows
    }
