"""Which ranks together have all of something, of which each has a piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from gg_datalog.repairs.candidate import Group

# Which range of each axis a rank has: (lo, n).
Box = tuple[tuple[int, int], ...]


def formed(
    held: Mapping[int, Box], extents: Sequence[int], known: Sequence[Group]
) -> list[Group] | None:
    """Groups of ranks that together have all of it, each position once, if all the ranks ``held``
    fit into such groups: groups of the program where there are some, else by rank."""
    by_box: dict[Box, list[int]] = {}
    for rank, box in sorted(held.items()):
        by_box.setdefault(box, []).append(rank)
    if len(by_box) < 2 or not _tiles(list(by_box), extents):
        return None
    if len({len(ranks) for ranks in by_box.values()}) > 1:
        return None
    fits = [g for g in dict.fromkeys(known) if sorted(held.get(r, ()) for r in g) == sorted(by_box)]
    chosen: list[Group] = []
    for group in fits:
        if not any(set(group) & set(other) for other in chosen):
            chosen.append(group)
    if {rank for group in chosen for rank in group} == set(held):
        return chosen
    return [tuple(sorted(ranks)) for ranks in zip(*by_box.values(), strict=True)]


def _tiles(boxes: Sequence[Box], extents: Sequence[int]) -> bool:
    """Do the boxes make up everything, each position once?"""
    axes = [sorted({box[i] for box in boxes}) for i in range(len(extents))]
    grid = set(product(*axes))
    return set(boxes) == grid and all(map(_whole, axes, extents))


def _whole(ranges: Sequence[tuple[int, int]], extent: int) -> bool:
    at = 0
    for lo, n in ranges:
        if lo != at:
            return False
        at = lo + n
    return at == extent
