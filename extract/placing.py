"""In what order elements come back: facts about results as they are returned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import prod

from gg_datalog.extract.case import Case
from gg_datalog.extract.context import Context
from gg_datalog.extract.emit import Emitter
from gg_datalog.extract.graph import Graph
from gg_datalog.extract.relations import Row
from gg_datalog.extract.view import View

Axis = list[list[int]]  # ranks by their number along it


def write_placing(
    out: Emitter,
    wanted: Mapping[int, View],
    returned: Mapping[int, Mapping[int, View]],
    rows: Sequence[Row],
    case: Case,
) -> None:
    """Rows about all outputs of a case: ``wanted`` the sequential results by number, ``returned``
    those of the ranks; ``rows`` the input relations."""
    world, periods = max(case.dist) + 1, _periods(case.seq)
    meshes: dict[tuple[int, ...], int] = {}
    ways, turned = sorted(_declared(rows)), _turned(rows)
    for number, whole in wanted.items():
        if 0 in whole.shape:
            continue  # no elements, no order
        again = _repeated([whole, *returned[number].values()])
        view = _once(whole, again)
        out.add("wanted_shaped", number, out.view_shape(view, view.shape))
        sound = _add_up(whole, returned[number], world)
        for rank, mine in returned[number].items() if sound else ():
            if 0 in mine.shape:
                continue
            for order in _orders(mine, {} if again else turned[rank]):
                seen = _once(mine, again).permuted(order)
                out.add("returned_shaped", number, rank, out.view_shape(seen, seen.shape))
        ranks = tuple(returned[number])
        mesh = meshes.setdefault(ranks, len(meshes))
        out.add("returned_by", number, mesh)
        for place, size in enumerate(view.shape):
            for period in sorted(periods[size]):
                out.add("period_of", number, place, period)
            for way, (extent, pieces) in enumerate(ways):
                for rank, *cut in pieces if extent == size else ():
                    out.add("declared_cut", number, rank, place, way, *cut)
    for ranks, mesh in meshes.items():
        _mesh(out, mesh, ranks, world)
    for number, row in enumerate(case.outputs):
        if row.any_layout:
            out.add("layout_allowed", number)


def write_state(
    out: Emitter,
    wanted: Mapping[int, View],
    returned: Mapping[int, Mapping[int, View]],
    case: Case,
    seq: Context,
    dist: Mapping[int, Context],
) -> None:
    """Rows about outputs that are new values of state, of the form that sequentially was given, and
    about gradients that some ranks do not return."""
    for number, row in enumerate(case.outputs):
        for rank, used in row.lacks.items():
            out.add("gradient_lacked", number, rank, used)
        name, names = row.state or ("", {})
        ours = seq.source_of(name) if names else None
        for rank, other in names.items():
            theirs, mine = dist[rank].source_of(other), returned[number].get(rank)
            if not isinstance(ours, View) or not isinstance(theirs, View) or mine is None:
                continue
            if ours.shape != wanted[number].shape or 0 in ours.shape:
                continue
            out.add("state_name", number, rank, name, other)
            if theirs.shape != mine.shape:
                out.add("state_reshaped", number, rank)
            else:
                # What is given has no result, so that its shape never has the id of a returned one:
                # rules that ask for elements of the one cannot be answered by those of the other.
                shapes = [out.view_shape(view, view.shape, results=0) for view in (ours, theirs)]
                out.add("state_of", number, rank, ours.base.name, theirs.base.name, *shapes)


def _turned(rows: Sequence[Row]) -> Mapping[int, Mapping[tuple[int, ...], list[tuple[int, ...]]]]:
    """By rank and shape the orders of dimensions in which inputs are declared to lie there: per
    sequential dimension the one of the rank."""
    found: dict[int, dict[tuple[int, ...], list[tuple[int, ...]]]] = defaultdict(dict)
    for row in rows:
        if row.permute and row.dist_box[0][0] == 0:
            shape = tuple(hi - lo for lo, hi in row.dist_box)
            order = tuple(row.permute.index(i) for i in range(len(row.permute)))
            of = found[row.rank].setdefault(shape, [])
            of += [order] if order not in of else []
    return found


def _repeated(views: Sequence[View]) -> list[int]:
    """Dimensions along which all of them repeat themselves in the same way."""
    if len({len(view.dims) for view in views}) > 1:
        return []
    alike = []
    for at, digits in enumerate(views[0].dims):
        forms = {tuple((d.extent, d.dim < 0) for d in view.dims[at]) for view in views}
        alike += [at] if len(forms) == 1 and any(d.dim < 0 for d in digits) else []
    return alike


def _once(view: View, again: Sequence[int]) -> View:
    """A view with each position once of some dimensions that repeat themselves: where all sides
    repeat alike, what is in place once is so every time."""
    dims = [
        tuple(d for d in digits if d.dim >= 0) if at in again else digits
        for at, digits in enumerate(view.dims)
    ]
    return replace(view, dims=tuple(dims))


def _add_up(whole: View, returned: Mapping[int, View], world: int) -> bool:
    """Where the whole repeats itself along a dimension: has each rank all of its positions, or do
    those of the ranks along an axis of the mesh add up to them?"""
    for at, extent in enumerate(whole.shape):
        if any(d.dim < 0 for d in whole.dims[at]):
            sizes = {r: view.shape[at] for r, view in returned.items() if at < len(view.dims)}
            cuts = axes(list(sizes), world)
            along = [[{sizes[r] for r in peers} for peers in axis] for axis in cuts]
            whole_each = set(sizes.values()) <= {extent}
            if not whole_each and not any(_sum_to(extent, axis) for axis in along):
                return False
    return True


def _sum_to(extent: int, shares: Sequence[set[int]]) -> bool:
    """Do shares, each of one size, add up to an extent?"""
    return all(len(sizes) == 1 for sizes in shares) and sum(n for (n,) in shares) == extent


def _orders(
    returned: View, turned: Mapping[tuple[int, ...], Sequence[tuple[int, ...]]]
) -> list[tuple[int, ...]]:
    """As it is; or as inputs of that shape lie."""
    asis = tuple(range(len(returned.dims)))
    return [asis, *(order for order in turned.get(returned.shape, ()) if order != asis)]


def _periods(graph: Graph) -> dict[int, set[int]]:
    """For the products of neighbouring dimensions of any tensor the products of the inner ones."""
    found: dict[int, set[int]] = defaultdict(set)
    for shape in {tuple(node.shape or ()) for node in graph.nodes.values()}:
        if all(isinstance(extent, int) for extent in shape):
            sizes = [int(extent) for extent in shape]
            for first, inner, end in combinations(range(len(sizes) + 1), 3):
                found[prod(sizes[first:end])].add(prod(sizes[inner:end]))
    return found


# ---- axes of the mesh
def axes(ranks: Sequence[int], world: int) -> list[Axis]:
    """The ways to number ranks along an axis of a mesh that ``world`` ranks form in row-major
    order, however many axes it has: by ``rank // stride % size``, all ranks first."""
    found: list[Axis] = []
    for size in (n for n in range(world, 1, -1) if world % n == 0):
        for stride in (n for n in range(1, world // size + 1) if (world // size) % n == 0):
            by: dict[int, list[int]] = defaultdict(list)
            for rank in ranks:
                by[rank // stride % size].append(rank)
            axis = [by[at] for at in sorted(by)]
            if len(axis) > 1 and axis not in found:
                found.append(axis)
    return found


def _mesh(out: Emitter, mesh: int, ranks: Sequence[int], world: int) -> None:
    for number, axis in enumerate(axes(ranks, world)):
        out.add("mesh_axis", mesh, number)
        for first, second in pairwise(axis):
            out.add("mesh_step", mesh, number, first[0], second[0])
        for peers in axis:
            for one, other in pairwise(peers):
                out.add("mesh_peer", mesh, number, one, other)


# ---- what inputs are declared to be
Pieces = tuple[tuple[int, int, int, int], ...]  # (rank, lo, n, shift)


def _declared(rows: Sequence[Row]) -> set[tuple[int, Pieces]]:
    """(extent, pieces) of the cut dimensions of inputs that do not lie one share after the other,
    in the order of the ranks: those that do need no declaration."""
    extents: dict[tuple[str, int], int] = {}
    cuts: dict[tuple[str, int], set[tuple[int, int, int, int]]] = defaultdict(set)
    for row in rows:
        for at, of in enumerate(row.order):
            (lo, hi), (start, _) = row.seq_box[of], row.dist_box[at]
            extents[row.seq, of] = max(extents.get((row.seq, of), 0), hi)
            cuts[row.seq, of].add((row.rank, lo, hi - lo, lo - start))
    found = set()
    for key, pieces in cuts.items():
        shifts = sorted({(rank, shift) for rank, _, _, shift in pieces})
        one_each = len({rank for rank, _ in shifts}) == len(shifts)
        if not one_each or any(a[1] > b[1] for a, b in pairwise(shifts)):
            found.add((extents[key], tuple(sorted(_merged(pieces)))))
    return found


def _merged(pieces: Iterable[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """(rank, start, size, shift) with pieces that continue each other as one."""
    last: tuple[int, int, int, int] | None = None
    for rank, lo, size, shift in sorted(pieces, key=lambda piece: (piece[0], piece[3], piece[1])):
        if last is not None and (last[0], last[3]) == (rank, shift) and lo <= last[1] + last[2]:
            last = (rank, last[1], max(last[2], lo + size - last[1]), shift)
            continue
        if last is not None:
            yield last
        last = (rank, lo, size, shift)
    if last is not None:
        yield last
