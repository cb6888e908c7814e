"""Are elements returned in place? What `datalog/placing.dl` asks of outputs, on positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

# Seq step, dimension of the result (-1: none, -2: declared), its step, shift.
Level = tuple[int, int, int, int]
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
        except ValueError:
            continue
        if in_order(view.runs) or not placed:
            for way in (-1, *numbers):
                by[lies(view, n, cuts, way)].append(x.block.turned())
    for lie, blocks in by.items():
        fits = len(lie) == n and not (placed and cyclic(lie, periods))
        if fits and checker.covered("dist", found[0].dist, blocks):
            yield lie


def in_order(runs: Sequence[tuple[int, int, int, int, int]]) -> bool:
    """Do runs (p, s, n, d, t) go through the positions of both sides one after the other?"""
    order = sorted(runs, key=lambda r: (r[0], -r[1]))
    there = [(d, -t) for _, _, _, d, t in order]
    return all(a < b for a, b in pairwise(there))


def lies(block: Any, dimensions: int, declared: Sequence[Sequence[Any]], way: int) -> Lies:
    """How a block lies, whose positions are those of ``dimensions`` dimensions of the output. A
    dimension of which ``declared`` rows (way, lo, n, shift) of that way have what there is lies as
    declared."""
    rest, found = dict(block.dist), []
    for p in range(dimensions):
        at, levels = block.seq.get(p, 0), list[Level]()
        mine = sorted((run for run in block.runs if run[0] == p), key=lambda run: -run[1])
        if not mine and len(block.seq) == len(block.dist) and p in rest:
            mine = [(p, 1, 1, p, 1)]
        pieces = _pieces(mine, at, rest.get(mine[0][3], 0) if mine else 0)
        for _, s, _, d, t in mine:
            (ours, at), (theirs, rest[d]) = divmod(at, s), divmod(rest[d], t)
            levels.append((s, d, t, ours - theirs))
        levels += [(1, -1, 0, at)] if at else []
        rows = [row[1:] for row in declared[p] if row[0] == way]
        if pieces and all(
            any(x == shift and lo <= a and a + n <= lo + m for lo, m, x in rows)
            for a, n, shift in pieces
        ):
            levels = [(0, -2, way, 0)]
        found.append(tuple(levels))
    return tuple(found) if not any(rest.values()) else ()


def _pieces(mine: Sequence[Any], start: int, there: int) -> list[tuple[int, int, int]]:
    """The piece that the runs of a dimension are, or the equally spaced ones: (lo, n, shift)."""
    *outer, (_, step, n, d, stride) = mine or [(0, 0, 0, 0, 0)]
    many, s, t = (outer[0][2], outer[0][1], outer[0][4]) if outer else (1, 0, 0)
    if len(outer) > 1 or (step, stride) != (1, 1) or any(run[3] != d for run in outer):
        return []
    return [(start + s * j, n, start - there + (s - t) * j) for j in range(many)]


def cyclic(found: Lies, periods: Sequence[set[int]]) -> bool:
    """Do positions recur along a dimension that was not made of several ones?"""
    return any(
        b[1] in (a[1], -1) and a[0] not in periods[p]
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
                for i, (_, dim, way, shift) in enumerate(levels):
                    if dim == -2:
                        as_declared[p][way].add(rank)
                    else:
                        shifts[p, i][rank].add(shift)
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
