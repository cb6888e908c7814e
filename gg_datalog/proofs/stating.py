"""Relations in words: ``r0.mm = Partial(sum over 0:256 of 512 in mm_1) of mm_1[:, 0:64]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gg_datalog.proofs.checker import ONE, Coefficient, Part, Statement

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Made:
    """The node that makes a base tensor, as a person knows it; ``shape`` without dimensions of one
    position."""

    side: str
    name: str
    target: str
    source: str
    module: str
    shape: tuple[int, ...]
    dtype: str


def opened_at(database: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """By sequential operator the name of the node that it stands for."""
    return dict(
        database.sql("SELECT \"by\", node FROM operator_node WHERE side = 'seq'").fetchall()
    )


def nodes(database: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], Made]:
    """By side and base tensor the node that makes it."""
    rows = database.sql(
        "SELECT t.side, t.tensor, t.name, t.target, t.source, t.module, b.shape, b.dtype "
        "FROM tensor_node t JOIN base_tensor b USING (side, tensor, rank, node)"
    ).fetchall()
    return {
        (side, tensor): Made(side, name, target, source, module, _extents(shape), dtype)
        for side, tensor, name, target, source, module, shape, dtype in rows
    }


def _extents(shape: str) -> tuple[int, ...]:
    return tuple(int(extent) for extent in shape.split("x") if extent)


def stated(x: Statement, made: Mapping[tuple[str, str], Made], operators: Mapping[str, str]) -> str:
    """A statement in one line."""
    dist, seq = made["dist", x.dist], made["seq", x.seq]
    right = seq.name + indexed(x.block.seq, _reach(x, 0), seq.shape)
    for part in x.parts:
        right = f"{partial(part, operators)} of {right}"
    if x.times != ONE:
        right = f"{factor(x.times)} x {right}"
    left = dist.name + indexed(x.block.dist, _reach(x, 3), dist.shape)
    order = [p for p, *_ in sorted(x.block.runs, key=lambda run: (run[3], -run[4]))]
    turned = " (dimensions in another order)" if order != sorted(order) else ""
    return f"{left} = {right}{turned}"


def _reach(x: Statement, side: int) -> dict[int, list[tuple[int, int]]]:
    """By dimension the steps and counts of the runs along it."""
    found: dict[int, list[tuple[int, int]]] = {}
    for run in x.block.runs:
        step = run[1] if side == 0 else run[4]
        found.setdefault(run[side], []).append((step, run[2]))
    return found


def indexed(
    at: Mapping[int, int], runs: Mapping[int, Sequence[tuple[int, int]]], shape: Sequence[int]
) -> str:
    """``[:, 0:64, 3]``, nothing where it is all of the tensor; dimensions of one position apart."""
    places = [_index(at[dim], runs.get(dim, ()), extent) for dim, extent in enumerate(shape)]
    return "" if all(place == ":" for place in places) else f"[{', '.join(places)}]"


def _index(at: int, runs: Sequence[tuple[int, int]], extent: int) -> str:
    width = 1
    for step, count in sorted(runs):
        if step != width:
            several = " and ".join(f"{n} every {s}" for s, n in sorted(runs))
            return f"{at} + {several}"
        width *= count
    if (at, width) == (0, extent):
        return ":"
    return str(at) if width == 1 else f"{at}:{at + width}"


def partial(part: Part, operators: Mapping[str, str]) -> str:
    """An open reduction: which range of it has been reduced, and where it was opened."""
    axis, kind, lo, n, extent = part
    by = str(axis[-1][0])
    where = f" in {operators[by]}" if by in operators else ""
    return f"Partial({kind} over {lo}:{lo + n} of {extent}{where})"


def factor(times: Coefficient) -> str:
    """A coefficient as a person writes it."""
    number, over, under = times
    scalars = f"{over or 1} / ({under})" if under else over
    return " * ".join(
        text for text in (str(number) if number != 1 or not scalars else "", scalars) if text
    )
