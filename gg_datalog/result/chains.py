"""Where the chains of outputs break: rows of ``stored.seq_break`` and ``stored.dist_break``.

A chain goes from an output through tensors that are missing to those that are missing though all
that they are computed from is there. The pairs of an output and a tensor of its chain are many (200
million for 126 layers on 8 ranks with one mistake), the ends few. So the ends of every tensor are
kept as the bits of a number, and every operand is looked at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import duckdb

SEQ_STARTS = """
    SELECT w.wants, NULL, w."of" FROM wanted w SEMI JOIN missing m ON m."of" = w."of"
    ANTI JOIN output_mapped USING (wants) ORDER BY ALL"""
SEQ_NEEDS = """
    SELECT n."of", n.needs FROM seq_needs n
    SEMI JOIN missing m ON m."of" = n."of" SEMI JOIN missing u ON u."of" = n.needs ORDER BY ALL"""
DIST_STARTS = """
    SELECT r.wants, r.rank, r."of" FROM returned r SEMI JOIN rank_wrong w USING (wants, rank)
    ANTI JOIN tensor_related k ON k.tensor = r."of" ORDER BY ALL"""
DIST_NEEDS = """
    SELECT DISTINCT tensor, needs FROM unknown_need WHERE side = 'dist' AND NOT helper
    ORDER BY ALL"""
COLUMNS = pa.schema([("wants", pa.int64()), ("rank", pa.int64()), ("tensor", pa.string())])


def write_breaks(connection: duckdb.DuckDBPyConnection) -> None:
    """Adds where the chains of all outputs break, on both sides."""
    for table, columns, starts, needs in (
        ("seq_break", "wants, tensor", SEQ_STARTS, SEQ_NEEDS),
        ("dist_break", "wants, rank, tensor", DIST_STARTS, DIST_NEEDS),
    ):
        operands = defaultdict(list)
        for tensor, operand in connection.execute(needs).fetchall():
            operands[tensor].append(operand)
        given = connection.execute(starts).fetchall()
        ends = chain_ends((tensor for *_, tensor in given), operands)
        rows = [(wants, rank, end) for wants, rank, tensor in given for end in ends[tensor]]
        if rows:
            incoming = pa.table(list(zip(*rows, strict=True)), COLUMNS)  # noqa: F841 - read by name
            connection.execute(
                f"INSERT INTO stored.{table} SELECT DISTINCT {columns} FROM incoming"
            )


def chain_ends(
    starts: Iterable[str], operands: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Tensors without operands that each of ``starts`` is computed from, itself included.

    Args:
        operands: of every tensor that has some; what is in no key is an end.
    """
    starts = list(dict.fromkeys(starts))
    order = _operands_first(starts, operands)
    ends = [tensor for tensor in order if not operands.get(tensor)]
    reached = dict.fromkeys(order, 0) | {end: 1 << place for place, end in enumerate(ends)}
    changed = True
    while changed:  # once more than there is to do: twice where nothing is computed from itself
        changed = False
        for tensor in order:
            bits = reached[tensor]
            for operand in operands.get(tensor, ()):
                bits |= reached[operand]
            changed |= bits != reached[tensor]
            reached[tensor] = bits
    named = {
        bits: tuple(end for place, end in enumerate(ends) if bits >> place & 1)
        for bits in {reached[start] for start in starts}
    }
    return {start: named[reached[start]] for start in starts}


def _operands_first(starts: Sequence[str], operands: Mapping[str, Sequence[str]]) -> list[str]:
    order: list[str] = []
    seen = set(starts)
    for start in starts:
        path = [(start, iter(operands.get(start, ())))]
        while path:
            tensor, rest = path[-1]
            for operand in rest:
                if operand not in seen:
                    seen.add(operand)
                    path.append((operand, iter(operands.get(operand, ()))))
                    break
            else:
                order.append(tensor)
                path.pop()
    return order
