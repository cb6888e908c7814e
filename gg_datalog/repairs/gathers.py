"""Pieces where all is needed, and values that one rank alone has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gg_datalog.repairs.candidate import Candidate, Group, Site
from gg_datalog.repairs.groups import Box, formed
from gg_datalog.repairs.holders import Scene
from gg_datalog.result.report import Finding


def gatherings(scene: Scene, found: Finding) -> Iterator[Candidate]:
    """All-gathers of what an operator needs whole, or of what is returned by some ranks only."""
    if found.seq is None:
        return
    yield from _operands(scene, found.seq)
    yield from _returned(scene, found.seq)


def _operands(scene: Scene, seq: str) -> Iterator[Candidate]:
    """Operands that carry a dimension which may not be cut, though the ranks have pieces of it."""
    sql = """
        SELECT DISTINCT l.label, x."of", y."of"
        FROM operator_pair p
        JOIN tensor_node t ON t.side = 'seq' AND t.tensor = p.seq
        JOIN result_of s ON s.gives = p.seq JOIN result_of d ON d.gives = p.dist
        JOIN seq_operator a ON a."by" = s."by" JOIN dist_operator b ON b."by" = d."by"
        JOIN label_of l ON l.shaped = a.shaped JOIN label_of m ON m.shaped = b.shaped
        JOIN digit_of g ON g.shaped = b.shaped AND g.label = m.label
        JOIN operand_of x ON x."by" = s."by" AND x.place = g.place
        JOIN operand_of y ON y."by" = d."by" AND y.place = g.place
        WHERE t.node = ? AND p.same_signature AND l.label = m.label AND l.extent > m.extent
          AND l.kind <> 'parallel' ORDER BY ALL"""
    by_label: dict[int, dict[str, set[str]]] = {}
    for label, of, operand in scene.ask(sql, seq):
        by_label.setdefault(label, {}).setdefault(of, set()).add(operand)
    for operands in by_label.values():
        gathered = [
            _gathered(scene, of, _node_of(scene, of), [s for d in dist for s in scene.makers(d)])
            for of, dist in operands.items()
        ]
        known = [one for one in gathered if one is not None]
        if len(known) == len(gathered) and len({(one.dim, one.groups) for one in known}) == 1:
            sites = tuple(sorted({site for one in known for site in one.sites}))
            yield _gather(scene, sites, known[0].groups, known[0].dim)


def _returned(scene: Scene, seq: str) -> Iterator[Candidate]:
    """What some ranks return is a piece, and other ranks have the others under the same name."""
    sql = """
        SELECT DISTINCT w."of", n.dist FROM output_name o JOIN returned_name n USING (wants)
        JOIN wanted w ON w.wants = o.wants WHERE o.seq = ? ORDER BY ALL"""
    for of, node in scene.ask(sql, seq):
        sites = tuple(Site(rank, node) for rank in scene.ranks if node in scene.rows(rank))
        found = _gathered(scene, of, seq, sites)
        if found is not None:
            yield found
        elif (dim := _cut_alike(scene, seq, sites)) is not None:
            # What is not returned is not related to anything: the order of the ranks is a guess.
            yield _gather(scene, sites, (tuple(site.rank for site in sites),), dim)


def _cut_alike(scene: Scene, seq: str, sites: Sequence[Site]) -> int | None:
    """The dimension of which every rank's node has an equal share."""
    dims = {_cut(scene, seq, site) for site in sites}
    dim = dims.pop() if len(dims) == 1 else None
    if dim is None:
        return None
    shares = {scene.rows(site.rank)[site.node]["shape"][dim] for site in sites}
    return dim if {share * len(sites) for share in shares} == {_shape(scene, seq)[dim]} else None


def _node_of(scene: Scene, tensor: str) -> str:
    sql = "SELECT node FROM tensor_node WHERE side = 'seq' AND tensor = ?"
    return str(scene.ask(sql, tensor)[0][0])


