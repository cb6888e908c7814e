"""Where what a rank returns is 0 since it is the gradient of a weight that was padded there.

A vocabulary of 10 ids on 4 ranks has 12 rows, 3 on each of them. The relations say of the last rank
that its first row is row 9 of the sequential weight, and nothing of the two rows behind it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gg_datalog.extract.case import Case
from gg_datalog.extract.emit import Emitter
from gg_datalog.extract.graph import Graph
from gg_datalog.extract.halves import whole_dims
from gg_datalog.extract.notes import Notes
from gg_datalog.extract.relations import Row
from gg_datalog.extract.view import View


class Padding(NamedTuple):
    """Of an input of ``shape`` on ``rank``, which sequentially is of ``whole``, everything from
    position ``first`` on along dimension ``dim`` is padding."""

    rank: int
    shape: tuple[int, ...]
    whole: tuple[int, ...]
    dim: int
    first: int


def write_padding(
    out: Emitter,
    notes: Notes,
    wanted: Mapping[int, View],
    returned: Mapping[int, Mapping[int, View]],
    rows: Sequence[Row],
    case: Case,
) -> None:
    """Rows about outputs that are 0 in the padding of an input of the same shape. The new value of
    state comes back as it was given, which nobody knows there."""
    known = defaultdict[object, set[int]](set)
    for rank, shape, whole, dim, first in paddings(rows, case):
        known[rank, shape, whole, dim].add(first)
    for number, view in wanted.items():
        if case.outputs[number].state is not None:
            continue
        for rank, mine in returned[number].items():
            for dim, least in zeros_behind(notes, mine):
                place = whole_dims(mine)[dim]
                firsts = known[rank, mine.shape, view.shape, place]
                for first in sorted(n for n in firsts if least <= n):
                    out.add("zero_from", number, rank, dim, first)


def zeros_behind(notes: Notes, view: View) -> Iterator[tuple[int, int]]:
    """The dimensions of the base of a view, and from where on it is 0 along them."""
    blank = notes.blanks.get(view.base)
    shown = whole_dims(view)
    for row, dim, least in blank.halves if blank is not None and not blank.value else ():
        if row < 0 and dim in shown:
            yield dim, least


def paddings(rows: Sequence[Row], case: Case) -> Iterator[Padding]:
    """Inputs of which the relations end with the sequential one, before they end themselves."""
    pieces = defaultdict[tuple[int, str, str], list[Row]](list)
    for row in rows:
        pieces[row.rank, row.dist, row.seq].append(row)
    held = Counter((rank, dist) for rank, dist, _ in pieces)
    for (rank, dist, seq), mine in pieces.items():
        if held[rank, dist] > 1:
            continue
        shape, whole = _sizes(case.dist[rank], dist), _sizes(case.seq, seq)
        for dim, extent in enumerate(shape if whole else ()):
            ends = {(row.dist_box[dim][1], row.seq_box[row.order[dim]][1]) for row in mine}
            first, last = max(ends)
            if first < extent and last == whole[mine[0].order[dim]]:
                yield Padding(rank, shape, whole, dim, first)


def _sizes(graph: Graph, name: str) -> tuple[int, ...]:
    """The dimensions of a node; none where one of them is not known."""
    shape = graph.nodes[name].shape or ()
    known = tuple(extent for extent in shape if isinstance(extent, int))
    return known if len(known) == len(shape) else ()
