"""A case with smaller sizes: every size reduced consistently over both graphs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from gg_datalog.extract.table import Table
from gg_datalog.replay.atoms import (
    Atom,
    Dim,
    cut,
    extent,
    fixed,
    leaves,
    off_by,
    scaled,
    size,
    unify,
)
from gg_datalog.replay.constraints import GraphSizes
from gg_datalog.replay.documents import Documents
from gg_datalog.replay.lettered import lower

WORD = 8  # bytes of a float64 or int64
SMALLEST, LARGEST = 2, 9


@dataclass(frozen=True)
class Shrunk:
    """A case and how much memory its tensors take: as captured and now (bytes); ``rows`` are, per
    integer input of the sequential graph, the rows of the table that it looks up, ``edges`` the
    numbers at which some program treats it differently, ``skipped`` what is no row and left out;
    ``sizes`` pairs captured sizes with new ones."""

    case: Documents
    captured: int
    now: int
    rows: Mapping[str, int]
    edges: Mapping[str, Sequence[int]]
    skipped: Mapping[str, int]
    sizes: Mapping[int, int]


def shrink(case: Documents, table: Table, smaller: bool = True) -> Shrunk:
    """The case with small sizes (or, with ``smaller`` false, as it is)."""
    case = deepcopy(case)
    lowered = lower(case, table) if smaller else {}
    graphs = {
        (side, rank): GraphSizes(g, table, lowered.get((side, rank)))
        for side, rank, g in case.graphs()
    }
    for one in graphs.values():
        one.collect()
    captured = sum(g.elements(new=False) for g in graphs.values()) * WORD
    chosen: dict[int, int] = {}
    if smaller:
        boxes = _relate(case, graphs)
        for one in graphs.values():
            one.count()
        chosen = _choose(graphs)
        for one in graphs.values():
            one.resize()
        for box, units in boxes:
            box[:] = [
                [scaled(v, unit, by) for v in b] for b, (unit, by) in zip(box, units, strict=True)
            ]
    now = sum(g.elements(new=True) for g in graphs.values()) * WORD
    seq = graphs["seq", 0]
    rows = {name: min(size(d) for d in dims) for name, dims in seq.lookups.domains.items()}
    skipped = {
        name: min(v for v in values if v is not None)
        for name, values in seq.lookups.skipped.items()
        if len(values) == 1 and None not in values and values <= _looked_at(graphs)
    }
    return Shrunk(case, captured, now, rows, _edges(case, graphs), skipped, chosen)


def _looked_at(graphs: Graphs) -> set[int | None]:
    """Numbers that some rank's lookups leave out, or that it compares integers with: of others it
    takes for granted that they do not occur."""
    found: set[int | None] = set()
    for (side, _), graph in graphs.items():
        if side == "dist":
            found |= {one.value for one in graph.lookups.counted}
            found |= {v for values in graph.lookups.skipped.values() for v in values}
    return found


Graphs = Mapping[tuple[str, int], GraphSizes]
Boxes = list[tuple[list[list[int]], list[tuple[Dim, int]]]]  # units, and what lies beside them


def _edges(case: Documents, graphs: Graphs) -> dict[str, list[int]]:
    """Numbers that integer inputs are compared with, also after they were shifted."""
    names = {(row["rank"], row["dist"]): row["seq"] for row in case.relations}
    found: dict[str, set[int]] = defaultdict(set)
    for (side, rank), graph in graphs.items():
        numbers: dict[str, set[int]] = defaultdict(set)
        for one in graph.lookups.counted:
            numbers[one.source].add(one.value)
        for source, mine in numbers.items():
            name = source if side == "seq" else names.get((rank, source), "")
            sums = {a + b for a in mine for b in mine if a != b}
            found[name] |= {v + by for v in (*mine, *sums) for by in (-1, 0, 1)}
    return {name: sorted(values) for name, values in found.items()}


def _relate(case: Documents, graphs: Graphs) -> Boxes:
    """Input relations: both boxes are counted in the same units; every box with its units."""
    found: Boxes = []
    for row in case.relations:
        ours = graphs["seq", 0].dims[row["seq"]]
        theirs = graphs["dist", row["rank"]].dims[row["dist"]]
        ours_in: dict[int, tuple[Dim, int]] = {}
        theirs_in: list[tuple[Dim, int]] = []
        order = row.get("permute", range(len(ours)))
        for of, b, (dlo, dhi) in zip(order, theirs, row["dist_box"], strict=True):
            a, (lo, hi) = ours[of], row["seq_box"][of]
            if extent(a) == hi - lo == extent(b):
                unify(a, b)
                unit: Dim = a
                by = there = 0
            else:
                by = off_by(a, [lo, hi])
                there = off_by(b, [dlo, dhi])
                unit = cut(a, [lo - by, hi - by, dlo - there, dhi - there, extent(b)])
                unify(b, [*fixed(extent(b) // extent(unit)), *unit])
            ours_in[of] = (unit, by)
            theirs_in.append((unit, there))
        found.append((row["seq_box"], [ours_in[of] for of in sorted(ours_in)]))
        found.append((row["dist_box"], theirs_in))
    return found


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
