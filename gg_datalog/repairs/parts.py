"""Parts of a reduction that are taken for all of it: which reduction over ranks is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from gg_datalog.repairs.candidate import Candidate, Group, Site
from gg_datalog.repairs.scene import Scene, is_reduction
from gg_datalog.report import Finding
from gg_datalog.terms import parse_record

# Which ranges of its open axes a tensor has: (lo, n) each.
Box = tuple[tuple[int, int], ...]


def reductions(scene: Scene, found: Finding) -> Iterator[Candidate]:
    """All-reduces that would complete what is only a part: where the parts arise, at another
    group than they are reduced over, only where they are used, or on what is returned."""
    for origin in _origins(scene, found):
        holders = _holders(scene, origin)
        first = _first(scene, set(holders))
        parts = [(d, p, b) for d, p, b in _held(scene, origin) if d in first]
        placed = _placed(scene, parts)
        if placed is not None:
            sites, groups, kind = placed
            yield from _regrouped(scene, holders, groups, kind)
            yield _all_reduce(scene, sites, groups, kind)
            yield from _at_users(scene, origin, set(holders), groups, kind)
    yield from _returned(scene, found)


def _all_reduce(
    scene: Scene, sites: Sequence[Site], groups: Sequence[Group], kind: str, **more: Any
) -> Candidate:
    places = tuple(sorted(sites))
    return Candidate(
        "all_reduce", places, tuple(groups), reduction=kind, source=scene.source(places), **more
    )


# ---- where parts arise ---------------------------------------------------------------------------
def _origins(scene: Scene, found: Finding) -> list[str]:
    """Sequential tensors whose reduction is open in what the finding speaks of."""
    opened = scene.ask("SELECT DISTINCT dist, seq, origin FROM open_origin ORDER BY ALL")
    direct = {origin for _, seq, origin in opened if seq == origin}
    named = set(scene.tensors_of(found.seq or ""))
    origins = sorted(direct & named)
    if not origins:
        about = set(scene.bases(found.dist))
        origins = sorted({o for d, _, o in opened if d in about and o in direct})
    return origins


def _held(scene: Scene, seq: str) -> list[tuple[str, str, str]]:
    sql = "SELECT dist, parts, block FROM holds WHERE seq = ? AND parts <> 'nil' ORDER BY ALL"
    return [(d, p, b) for d, p, b in scene.ask(sql, seq)]


def _holders(scene: Scene, seq: str) -> list[str]:
    return sorted({dist for dist, _, _ in _held(scene, seq)})


def _first(scene: Scene, holders: set[str]) -> set[str]:
    """Holders that are not computed from others."""
    sql = "SELECT DISTINCT tensor, needs FROM tensor_needs WHERE side = 'dist'"
    return holders - {t for t, n in scene.ask(sql) if t in holders and n in holders and t != n}


# ---- which ranks together have all parts ---------------------------------------------------------
def _placed(
    scene: Scene, parts: Sequence[tuple[str, str, str]]
) -> tuple[list[Site], list[Group], str] | None:
    """Nodes, groups and kind of the reduction that completes these parts of one tensor: of each
    block of it every rank has one part, and the ranks of a group have all of them."""
    by_form: dict[Any, dict[str, Box]] = {}
    for dist, text, block in parts:
        form, box = _form(text)
        by_form.setdefault((form, block), {})[dist] = box
    sites: dict[Site, None] = {}
    groups: dict[Group, None] = {}
    kinds = set()
    for (form, _), boxes in by_form.items():
        made = {dist: scene.makers(dist) for dist in boxes}
        held = {site.rank: boxes[dist] for dist in boxes for site in made[dist]}
        formed = _groups(held, [extent for _, _, extent in form], scene.groups)
        if formed is None:
            continue
        sites.update(dict.fromkeys(site for dist in boxes for site in made[dist]))
        groups.update(dict.fromkeys(formed))
        kinds |= {kind for _, kind, _ in form}
    ranks = [rank for group in groups for rank in group]
    if len(kinds) != 1 or len(set(ranks)) < len(ranks):
        return None
    return list(sites), list(groups), kinds.pop()


def _form(text: str) -> tuple[tuple[tuple[Any, str, int], ...], Box]:
    """The open axes of a part, each with kind and extent, and which range of each it has."""
    form, box, record = [], [], parse_record(text)
    while record is not None:
        axis, kind, lo, n, extent, record = record
        form.append((axis, kind, extent))
        box.append((lo, n))
    return tuple(form), tuple(box)


def _groups(
    held: dict[int, Box], extents: Sequence[int], known: Sequence[Group]
) -> list[Group] | None:
    """Groups of ranks each of which has all parts once; groups of the program where they fit."""
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


# ---- other places --------------------------------------------------------------------------------
def _regrouped(
    scene: Scene, holders: Sequence[str], groups: Sequence[Group], kind: str
) -> Iterator[Candidate]:
    """The parts are reduced, but over other ranks, or otherwise: the right group instead."""
    sites = [
        Site(rank, user)
        for group in groups
        for rank in group
        for dist in holders
        for user, _ in scene.users(rank, dist)
        if "all_reduce" in str(scene.rows(rank)[user].get("target"))
    ]
    if {site.rank for site in sites} == {rank for group in groups for rank in group}:
        yield _all_reduce(scene, list(dict.fromkeys(sites)), groups, kind, replaces=True)


def _at_users(
    scene: Scene, origin: str, holders: set[str], groups: Sequence[Group], kind: str
) -> Iterator[Candidate]:
    """Only where parts are used as if they were all; other users reduce them rightly."""
    sites: dict[tuple[int, str], list[str]] = {}
    reduced = False
    for rank in (rank for group in groups for rank in group):
        for dist in sorted(holders):
            for user, of in scene.users(rank, dist):
                if is_reduction(scene.rows(rank)[user]):
                    reduced = True
                elif scene.base(rank, user) not in holders:
                    sites.setdefault((rank, of), []).append(user)
    if reduced and {rank for rank, _ in sites} == {rank for group in groups for rank in group}:
        places = [Site(rank, of, tuple(users)) for (rank, of), users in sites.items()]
        yield _all_reduce(scene, places, groups, kind)


def _returned(scene: Scene, found: Finding) -> Iterator[Candidate]:
    """All-reduces of what the ranks return for an output, where that is a part."""
    sql = """
        SELECT n.rank, n.dist, h.parts, h.block
        FROM output_name o JOIN returned_name n USING (wants)
        JOIN returned_holds h ON h.wants = n.wants AND h.rank = n.rank
        WHERE o.seq = ? AND h.parts <> 'nil' ORDER BY ALL"""
    by_form: dict[Any, dict[int, tuple[str, Box]]] = {}
    for rank, node, parts, block in scene.ask(sql, found.seq or ""):
        form, box = _form(parts)
        by_form.setdefault((form, block), {})[rank] = (node, box)
    for (form, _), held in by_form.items():
        extents = [extent for _, _, extent in form]
        groups = _groups({r: box for r, (_, box) in held.items()}, extents, scene.groups)
        if groups is not None and len({kind for _, kind, _ in form}) == 1:
            sites = [Site(rank, node) for rank, (node, _) in held.items()]
            yield _all_reduce(scene, sites, groups, form[0][1])
