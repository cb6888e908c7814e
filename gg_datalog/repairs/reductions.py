"""Parts of a reduction that are taken for all of it: which reduction over ranks is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gg_datalog.repairs.candidate import Candidate, Group, Site, joined
from gg_datalog.repairs.edits import SLICE
from gg_datalog.repairs.groups import Box, formed
from gg_datalog.repairs.holders import Scene, number
from gg_datalog.repairs.programs import operands
from gg_datalog.result.report import Finding
from gg_datalog.result.terms import Parts


def reductions(scene: Scene, found: Finding) -> Iterator[Candidate]:
    """All-reduces that would complete what is only a part: where the parts arise, at another
    group than they are reduced over, only where they are used, or on what is returned. Of several
    tensors first what completes all of them."""
    each = [list(_completing(scene, origin)) for origin in _origins(scene, found)]
    yield from joined(each)
    for candidates in each:
        yield from candidates
    yield from joined([list(_returned(scene, seq)) for seq in found.outputs])
    yield from _returned(scene, found.seq or "")


def _completing(scene: Scene, origin: str) -> Iterator[Candidate]:
    """All-reduces that would complete the parts of one tensor."""
    held = _held(scene, origin)
    holders = sorted({part.dist for part in held})
    first = _first(scene, set(holders))
    parts = [part for part in held if part.dist in first]
    makers = [
        (site, _counted(scene, origin, site, part))
        for part in parts
        for site in scene.makers(part.dist)
    ]
    for sites, groups, kind in _completed(scene, makers):
        yield from _regrouped(scene, holders, groups, kind)
        yield from _shares(scene, sorted(first), groups, kind)
        yield _reduction(scene, sites, groups, kind)
        yield from _at_users(scene, set(holders), groups, kind)


def _reduction(
    scene: Scene, sites: Sequence[Site], groups: Sequence[Group], kind: str, **more: Any
) -> Candidate:
    places = tuple(sorted(set(sites)))
    given = {"action": "all_reduce", "source": scene.source(places), **more}
    return Candidate(sites=places, groups=tuple(groups), reduction=kind, **given)


# ---- where parts arise ---------------------------------------------------------------------------
def _origins(scene: Scene, found: Finding) -> list[str]:
    """Sequential tensors whose reduction is open in what the finding speaks of: the one that it
    names first."""
    opened = scene.ask("SELECT DISTINCT dist, seq, origin FROM open_origin ORDER BY ALL")
    direct = {origin for _, seq, origin in opened if seq == origin}
    named = direct & set(scene.tensors_of(found.seq or ""))
    about = set(scene.bases(found.dist))
    own = {origin for dist, seq, origin in opened if dist in about and seq == origin}
    others = own or {origin for dist, _, origin in opened if dist in about and origin in direct}
    return [*sorted(named), *sorted((own if named else others) - named)]


@dataclass(frozen=True)
class Part:
    """A part that a distributed tensor is: its open axes, its coefficient, and of which block;
    ``count`` is that coefficient for the nodes as they lie."""

    dist: str
    parts: str
    times: str
    block: str
    count: Fraction | None = None


def _held(scene: Scene, seq: str) -> list[Part]:
    sql = "SELECT dist, parts, times, block FROM holds WHERE seq = ? AND is_open(parts)"
    return [Part(*row) for row in sorted(scene.ask(sql, seq))]


def _counted(scene: Scene, origin: str, site: Site, part: Part) -> Part:
    """The part with how often the node at a place counts it, were it the sequential node."""
    held, own = scene.rational(part.times), scene.factor(site)
    sql = """
        SELECT g.times FROM tensor_node t
        JOIN graph_node g ON g.side = 'seq' AND g.name = t.node AND g.tensor = t.tensor
        WHERE t.side = 'seq' AND t.tensor = ?"""
    asked = [number(times) for (times,) in scene.ask(sql, origin)]
    if not held or not own or not asked or not asked[0]:
        return part
    return replace(part, count=held * own / asked[0])


def _first(scene: Scene, holders: set[str]) -> set[str]:
    """Holders that are not computed from others."""
    sql = "SELECT DISTINCT tensor, needs FROM tensor_needs WHERE side = 'dist'"
    return holders - {t for t, n in scene.ask(sql) if t in holders and n in holders and t != n}


# ---- which ranks together have all parts ---------------------------------------------------------
def _completed(
    scene: Scene, parts: Sequence[tuple[Site, Part]]
) -> Iterator[tuple[list[Site], list[Group], str]]:
    """Nodes, groups and kind of the reduction that completes these parts of one tensor: of each
    block of it every rank has one part, and the ranks of a group have all of them."""
    by_form: dict[Any, dict[Site, Box]] = {}
    for site, part in parts:
        form, box = _form(scene.records.parts(part.parts))
        by_form.setdefault((form, part.block), {})[site] = box
    sites: dict[Site, None] = {}
    groups: dict[Group, None] = {}
    kinds = set()
    for (form, _), boxes in by_form.items():
        held = {site.rank: box for site, box in boxes.items()}
        found = formed(held, [extent for _, _, extent in form], scene.groups)
        if found is not None:
            sites.update(dict.fromkeys(boxes))
            groups.update(dict.fromkeys(found))
            kinds |= {kind for _, kind, _ in form}
    if len(kinds) != 1 or sum(map(len, groups)) > len(_ranks(list(groups))):
        return
    kind = kinds.pop()
    counts = {part.count for site, part in parts if site in sites}
    if kind == "sum" and counts == {len(group) for group in groups}:
        yield list(sites), list(groups), "avg"
    yield list(sites), list(groups), kind


def _form(parts: Parts) -> tuple[tuple[tuple[Any, str, int], ...], Box]:
    """The open axes of a part, each with kind and extent, and which range of each it has."""
    form = tuple((part.along, part.kind, part.extent) for part in parts)
    return form, tuple((part.lo, part.n) for part in parts)


# ---- other places --------------------------------------------------------------------------------
def _regrouped(
    scene: Scene, holders: Sequence[str], groups: Sequence[Group], kind: str
) -> Iterator[Candidate]:
    """The parts are reduced, but over other ranks, or otherwise: the right group instead."""
    found: dict[str, list[Site]] = {}
    for rank in sorted(_ranks(groups)):
        for name, row in scene.rows(rank).items():
            held = any(scene.base(rank, of) in holders for of in operands(row))
            if held and scene.reduces(rank, name):
                kind_of = scene.collectives[rank, name]
                action = "all_reduce" if kind_of.startswith("all_reduce") else "reduce_scatter"
                found.setdefault(action, []).append(Site(rank, name))
    for action, sites in found.items():
        if {site.rank for site in sites} == _ranks(groups):
            yield _reduction(scene, sites, groups, kind, action=action, replaces=True)


def _shares(
    scene: Scene, holders: Sequence[str], groups: Sequence[Group], kind: str
) -> Iterator[Candidate]:
    """Each rank cuts its share out of its part: a reduce-scatter instead of the slices."""
    sites: dict[Site, int] = {}
    for rank, user, _ in _users(scene, holders, groups):
        dim = _share(scene, rank, user, next(group for group in groups if rank in group))
        if dim is None:
            return
        sites[Site(rank, user)] = dim
    dims = set(sites.values())
    if len(dims) == 1 and sorted(site.rank for site in sites) == sorted(_ranks(groups)):
        more: dict[str, Any] = {"action": "reduce_scatter", "dim": dims.pop(), "replaces": True}
        yield _reduction(scene, list(sites), groups, kind, **more)


def _share(scene: Scene, rank: int, node: str, group: Group) -> int | None:
    """The dimension that a slice cuts into equal shares, where it takes the rank's own one."""
    row = scene.rows(rank)[node]
    args = row.get("args", [])
    if row.get("target") != SLICE or len(args) != 4:
        return None
    shape = scene.rows(rank)[args[0]["node"]].get("shape")
    if not shape or not all(isinstance(arg, int) for arg in args[1:]):
        return None
    dim, start, end = args[1] % len(shape), args[2], args[3]
    size, at = shape[dim] // len(group), group.index(rank)
    own = shape[dim] % len(group) == 0 and (start, end) == (at * size, (at + 1) * size)
    return dim if own else None


