"""A case with smaller sizes: every size reduced consistently over both graphs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

from gg_datalog.extract.table import Table
from gg_datalog.replay.atoms import Atom, Dim, cut, extent, fixed, leaves, scaled, size, unify
from gg_datalog.replay.constraints import GraphSizes
from gg_datalog.replay.documents import Documents

WORD = 8  # bytes of a float64 or int64
SMALLEST, LARGEST = 2, 9


@dataclass(frozen=True)
class Shrunk:
    """A case and how much memory its tensors take: as captured and now (bytes); ``rows`` are, per
    integer input of the sequential graph, the rows of the table that it looks up; ``sizes`` pairs
    captured sizes with new ones."""

    case: Documents
    captured: int
    now: int
    rows: Mapping[str, int]
    sizes: Mapping[int, int]


def shrink(case: Documents, table: Table, smaller: bool = True) -> Shrunk:
    """The case with small sizes (or, with ``smaller`` false, as it is)."""
    case = deepcopy(case)
    graphs = {(side, rank): GraphSizes(g, table) for side, rank, g in case.graphs()}
    for one in graphs.values():
        one.collect()
    captured = sum(g.elements(new=False) for g in graphs.values()) * WORD
    chosen: dict[int, int] = {}
    if smaller:
        boxes = _relate(case, graphs)
        _communicate(case, graphs)
        for one in graphs.values():
            one.count()
        chosen = _choose(graphs)
        for one in graphs.values():
            one.resize()
        for box, units in boxes:
            box[:] = [[scaled(v, u) for v in b] for b, u in zip(box, units, strict=True)]
    now = sum(g.elements(new=True) for g in graphs.values()) * WORD
    seq = graphs["seq", 0]
    rows = {name: min(size(d) for d in dims) for name, dims in seq.domains.items()}
    return Shrunk(case, captured, now, rows, chosen)


Graphs = Mapping[tuple[str, int], GraphSizes]
Boxes = list[tuple[list[list[int]], list[Dim]]]


def _relate(case: Documents, graphs: Graphs) -> Boxes:
    """Input relations: both boxes are counted in the same units; every box with its units."""
    found: Boxes = []
    for row in case.relations:
        ours = graphs["seq", 0].dims[row["seq"]]
        theirs = graphs["dist", row["rank"]].dims[row["dist"]]
        units: list[Dim] = []
        for a, b, (lo, hi), (dlo, dhi) in zip(
            ours, theirs, row["seq_box"], row["dist_box"], strict=True
        ):
            if extent(a) == hi - lo == extent(b):
                unify(a, b)
                unit: Dim = a
            else:
                unit = cut(a, [lo, hi, dlo, dhi, extent(b)])
                unify(b, [*fixed(extent(b) // extent(unit)), *unit])
            units.append(unit)
        found += [(row["seq_box"], units), (row["dist_box"], units)]
    return found


def _communicate(case: Documents, graphs: Graphs) -> None:
    """The members of a collective have tensors of one shape."""
    for side in ("seq", "dist"):
        members: dict[tuple[int, int], list[list[Dim]]] = defaultdict(list)
        named = {
            (int(rank), name): number
            for number, group in enumerate(case.groups.get(side, []))
            for rank, name in group["names"].items()
        }
        for (where, rank), one in graphs.items():
            count: dict[int, int] = defaultdict(int)
            for word, _, _, dims in one.collectives if where == side else ():
                number = named.get((rank, word), -1)
                members[number, count[number]].append(dims)
                count[number] += 1
        for shapes in members.values():
            for other in shapes[1:]:
                if [extent(d) for d in other] == [extent(d) for d in shapes[0]]:
                    for a, b in zip(shapes[0], other, strict=True):
                        unify(a, b)


def _choose(graphs: Graphs) -> dict[int, int]:
    """New sizes for what is not fixed: small, and distinct where the captured ones were."""
    atoms: dict[int, Atom] = {}
    for one in graphs.values():
        for dims in one.dims.values():
            for part in dims if isinstance(dims, tuple) else (dims,):
                for dim in part or []:
                    atoms |= {id(a): a for a in leaves(dim)}
    free = sorted({a.extent for a in atoms.values() if not a.fixed})
    chosen, last = {}, SMALLEST - 1
    for captured in free:
        last = min(last + 1, LARGEST)
        chosen[captured] = min(captured, last)
    for atom in atoms.values():
        atom.size = atom.extent if atom.fixed else chosen[atom.extent]
    return chosen
