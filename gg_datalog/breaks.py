"""Findings about where a chain breaks, and what comes closest there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gg_datalog.diagnosis import finding, names, rows
from gg_datalog.findings import Kind
from gg_datalog.report import Finding
from gg_datalog.terms import coefficient_text

if TYPE_CHECKING:
    import duckdb

# What `blocked` gives as reason, in a sentence about distributed operators (and their operands).
SENTENCE = {
    "operand is a part of a reduction": "an operand of {dist} is only a part of a reduction: "
    "{operand}",
    "result is a part of a reduction": "only a part of a reduction is in {dist}",
    "other coefficient": "another coefficient is in {dist}",
    "different operand": "another operand goes into {dist}",
    "different range": "another range, or only a piece, is covered by {dist}",
    "different mask": "rows of a shard are masked by {dist}",
    "different attribute": "other attributes has {dist}",
    "unsupported operator": "no rule describes {dist}",
    "no counterpart": "another operator on the same operands is {dist}",
}
# How often a sum counts a term that it does not have whole.
COUNTED = {"missing": "0 times", "open": "only a part of"}
BEYOND = {"unsupported operator": Kind.UNSUPPORTED, "opaque input": Kind.OPAQUE}


def chain_breaks(database: duckdb.DuckDBPyConnection, told: set[str | None]) -> Iterator[Finding]:
    """One finding per tensor at which a chain breaks; ``told`` outputs are explained already."""
    yield from _open_causes(database)
    explained = {node for (node,) in rows(database, _EXPLAINED)}
    told = told | explained
    sums = [found for found in _sums(database) if found.seq not in told]
    yield from sums
    told |= {found.seq for found in sums}
    for seq, node, target, source, opaque, detail in rows(database, _SEQ):
        if node not in told:
            yield _seq_break(database, seq, (node, target, source), opaque, detail)
    yield from _rank_breaks(database, explained)


def _rank_breaks(
    database: duckdb.DuckDBPyConnection, explained: set[str | None]
) -> Iterator[Finding]:
    """Breaks on single ranks that no break of the sequential chain accounts for."""
    for dist, source, near, near_source, opaque, detail, reason, operand in rows(database, _DIST):
        where: dict[str, Any] = {"dist": tuple(dist), "dist_source": source or None}
        where |= {"seq": near, "seq_source": near_source or None}
        if near in explained and opaque is None and "part of a reduction" in (reason or ""):
            continue
        if opaque is not None:
            yield finding(BEYOND[opaque], f"{names(dist)} stands in the way: {detail}", **where)
        elif near is not None:
            why = SENTENCE[reason].format(dist=names(dist), operand=names(operand))
            text = f"{names(dist)} should give what `{near}` gives, but does not: {why}"
            yield finding(Kind.RANK_BREAKS, text, **where)


def _sums(database: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Sums that the ranks have, too, but with other coefficients or without some terms."""
    for node, source, dist, dist_source, terms in rows(database, _SUMS):
        told = [
            f"{COUNTED.get(state, coefficient_text(times) + ' times')} `{term}`"
            for term, state, times in terms
        ]
        yield finding(
            Kind.SUM_RATIO,
            f"{names(dist)}: in the sum that is to give `{node}`, found {', '.join(told)}; "
            "expected 1 times each",
            seq=node,
            seq_source=source or None,
            dist=tuple(dist),
            dist_source=dist_source or None,
        )


