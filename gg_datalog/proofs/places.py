"""Are elements returned in place? What `datalog/placing.dl` asks of outputs, on positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

from gg_datalog.proofs.positions import Block, Refused, Run

NONE, DECLARED = -1, -2  # no dimension of the result; one that lies as is declared


class Level(NamedTuple):
    """Every `step` positions of a dimension of the output lie `stride` apart along dimension `dim`
    of what a rank returns, `shift` steps further on (DECLARED: in way `stride`)."""

    step: int
    dim: int
    stride: int
    shift: int


class Piece(NamedTuple):
    """Positions [lo, lo + n) of an output, `shift` further on than where they lie."""

    lo: int
    n: int
    shift: int


Lies = tuple[tuple[Level, ...], ...]  # per sequential dimension, the widest step first


def misplaced(checker: Any, wants: int, shares: Mapping[str, Sequence[Any]]) -> str:
    """What is wrong with the order in which the ranks return an output; "" where nothing is, or it
    is state that comes back as it was given.

    Args:
        checker: the facts.
        shares: for each rank the statements about what it returns."""
    if checker.all("layout_allowed", wants):
        return ""
    (f,), ways = checker.one("wanted_shaped", wants), dict[int, list[Lies]]()
    ranks = {int(name): found for name, found in shares.items()}
    if all(_kept(checker, wants, rank, found, f) for rank, found in ranks.items()):
        return ""
    for rank, found in ranks.items():
        mine = _all_ways(checker, (wants, rank), found, f, _returned(checker, wants, rank), True)
        ways[rank] = list(mine)
        if not ways[rank]:
            return f"rank {rank} returns elements in another order"
    (mesh,) = checker.one("returned_by", wants)
    axes = (
        (checker.all("mesh_step", mesh, a), checker.all("mesh_peer", mesh, a))
        for (a,) in checker.all("mesh_axis", mesh)
    )
    return "" if along_axes(ways, axes) else "the shares are in another order than the ranks"


def _returned(checker: Any, wants: int, rank: int) -> list[str]:
    return [g for (g,) in checker.all("returned_shaped", wants, rank)]


def _kept(checker: Any, wants: int, rank: int, found: Sequence[Any], f: str) -> bool:
    """Does what a rank returns lie as what it was given did?"""
    for t, d, seq, dist in checker.all("state_of", wants, rank):
        given = [checker.related_input(row, ()) for row in checker.all("input_of", d, t)]
        before = {*_all_ways(checker, (wants, rank), given, seq, [dist], False)}
        shapes = _returned(checker, wants, rank)
        return not before.isdisjoint(_all_ways(checker, (wants, rank), found, f, shapes, False))
    return False


def _all_ways(
    checker: Any,
    of: tuple[int, int],
    found: Sequence[Any],
    seq: str,
    shapes: Sequence[str],
    placed: bool,
) -> Iterator[Lies]:
    """The ways in which a rank has all that it returns, each with statements that suffice; with
    ``placed`` those that are in order."""
    f = checker.shape(seq)
    n = len(f.labels)
    cuts = [checker.all("declared_cut", *of, p) for p in range(n)]
    periods = [{x for (x,) in checker.all("period_of", of[0], p)} for p in range(n)]
    numbers = sorted({way for rows in cuts for way, *_ in rows})
    by: dict[Lies, list[Any]] = defaultdict(list)
    for x, dist in product(found, map(checker.shape, shapes)):
        try:
            view = x.block.unfolded(f.digits[0]).turned().unfolded(dist.digits[0]).turned()
        except Refused:  # it does not lie in these digits
            continue
        if in_order(view.runs) or not placed:
            for way in (-1, *numbers):
                by[lies(view, n, cuts, way)].append(x)
    for lie, alike in by.items():
        fits = len(lie) == n and not (placed and cyclic(lie, periods))
        if fits and checker.accounted(*of, alike):
            yield lie


def in_order(runs: Sequence[Run]) -> bool:
    """Do runs go through the positions of both sides one after the other?"""
    order = sorted(runs, key=lambda run: (run.seq, -run.step))
    return all(a < b for a, b in pairwise((run.dist, -run.stride) for run in order))


def lies(block: Block, dimensions: int, declared: Sequence[Sequence[Any]], way: int) -> Lies:
    """How a block lies, whose positions are those of ``dimensions`` dimensions of the output. A
    dimension of which ``declared`` rows (way, lo, n, shift) of that way have what there is lies as
    declared."""
    rest, found = dict(block.dist), []
    for p in range(dimensions):
        at, levels = block.seq.get(p, 0), list[Level]()
        mine = sorted((run for run in block.runs if run.seq == p), key=lambda run: -run.step)
        if not mine and len(block.seq) == len(block.dist) and p in rest:
            mine = [Run(p, 1, 1, p, 1)]
        pieces = _pieces(mine, at, rest.get(mine[0].dist, 0) if mine else 0)
        for run in mine:
            ours, at = divmod(at, run.step)
            theirs, rest[run.dist] = divmod(rest[run.dist], run.stride)
            levels.append(Level(run.step, run.dist, run.stride, ours - theirs))
        levels += [Level(1, NONE, 0, at)] if at else []
        rows = [Piece(*row[1:]) for row in declared[p] if row[0] == way]
        if pieces and all(any(_inside(piece, row) for row in rows) for piece in pieces):
            levels = [Level(0, DECLARED, way, 0)]
        found.append(tuple(levels))
    return tuple(found) if not any(rest.values()) else ()


def _inside(piece: Piece, row: Piece) -> bool:
    within = row.lo <= piece.lo and piece.lo + piece.n <= row.lo + row.n
    return within and piece.shift == row.shift


def _pieces(mine: Sequence[Run], start: int, there: int) -> list[Piece]:
    """The piece that the runs of a dimension are, the widest first, or the equally spaced ones."""
    if not mine or len(mine) > 2:
        return []
    inner = mine[-1]
    outer = mine[0] if len(mine) == 2 else Run(inner.seq, 0, 1, inner.dist, 0)
    if (inner.step, inner.stride) != (1, 1) or outer.dist != inner.dist:
        return []
    apart = outer.step - outer.stride
    return [
        Piece(start + outer.step * j, inner.n, start - there + apart * j) for j in range(outer.n)
    ]


def cyclic(found: Lies, periods: Sequence[set[int]]) -> bool:
    """Do positions recur along a dimension that was not made of several ones?"""
    return any(
        b.dim in (a.dim, NONE) and a.step not in periods[p]
        for p, levels in enumerate(found)
        for a, b in pairwise(levels)
    )


def along_axes(
    shares: Mapping[int, Sequence[Lies]], axes: Iterator[tuple[list[Any], list[Any]]]
) -> bool:
    """Do the shares of the ranks follow, for each dimension, an axis of the mesh? ``axes`` gives
    steps and peers (rank, next) of each; of several ways in which a share lies one will do."""
    shifts: dict[tuple[int, int], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    as_declared: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for rank, ways in shares.items():
        for found in ways:
            for p, levels in enumerate(found):
                for i, level in enumerate(levels):
                    if level.dim == DECLARED:
                        as_declared[p][level.stride].add(rank)
                    else:
                        shifts[p, i][rank].add(level.shift)
    every = list(axes)
    return all(
        not any(x for mine in found.values() for x in mine)
        or any(ranks >= shares.keys() for ranks in as_declared[p].values())
        or any(_follows(found, *axis) for axis in every)
        for (p, _), found in shifts.items()
    )


def _follows(found: Mapping[int, set[int]], steps: Sequence[Any], peers: Sequence[Any]) -> bool:
    forward = (any(a < b for a in found.get(r, ()) for b in found.get(q, ())) for r, q in steps)
    beside = (found.get(r, set()) & found.get(q, set()) for r, q in peers)
    return all(forward) and all(beside)