def _gathered(scene: Scene, seq: str, node: str, sites: Sequence[Site]) -> Candidate | None:
    """An all-gather of these places that gives all of ``seq``, as node ``node`` lies."""
    held: dict[Any, dict[int, Box]] = {}
    dims = {_cut(scene, node, site) for site in sites}
    for site in sites:
        cut = _piece(scene, scene.base(site.rank, site.node), seq)
        if cut is None:
            return None
        extent, rest, box = cut
        held.setdefault((extent, rest), {})[site.rank] = box
    groups: list[Group] = []
    for (extent, _), boxes in held.items():
        found = formed(boxes, [extent], scene.groups)
        if found is None:
            return None
        groups += [tuple(sorted(group, key=boxes.__getitem__)) for group in found]
    dim = dims.pop() if len(dims) == 1 else None
    return None if dim is None else _gather(scene, tuple(sorted(sites)), tuple(groups), dim)


def _gather(
    scene: Scene, sites: tuple[Site, ...], groups: tuple[Group, ...], dim: int
) -> Candidate:
    return Candidate("all_gather", sites, groups, dim=dim, source=scene.source(sites))


def _cut(scene: Scene, node: str, site: Site) -> int | None:
    """The one dimension in which a rank's node is smaller than the sequential one."""
    whole = _shape(scene, node)
    mine = scene.rows(site.rank)[site.node].get("shape") or []
    if len(whole) != len(mine):
        return None
    smaller = [dim for dim, (a, b) in enumerate(zip(whole, mine, strict=True)) if a != b]
    return smaller[0] if len(smaller) == 1 else None


def _shape(scene: Scene, node: str) -> list[int]:
    sql = "SELECT shape FROM graph_node WHERE side = 'seq' AND name = ?"
    return [int(extent) for extent in scene.ask(sql, node)[0][0].split("x") if extent.isdecimal()]


def _piece(scene: Scene, dist: str, seq: str) -> tuple[int, Any, Box] | None:
    """The piece of ``seq`` that ``dist`` is: extent of the dimension that is cut, everything else,
    and which range of that dimension."""
    sql = """
        SELECT h.block, b.shape FROM holds h
        JOIN base_tensor b ON b.side = 'seq' AND b.tensor = h.seq
        WHERE h.dist = ? AND h.seq = ? AND NOT is_open(h.parts) AND is_one(h.times)"""
    rows = scene.ask(sql, dist, seq)
    if len(rows) != 1:
        return None
    dims = scene.records.block(rows[0][0])
    extents = [int(e) for e in rows[0][1].split("x") if e != "1" and e]
    if len(dims) != len(extents) or any(len(runs) != 1 for runs in dims):
        return None
    ranges = [(stride * lo, stride * n) for ((stride, lo, n, *_),) in dims]
    cut = [i for i, ((_, n), extent) in enumerate(zip(ranges, extents, strict=True)) if n < extent]
    if len(cut) != 1:
        return None
    (at,) = cut
    return extents[at], (at, *ranges[:at], *ranges[at + 1 :]), (ranges[at],)


def broadcasts(scene: Scene, _: Finding) -> Iterator[Candidate]:
    """What one rank has, and other ranks have memory for that nobody has written; wherever that is,
    for it may spoil anything."""
    sql = """
        SELECT u.rank, u.node, c.instance FROM uninitialised u
        JOIN graph_node g ON g.side = 'dist' AND g.rank = u.rank AND g.name = u.node
        LEFT JOIN collective c ON c.rank = u.rank AND c.node = u.node
        WHERE u.side = 'dist' ORDER BY g.position, u.rank"""
    empty: dict[Any, set[Site]] = {}
    for rank, node, instance in scene.ask(sql):
        empty.setdefault(node if instance is None else instance, set()).add(Site(rank, node))
    for key, sites in empty.items():
        places = _members(scene, key)
        filled = [site for site in places if site not in sites]
        if len(filled) == 1 and sites <= set(places):
            group = tuple(site.rank for site in places)
            root = group.index(filled[0].rank)
            given = tuple(sorted(places))
            yield Candidate("broadcast", given, (group,), root=root, source=scene.source(given))


def _members(scene: Scene, key: int | str) -> list[Site]:
    """The nodes of one collective, or those of one name on all ranks."""
    if isinstance(key, str):
        return [Site(rank, key) for rank in scene.ranks if key in scene.rows(rank)]
    sql = "SELECT rank, node, ranks FROM collective WHERE instance = ?"
    rows = scene.ask(sql, key)
    order = [int(rank) for rank in rows[0][2].split(",")]
    return sorted((Site(rank, node) for rank, node, _ in rows), key=lambda s: order.index(s.rank))
