"""Places for the nodes of two graphs side by side: rows from above to below, operands first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

WIDTH, HEIGHT = 184, 62  # of a node, in pixels
BEND = 12  # width of the place where an edge passes through a row
GAP_X, GAP_Y = 16, 36
SWEEPS = 8

Edge = tuple[int, int]  # operand, user
Place = int | tuple[int, int, int]  # a node, or where an edge crosses a row
Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Centres of nodes, the points that each edge runs through, and the size of it all."""

    centres: Mapping[int, Point]
    routes: Mapping[Edge, Sequence[Point]]
    width: float
    height: float


def rows_of(nodes: Iterable[int], edges: Iterable[Edge], pairs: Iterable[Edge]) -> dict[int, int]:
    """The row of every node: below all operands, and beside its pair wherever that is possible."""
    known = list(edges)
    same = {node: node for node in nodes}
    found = _longest(same, known) or {}
    for a, b in pairs:
        tried = {node: same[a] if at == same[b] else at for node, at in same.items()}
        rows = _longest(tried, known)
        if rows is not None:
            same, found = tried, rows
    return _lowered(same, known, found)


def acyclic(nodes: Sequence[int], edges: Iterable[Edge]) -> list[Edge]:
    """Edges without those that would close a circle, as tensors of several ranks in one box can."""
    same = {node: node for node in nodes}
    kept: list[Edge] = []
    for edge in edges:
        if _longest(same, [*kept, edge]) is not None:
            kept.append(edge)
    return kept


def _longest(same: Mapping[int, int], edges: Sequence[Edge]) -> dict[int, int] | None:
    """Longest paths from above, nodes of one class in one row; None where that is a circle."""
    after: dict[int, set[int]] = defaultdict(set)
    before: dict[int, set[int]] = defaultdict(set)
    for a, b in edges:
        after[same[a]].add(same[b])
        before[same[b]].add(same[a])
    waits = {at: len(before[at]) for at in set(same.values())}
    ready = sorted(at for at, count in waits.items() if not count)
    rows = dict.fromkeys(ready, 0)
    done = 0
    while ready:
        at = ready.pop()
        done += 1
        for user in after[at]:
            rows[user] = max(rows.get(user, 0), rows[at] + 1)
            waits[user] -= 1
            if not waits[user]:
                ready.append(user)
    return {node: rows[at] for node, at in same.items()} if done == len(waits) else None


def _lowered(
    same: Mapping[int, int], edges: Sequence[Edge], rows: Mapping[int, int]
) -> dict[int, int]:
    """Nodes without operands right above the first node that uses them or their pair."""
    users: dict[int, list[int]] = defaultdict(list)
    for a, b in edges:
        users[same[a]].append(rows[b])
    fed = {same[b] for _, b in edges}
    moved = {
        node: min(users[at]) - 1 if at not in fed and users[at] else rows[node]
        for node, at in same.items()
    }
    first = min(moved.values(), default=0)
    return {node: row - first for node, row in moved.items()}


def placed(nodes: Sequence[int], edges: Sequence[Edge], rows: Mapping[int, int]) -> Layout:
    """Nodes side by side in their rows, with few crossings and short edges."""
    levels: dict[int, list[Place]] = defaultdict(list)
    for node in nodes:
        levels[rows[node]].append(node)
    chains: dict[Edge, list[Place]] = {}
    near: dict[Place, list[Place]] = defaultdict(list)
    for a, b in edges:
        bends: list[Place] = [(a, b, row) for row in range(rows[a] + 1, rows[b])]
        for bend, row in zip(bends, range(rows[a] + 1, rows[b]), strict=True):
            levels[row].append(bend)
        chains[a, b] = [a, *bends, b]
        for above, below in pairwise(chains[a, b]):
            near[above].append(below)
            near[below].append(above)
    across = _across(levels, near)
    left = min((x - _width(place) / 2 for place, x in across.items()), default=0)
    right = max((x + _width(place) / 2 for place, x in across.items()), default=0)
    centres = {n: (across[n] - left, rows[n] * (HEIGHT + GAP_Y) + HEIGHT / 2) for n in nodes}
    routes = {
        edge: _route(chain, {p: across[p] - left for p in chain}, rows[edge[0]])
        for edge, chain in chains.items()
    }
    height = max((row for row in rows.values()), default=0) * (HEIGHT + GAP_Y) + HEIGHT
    return Layout(centres, routes, right - left, height)


def _across(
    levels: Mapping[int, list[Place]], near: Mapping[Place, Sequence[Place]]
) -> dict[Place, float]:
    """Centres across: every row in the order of its neighbours' centres, and near to them."""
    across: dict[Place, float] = {}
    for members in levels.values():
        _pack(members, [0.0] * len(members), across)
    order = sorted(levels)
    for sweep in range(SWEEPS):
        for row in order if sweep % 2 == 0 else reversed(order):
            members = levels[row]
            wish = {p: fmean(across[q] for q in near[p]) if near[p] else across[p] for p in members}
            if sweep < SWEEPS - 2:
                members.sort(key=lambda p: (wish[p], across[p]))
            _pack(members, [wish[p] for p in members], across)
    return across


def _pack(members: Sequence[Place], wishes: Sequence[float], across: dict[Place, float]) -> None:
    """Places in a row where they wish to be, as far as those before them leave room."""
    at: list[float] = []
    for index, (place, wish) in enumerate(zip(members, wishes, strict=True)):
        if index:
            before = members[index - 1]
            wish = max(wish, at[-1] + (_width(before) + _width(place)) / 2 + GAP_X)
        at.append(wish)
    shift = fmean(w - a for w, a in zip(wishes, at, strict=True)) if at else 0
    for place, x in zip(members, at, strict=True):
        across[place] = x + shift


def _width(place: Place) -> int:
    return WIDTH if isinstance(place, int) else BEND


def _route(chain: Sequence[Place], across: Mapping[Place, float], row: int) -> list[Point]:
    """From below the operand to above its user, straight through the rows between."""
    points: list[Point] = []
    for step, place in enumerate(chain):
        top = (row + step) * (HEIGHT + GAP_Y)
        points += [(across[place], top)] if step else []
        points += [(across[place], top + HEIGHT)] if step < len(chain) - 1 else []
    return points
