"""A number too much: something comes back, or goes into an operator or a sum, multiplied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from gg_datalog.repairs.candidate import Candidate, Site
from gg_datalog.repairs.holders import Scene
from gg_datalog.repairs.programs import operands
from gg_datalog.result.reasons import Term
from gg_datalog.result.report import Finding

ONE = Fraction(1)
AVERAGE = "or average there instead of adding up"
OUT = "or leave this sum over ranks out, for every rank has all of it already"


def scalings(scene: Scene, found: Finding) -> Iterator[Candidate]:
    """Factors that would set a coefficient right: at the terms of a sum, where the coefficient
    arises, or on what is returned."""
    if found.seq is None:
        return
    yield from _terms(scene, found.seq)
    yield from _returned(scene, found.seq)
    for seq in (found.seq, *_broken_users(scene, found.seq)):
        yield from _operands(scene, seq)


def _broken_users(scene: Scene, seq: str) -> list[str]:
    """Sequential nodes that take this one, at which a chain breaks."""
    sql = """
        SELECT DISTINCT u.node FROM tensor_node t
        JOIN tensor_needs n ON n.side = 'seq' AND n.needs = t.tensor
        JOIN chain_break c ON c.seq = n.tensor
        JOIN tensor_node u ON u.side = 'seq' AND u.tensor = n.tensor
        WHERE t.side = 'seq' AND t.node = ? ORDER BY ALL"""
    return [node for (node,) in scene.ask(sql, seq)]


def _scale(scene: Scene, sites: Sequence[Site], by: Fraction) -> Candidate:
    places = tuple(sorted(set(sites)))
    summed = _summed(scene, places, by)
    doubled = summed and all(_doubled(scene, site) for site in places)
    note = OUT if doubled else AVERAGE if summed else ""
    return Candidate("scale", places, factor=1 / by, source=scene.source(places), note=note)


# ---- terms of a sum ------------------------------------------------------------------------------
def _terms(scene: Scene, seq: str) -> Iterator[Candidate]:
    """Terms that a sum of the ranks counts as often as another number says."""
    sql = """
        SELECT DISTINCT f.dist, f.seq, f.place, f.state, f.times, d.gives
        FROM sum_found f JOIN seq_sum q ON q."by" = f.seq
        JOIN tensor_node t ON t.side = 'seq' AND t.tensor = q.gives
        JOIN dist_sum d ON d."by" = f.dist
        WHERE t.node = ? AND (f.state <> 'complete' OR NOT is_one(f.times)) ORDER BY ALL"""
    sums: dict[tuple[str, str, str], list[tuple[int, str, str]]] = {}
    for dist, by, place, state, times, gives in scene.ask(sql, seq):
        sums.setdefault((dist, by, gives), []).append((place, state, times))
    whole: dict[Fraction, list[Site]] = {}
    used: dict[Fraction, list[Site]] = {}
    # A sum that is part of a longer one lacks terms, which may come later.
    for (dist, by, gives), terms in sorted(sums.items(), key=lambda item: _lacking(item[1])):
        there = [(place, state, times) for place, state, times in terms if state != Term.MISSING]
        found = {
            scene.rational(times) if state == Term.COMPLETE else None for _, state, times in there
        }
        times = found.pop() if len(found) == 1 else None
        if not times:
            continue
        inside = _sums_of(scene, gives)
        for place, _, _ in there:
            for tensor, scale in _contributors(scene, dist, by, place):
                whole.setdefault(times, []).extend(_views(scene, tensor, scale))
                used.setdefault(times, []).extend(_uses(scene, tensor, inside))
    for times, sites in whole.items():
        both = [_scale(scene, sites, times), _scale(scene, used[times], times)]
        yield from both[:1] if _only(scene, sites, used[times]) else reversed(both)


def _only(scene: Scene, sites: Sequence[Site], used: Sequence[Site]) -> bool:
    """Are these nodes computed, and for these uses only?"""
    inside = {(site.rank, user) for site in used for user in site.users}
    users = {
        (site.rank, user)
        for site in sites
        for user, _ in scene.users(site.rank, scene.base(site.rank, site.node))
    }
    computed = all(scene.rows(s.rank)[s.node]["op"] == "call_function" for s in sites)
    return computed and users <= inside


def _lacking(terms: Sequence[tuple[int, str, str]]) -> int:
    return sum(state == Term.MISSING for _, state, _ in terms)


def _contributors(scene: Scene, dist: str, by: str, place: int) -> list[tuple[str, str]]:
    """The terms of sum ``dist`` that hold something of one term of sequential sum ``by``."""
    sql = """
        SELECT DISTINCT d."of", d.times FROM term_of d
        JOIN holds h ON h.dist = d."of"
        JOIN term_of s ON s."of" = h.seq
        WHERE d."by" = ? AND s."by" = ? AND s.place = ? ORDER BY ALL"""
    return [(tensor, times) for tensor, times in scene.ask(sql, dist, by, place)]


def _sums_of(scene: Scene, gives: str) -> set[str]:
    """A sum and the sums that are terms of it."""
    sql = """
        WITH RECURSIVE inside(tensor) AS (
            SELECT ?
            UNION
            SELECT t."of" FROM inside i JOIN dist_sum d ON d.gives = i.tensor
            JOIN term_of t ON t."by" = d."by"
            WHERE t."of" IN (SELECT gives FROM dist_sum)
        )
        SELECT tensor FROM inside"""
    return {tensor for (tensor,) in scene.ask(sql, gives)}


def _uses(scene: Scene, tensor: str, inside: set[str]) -> Iterator[Site]:
    """The places where the tensor goes into these sums, for their sake only."""
    for rank in scene.ranks:
        uses: dict[str, list[str]] = {}
        for user, of in scene.users(rank, tensor):
            if scene.base(rank, user) in inside:
                uses.setdefault(of, []).append(user)
        yield from (Site(rank, of, tuple(users)) for of, users in uses.items())


# ---- what is returned ----------------------------------------------------------------------------
def _returned(scene: Scene, seq: str) -> Iterator[Candidate]:
    """What comes back multiplied: where that begins, or at the end."""
    sql = """
        SELECT DISTINCT n.rank, n.dist, r."of", r.times, w."of", h.times, e.times
        FROM output_name o JOIN returned_name n USING (wants)
        JOIN wanted w ON w.wants = o.wants
        JOIN returned r ON r.wants = n.wants AND r.rank = n.rank
        JOIN returned_holds e ON e.wants = n.wants AND e.rank = n.rank AND NOT is_open(e.parts)
        JOIN holds h ON h.dist = r."of" AND h.seq = w."of" AND NOT is_open(h.parts)
        WHERE o.seq = ? AND NOT is_one(e.times) ORDER BY ALL"""
    begins: dict[Fraction, list[Site]] = {}
    ends: dict[Fraction, list[Site]] = {}
    for rank, node, dist, scale, of, held, effect in scene.ask(sql, seq):
        times, own = scene.rational(effect), scene.rational(held)
        if times:
            ends.setdefault(times, []).append(Site(rank, node))
        if own is not None and own != ONE:
            by, sites = _begin(scene, dist, of, own)
            begins.setdefault(by, []).extend(sites)
        elif times:
            begins.setdefault(times, []).extend(
                s for s in _views(scene, dist, scale) if s.rank == rank
            )
    for candidates in (begins, ends):
        for by, sites in candidates.items():
            yield _scale(scene, sites, by)


def _begin(scene: Scene, dist: str, seq: str, times: Fraction) -> tuple[Fraction, list[Site]]:
    """Where a coefficient begins: it is in ``dist``, and in nothing that ``dist`` is made of."""
    sql = """
        SELECT DISTINCT h.dist, h.seq, h.times
        FROM tensor_needs d JOIN holds h ON h.dist = d.needs
        JOIN (SELECT tensor, needs FROM tensor_needs WHERE side = 'seq'
              UNION SELECT "of", needs FROM seq_needs) s ON s.needs = h.seq
        WHERE d.side = 'dist' AND d.tensor = ? AND s.tensor = ? ORDER BY ALL"""
    seen = {dist}
    while True:
        before = [
            (d, s, c)
            for d, s, t in scene.ask(sql, dist, seq)
            if (c := scene.rational(t)) and c != ONE
        ]
        if len(before) != 1 or before[0][0] in seen:
            return times, scene.makers(dist)
        dist, seq, times = before[0]
        seen.add(dist)


def _summed(scene: Scene, sites: Sequence[Site], by: Fraction) -> bool:
    """Are these sums over ``by`` ranks?"""
    return bool(sites) and all(len(_members(scene, site)) == by for site in sites)


def _doubled(scene: Scene, site: Site) -> bool:
    """Does every rank have all of a sum over ranks already?"""
    base = scene.base(site.rank, site.node)
    rows = [(rank, scene.rows(rank)[node]) for rank, node in _members(scene, site)]
    given = {scene.base(rank, of) for rank, row in rows for of in operands(row)[:1]}
    return given == {base} or _of_wholes(scene, base)


def _members(scene: Scene, site: Site) -> list[tuple[int, str]]:
    """The nodes of the sum over ranks at a place."""
    sql = """
        SELECT m.rank, m.node FROM collective c JOIN collective m ON m.instance = c.instance
        WHERE c.rank = ? AND c.node = ? AND c.kind LIKE 'all_reduce%' AND c.reduction = 'sum'"""
    return [(rank, node) for rank, node in scene.ask(sql, site.rank, site.node)]


def _of_wholes(scene: Scene, tensor: str) -> bool:
    """Is every term of the sum all that the sum is?"""
    sql = """
        SELECT bool_and(t.times = '1' AND EXISTS (
            SELECT 1 FROM holds h JOIN holds g ON g.seq = h.seq AND g.block = h.block
            WHERE g.dist = d.gives AND h.dist = t."of" AND NOT is_open(h.parts)
              AND NOT is_open(g.parts) AND is_one(h.times)
        ))
        FROM dist_sum d JOIN term_of t ON t."by" = d."by" WHERE d.gives = ?"""
    return bool(scene.ask(sql, tensor)[0][0])


# ---- operands ------------------------------------------------------------------------------------
def _operands(scene: Scene, seq: str) -> Iterator[Candidate]:
    """What goes into an operator of the ranks multiplied, though not into the sequential one."""
    sql = """
        SELECT DISTINCT p.dist, x."of", x.times, y."of", y.times, h.times
        FROM operator_pair p
        JOIN tensor_node t ON t.side = 'seq' AND t.tensor = p.seq
        JOIN result_of s ON s.gives = p.seq JOIN result_of d ON d.gives = p.dist
        JOIN operand_of x ON x."by" = s."by"
        JOIN operand_of y ON y."by" = d."by" AND y.place = x.place
        JOIN holds h ON h.dist = y."of" AND h.seq = x."of" AND NOT is_open(h.parts)
        WHERE t.node = ? AND (p.same_signature OR p.same_target) ORDER BY ALL"""
    wrong: dict[Fraction, list[Site]] = {}
    for dist, of, wanted, operand, scale, held in scene.ask(sql, seq):
        asked, given, own = scene.scales.get(wanted), scene.scales.get(scale), scene.rational(held)
        if not asked or not given or not own or given * own == asked:
            continue
        if own != ONE:
            by, sites = _begin(scene, operand, of, own)
            wrong.setdefault(by, []).extend(sites)
        else:
            ranks = {site.rank for site in scene.makers(dist)}
            sites = [site for site in _views(scene, operand, scale) if site.rank in ranks]
            wrong.setdefault(given / asked, []).extend(sites)
    for by, sites in wrong.items():
        yield _scale(scene, sites, by)


def _views(scene: Scene, tensor: str, scale: str) -> list[Site]:
    """The nodes at which a base tensor gets this coefficient."""
    found = {place for place, held in scene.tensors.items() if held == (tensor, scale)}
    return [
        Site(rank, name)
        for rank, name in sorted(found)
        if all((rank, of) not in found for of in operands(scene.rows(rank)[name]))
    ]