def _users(
    scene: Scene, holders: Sequence[str], groups: Sequence[Group]
) -> list[tuple[int, str, str]]:
    """Rank, name and operand of the nodes that use these tensors, but for those among them."""
    found = {
        (rank, user, of): None
        for rank in sorted(_ranks(groups))
        for dist in holders
        for user, of in scene.users(rank, dist)
    }
    return list(found)


def _ranks(groups: Sequence[Group]) -> set[int]:
    return {rank for group in groups for rank in group}


def _at_users(
    scene: Scene, holders: set[str], groups: Sequence[Group], kind: str
) -> Iterator[Candidate]:
    """Only where parts are used as if they were all; other users reduce them rightly."""
    sites: dict[tuple[int, str], list[str]] = {}
    reduced = False
    for rank, user, of in _users(scene, sorted(holders), groups):
        if scene.reduces(rank, user):
            reduced = True
        elif scene.base(rank, user) not in holders:
            sites.setdefault((rank, of), []).append(user)
    if reduced and {rank for rank, _ in sites} == _ranks(groups):
        places = [Site(rank, of, tuple(users)) for (rank, of), users in sites.items()]
        yield _reduction(scene, places, groups, kind)


def _returned(scene: Scene, seq: str) -> Iterator[Candidate]:
    """All-reduces of what the ranks return for an output, where that is a part."""
    sql = """
        SELECT n.rank, n.dist, h.parts, h.times, h.block
        FROM output_name o JOIN returned_name n USING (wants)
        JOIN returned_holds h ON h.wants = n.wants AND h.rank = n.rank
        WHERE o.seq = ? AND is_open(h.parts) ORDER BY ALL"""
    rows = scene.ask(sql, seq)
    parts = [
        (Site(rank, node), Part(node, text, times, block, scene.rational(times)))
        for rank, node, text, times, block in rows
    ]
    for sites, groups, kind in _completed(scene, parts):
        yield _reduction(scene, sites, groups, kind)