def _open_causes(database: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Reductions that are never completed, the one that most outputs wait for first."""
    for node, target, source, holders, at, users, outputs in rows(database, _CAUSES):
        text = (
            f"{names(holders)} hold only parts of `{node}` ({target}), one per rank, and are used "
            f"as if they were all of it, by {names(users)}: the reduction over ranks is missing "
            f"(outputs: {names(outputs)})"
        )
        where: dict[str, Any] = {"dist": tuple(holders), "dist_source": at or None}
        yield finding(Kind.PART_USED, text, seq=node, seq_source=source or None, **where)


_EXPLAINED = """
    SELECT DISTINCT t.node FROM open_cause c
    JOIN tensor_node t ON t.side = 'seq' AND t.tensor = c.seq"""

_CAUSES = """
    WITH holder AS (
        SELECT o.origin, list(DISTINCT d.name ORDER BY d.name) AS names, min(d.source) AS source
        FROM open_origin o JOIN tensor_node d ON d.side = 'dist' AND d.tensor = o.dist
        WHERE o.seq = o.origin GROUP BY o.origin
    )
    SELECT t.node, t.target, t.source, h.names, h.source,
           list(DISTINCT u.name ORDER BY u.name), list(DISTINCT n.seq ORDER BY n.seq)
    FROM open_cause c
    JOIN tensor_node t ON t.side = 'seq' AND t.tensor = c.origin
    JOIN holder h ON h.origin = c.origin
    JOIN tensor_node u ON u.side = 'dist' AND u.tensor = c.used_by
    JOIN output_name n ON n.wants = c.wants
    GROUP BY t.node, t.target, t.source, h.names, h.source
    ORDER BY count(DISTINCT n.seq) DESC, t.node"""

_SUMS = """
    SELECT node, source, list(dist ORDER BY dist), min(dist_source), terms
    FROM (
        SELECT t.node, t.source, d.dist, min(d.source) AS dist_source,
               list((d.term, d.state, d.times) ORDER BY d.term) AS terms
        FROM sum_difference d JOIN tensor_node t ON t.side = 'seq' AND t.tensor = d.seq
        WHERE d.seq IN (SELECT tensor FROM seq_chain WHERE first)
        GROUP BY t.node, t.source, d.dist
    )
    GROUP BY node, source, terms ORDER BY node"""

_SEQ = """
    SELECT DISTINCT c.tensor, t.node, t.target, t.source, o.reason, o.detail
    FROM seq_chain c JOIN tensor_node t ON t.side = 'seq' AND t.tensor = c.tensor
    LEFT JOIN tensor_opaque o ON o.side = 'seq' AND o.tensor = c.tensor
    WHERE c.first ORDER BY c.tensor"""

_DIST = """
    WITH broken AS (
        SELECT DISTINCT b.dist, b.seq FROM chain_break b
        WHERE b.rank IS NOT NULL AND b.telling
          AND coalesce(b.seq NOT IN (SELECT tensor FROM seq_chain WHERE first), true)
    )
    SELECT list(DISTINCT d.name ORDER BY d.name), min(d.source), s.node, s.source,
           o.reason, o.detail, k.reason,
           coalesce(list(DISTINCT p.name ORDER BY p.name) FILTER (p.name IS NOT NULL), [])
    FROM broken b JOIN tensor_node d ON d.side = 'dist' AND d.tensor = b.dist
    LEFT JOIN tensor_node s ON s.side = 'seq' AND s.tensor = b.seq
    LEFT JOIN tensor_opaque o ON o.side = 'dist' AND o.tensor = b.dist
    LEFT JOIN blocked k ON k.seq = b.seq AND k.dist = b.dist
    LEFT JOIN tensor_node p ON p.side = 'dist' AND p.tensor = k.operand
    GROUP BY s.node, s.source, o.reason, o.detail, k.reason ORDER BY s.node, o.detail, k.reason"""


def _seq_break(
    database: duckdb.DuckDBPyConnection,
    seq: str,
    node: tuple[str, str, str],
    opaque: str | None,
    detail: str | None,
) -> Finding:
    name, target, source = node
    where: dict[str, Any] = {"seq": name, "seq_source": source or None}
    if opaque is not None:
        text = f"`{name}` ({target}) stands in the way: {detail}"
        return finding(BEYOND[opaque], text, **where)
    closest = _closest(database, seq)
    where["dist"] = tuple(dict.fromkeys(d for _, dist, _, _ in closest for d in dist))
    where["dist_source"] = next((at for _, _, _, at in closest if at), None)
    if not any(rows(database, _NEEDS.format(_text(seq)))):
        return finding(Kind.CHAIN_BREAKS, f"input `{name}`: {_cover(closest)}", **where)
    reasons = [
        SENTENCE[reason].format(dist=names(dist), operand=names(operand))
        for reason, dist, operand, _ in closest
        if dist
    ]
    why = "; ".join(reasons) or "no operator of the ranks comes close"
    text = f"`{name}` ({target}) has no equivalent on the ranks, though its operands have: {why}"
    unsupported = [reason for reason, _, _, _ in closest] == ["unsupported operator"]
    return finding(Kind.UNSUPPORTED if unsupported else Kind.CHAIN_BREAKS, text, **where)


def _cover(closest: list[tuple[str, list[str], list[str], str]]) -> str:
    held = [name for _, dist, _, _ in closest for name in dist]
    if not held:
        return "the input relations do not say what the ranks hold of it"
    return f"{names(held)} hold only pieces of it, by the input relations"


_NEEDS = "SELECT 1 FROM tensor_needs WHERE side = 'seq' AND tensor = {} LIMIT 1"


def _closest(
    database: duckdb.DuckDBPyConnection, seq: str
) -> list[tuple[str, list[str], list[str], str]]:
    sql = f"""
        SELECT b.reason, list_sort(list(DISTINCT d.name)),
               coalesce(list_sort(list(DISTINCT o.name) FILTER (o.name IS NOT NULL)), []),
               min(d.source)
        FROM blocked b
        LEFT JOIN tensor_node d ON d.side = 'dist' AND d.tensor = b.dist
        LEFT JOIN tensor_node o ON o.side = 'dist' AND o.tensor = b.operand
        WHERE b.seq = {_text(seq)} GROUP BY b.reason ORDER BY b.reason"""
    found = rows(database, sql)
    if len(found) > 1:
        found = [row for row in found if row[0] != "no counterpart"]
    return [(r, [n for n in dist if n], operand, at) for r, dist, operand, at in found]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
