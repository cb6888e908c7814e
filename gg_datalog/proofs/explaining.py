"""``explain``: why a relation holds, down to the input relations, or what one would have needed."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from gg_datalog.foundation.errors import InputError
from gg_datalog.proofs.explanation import Explanation
from gg_datalog.proofs.telling import Teller
from gg_datalog.result.folder import open_result
from gg_datalog.result.names import ranked

if TYPE_CHECKING:
    import duckdb

DEPTH = 6
"""How many levels are shown where nothing else is asked for."""


def explain(
    result: Path, tensor: str, rank: int | None = None, depth: int | None = None
) -> Explanation:
    """Explains the relations of a tensor of a result folder.

    Args:
        result: the folder that ``run`` wrote.
        tensor: a node: ``add_1`` of the sequential graph, ``r0.mm_5`` of a rank, or ``mm_5`` with
            ``rank``.
        rank: of a sequential node only what this rank holds of it.
        depth: how many levels of premises; 6 where it is not given.

    Raises:
        InputError: there is no such result or node.
    """
    with open_result(result) as database:
        return Explainer(database).explain(tensor, rank, depth)


class Explainer:
    """Explains several tensors of one result, which is read once."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._teller = Teller(database, DEPTH)

    def explain(
        self, tensor: str, rank: int | None = None, depth: int | None = None
    ) -> Explanation:
        """As :func:`explain`, of the result that was opened."""
        side, number, name = _found(self._database, tensor, rank)
        base = _base(self._database, side, number, name)
        if (side, base) not in self._teller.made:
            raise _unrelated(name)
        told = self._teller.afresh(DEPTH if depth is None else depth)
        mapped, trees = told.tensor(side, base, rank if side == "seq" else None)
        text = f"r{number}.{name}" if side == "dist" else name
        return Explanation(text, side, number if side == "dist" else rank, mapped, trees)


# ---- which tensor is meant -------------------------------------------------------------------
def _found(
    database: duckdb.DuckDBPyConnection, tensor: str, rank: int | None
) -> tuple[str, int, str]:
    known = database.execute("SELECT side, rank, name FROM graph_node").fetchall()
    places = {("seq", 0, name) for side, _, name in known if side == "seq"}
    places |= {("dist", number, name) for side, number, name in known if side == "dist"}
    number, node = ranked(tensor)
    ranks = {number for side, number, _ in places if side == "dist"}
    if rank is not None and rank not in ranks:
        raise InputError(f"there is no rank {rank}", None, f"ranks: 0 to {max(ranks, default=0)}")
    wanted = [("dist", rank, tensor)] if rank is not None else []
    wanted += [("dist", number, node)] if number >= 0 else []
    for place in [*wanted, ("seq", 0, tensor)]:
        if place in places:
            return place
    names = [name if side == "seq" else f"r{number}.{name}" for side, number, name in places]
    close = get_close_matches(tensor, sorted(names), n=3)
    hint = f"did you mean {', '.join(close)}?" if close else "nodes are named as in the graphs"
    raise InputError(f"there is no node `{tensor}`", None, hint)


def _base(database: duckdb.DuckDBPyConnection, side: str, rank: int, name: str) -> str:
    rows = database.execute(
        "SELECT tensor FROM graph_node WHERE side = ? AND name = ? AND (side = 'seq' OR rank = ?)",
        [side, name, rank],
    ).fetchall()
    if not rows or not rows[0][0]:
        raise _unrelated(name)
    return str(rows[0][0])


def _unrelated(name: str) -> InputError:
    hint = "ask for a node that computes one"
    return InputError(f"`{name}` holds no tensor that is related", None, hint)
