"""Two neighbourhoods side by side as boxes, curves and texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gg_datalog.reporting.html_layout import (
    GAP_Y,
    HEIGHT,
    WIDTH,
    Edge,
    Layout,
    Point,
    acyclic,
    placed,
    rows_of,
)
from gg_datalog.reporting.html_tensors import KINDS, Group
from gg_datalog.reporting.wording import numbers

GUTTER = 90  # between the sides, in pixels
MARGIN = 14
TOP = 30  # for the headings of the sides

WORDS = {
    "whole": "holds all of",
    "piece": "holds a piece of",
    "factor": "holds a multiple of",
    "part": "holds a part of a reduction of",
}
HELD = {
    "whole": "held by",
    "piece": "in pieces by",
    "factor": "multiplied by",
    "part": "in parts by",
}
STATUS = {"mapped": "mapped", "partial": "in part", "unmapped": "unmapped"}


@dataclass(frozen=True)
class Node:
    """A box: its upper left corner, its lines of text, and what a screen reader says of it."""

    group: int
    x: float
    y: float
    side: str
    node: str
    name: str
    target: str
    status: str
    role: str
    where: str
    label: str


@dataclass(frozen=True)
class Line:
    """A curve between two boxes; ``kind`` is need, or how much the one holds of the other."""

    start: int
    end: int
    kind: str
    path: str
    middle: Point


@dataclass(frozen=True)
class Picture:
    """All that is drawn of a neighbourhood; ``left_out`` is how many neighbours are not."""

    nodes: Sequence[Node]
    needs: Sequence[Line]
    links: Sequence[Line]
    width: float
    height: float
    split: float
    left_out: int


def drawn(
    groups: Sequence[Group], roles: Mapping[int, str], apart: Sequence[Edge], left_out: int
) -> Picture:
    """Rows over both sides, places within each, and the lines."""
    shown = {group.index: group for group in groups}
    near = [(need, g.index) for g in groups for need in g.needs if need in shown]
    edges = acyclic(list(shown), near)
    links = [
        (other, g.index, kind)
        for g in groups
        if g.side == "dist"
        for other, kind in g.links.items()
        if other in shown
    ]
    likely = sorted(apart, key=lambda pair: shown[pair[0]].target != shown[pair[1]].target)
    rows = rows_of(shown, edges, [*likely, *_alike(links, shown)])
    layouts = {side: _side(side, groups, edges, rows) for side in ("seq", "dist")}
    split = MARGIN + layouts["seq"].width + GUTTER / 2
    shift = {"seq": MARGIN, "dist": split + GUTTER / 2}
    places = {
        index: (x + shift[side], y + TOP)
        for side, layout in layouts.items()
        for index, (x, y) in layout.centres.items()
    }
    nodes = [_node(group, places[group.index], roles, shown) for group in groups]
    nodes.sort(key=lambda node: (node.side == "dist", node.y, node.x))
    needs = [
        Line(*edge, "need", _curve(_moved(route, shift[side], TOP)), (0, 0))
        for side, layout in layouts.items()
        for edge, route in layout.routes.items()
    ]
    held = [_link(a, b, kind, places, split) for a, b, kind in links]
    held += [
        _link(a, b, "apart", places, split)
        for a, b in dict.fromkeys(apart)
        if a in places and b in places and b not in shown[a].links
    ]
    width = shift["dist"] + layouts["dist"].width + MARGIN
    height = max((layout.height for layout in layouts.values()), default=0) + TOP + MARGIN
    return Picture(nodes, needs, held, width, height, split, left_out)


def _side(
    side: str, groups: Sequence[Group], edges: Sequence[Edge], rows: Mapping[int, int]
) -> Layout:
    own = [group.index for group in groups if group.side == side]
    inside = set(own)
    return placed(own, [edge for edge in edges if edge[0] in inside], {i: rows[i] for i in own})


def _alike(
    links: Iterable[tuple[int, int, str]], shown: Mapping[int, Group]
) -> Iterator[tuple[int, int]]:
    """Pairs that should stand beside each other, the surest first."""

    def doubt(link: tuple[int, int, str]) -> tuple[bool, int, int, int]:
        seq, dist, kind = link
        return shown[seq].target != shown[dist].target, KINDS.index(kind), seq, dist

    taken: set[int] = set()
    for seq, dist, _ in sorted(links, key=doubt):
        if not taken & {seq, dist}:
            taken |= {seq, dist}
            yield seq, dist


def _node(group: Group, place: Point, roles: Mapping[int, str], shown: Mapping[int, Group]) -> Node:
    role = roles.get(group.index, "")
    where = "sequential" if group.side == "seq" else _ranks(group)
    told = [_name(group), group.target if group.target != group.node else "", group.shape]
    told += [where, STATUS[group.status], *(["the chain breaks here"] if role == "broken" else [])]
    told += [
        f"{(WORDS if group.side == 'dist' else HELD)[kind]} {_name(shown[other])}"
        for other, kind in group.links.items()
        if other in shown
    ]
    told += [group.source]
    return Node(
        group.index,
        place[0] - WIDTH / 2,
        place[1] - HEIGHT / 2,
        group.side,
        group.node,
        _short(group.node + (" (sum)" if group.is_sum else ""), 20),
        _kind(group),
        group.status,
        role,
        "" if group.side == "seq" else where,
        "; ".join(text for text in told if text),
    )


def _name(group: Group) -> str:
    return group.node if group.side == "seq" else f"r{numbers(group.ranks)}.{group.node}"


def _ranks(group: Group) -> str:
    return f"rank{'s' if len(group.ranks) > 1 else ''} {numbers(group.ranks)}"


def _kind(group: Group) -> str:
    """Operator and shape, as far as there is room."""
    kind = group.kind if group.kind in ("input", "constant") else _plain(group.target)
    shape = _short(group.shape, 16)
    return f"{_short(kind, 23 - len(shape))} {shape}"


def _plain(target: str) -> str:
    """``mm`` of ``aten.mm.default``: the longest of its words stays recognisable in a small box."""
    words = target.split(".")
    return words[1] if len(words) == 3 else target


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - most // 3 - 1]}…{text[-(most // 3) :]}"


def _moved(route: Iterable[Point], right: float, down: float) -> list[Point]:
    return [(x + right, y + down) for x, y in route]


def _curve(route: Sequence[Point]) -> str:
    """Straight down through rows, bent between them."""
    parts = [f"M{route[0][0]:.0f} {route[0][1]:.0f}"]
    for index, ((x0, y0), (x1, y1)) in enumerate(pairwise(route)):
        if index % 2:
            parts.append(f"L{x1:.0f} {y1:.0f}")
        else:
            bend = min(GAP_Y, y1 - y0) / 2
            parts.append(f"C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}")
    return "".join(parts)


def _link(a: int, b: int, kind: str, places: Mapping[int, Point], split: float) -> Line:
    """From the right of the sequential box to the left of the other, bent between the sides."""
    (ax, ay), (bx, by) = places[a], places[b]
    ax, bx = ax + WIDTH / 2, bx - WIDTH / 2
    left, right = split - GUTTER / 2, split + GUTTER / 2
    path = (
        f"M{ax:.0f} {ay:.0f}L{left:.0f} {ay:.0f}"
        f"C{split:.0f} {ay:.0f} {split:.0f} {by:.0f} {right:.0f} {by:.0f}L{bx:.0f} {by:.0f}"
    )
    return Line(a, b, kind, path, (split, (ay + by) / 2))
