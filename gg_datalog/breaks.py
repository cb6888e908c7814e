"""Findings about where a chain breaks, and what comes closest there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gg_datalog.diagnosis import finding, names, rows
from gg_datalog.findings import Kind
from gg_datalog.report import Finding

if TYPE_CHECKING:
    import duckdb

# What `blocked` gives as reason, in a sentence about distributed operators (and their operands).
SENTENCE = {
    "operand is a part of a reduction": "{dist} would need {operand} reduced over ranks, "
    "which is only a part of a reduction",
    "result is a part of a reduction": "{dist} is only a part of the reduction over ranks",
    "other coefficient": "{dist} differs by a coefficient",
    "different operand": "{dist} has another operand",
    "different range": "{dist} covers another range",
    "different attribute": "{dist} has other attributes",
    "unsupported operator": "no rule describes {dist}",
    "no counterpart": "{dist} has operands in common, but is another operator",
}
BEYOND = {"unsupported operator": Kind.UNSUPPORTED, "opaque input": Kind.OPAQUE}


def chain_breaks(
    database: duckdb.DuckDBPyConnection, told: set[str | None]
) -> Iterator[Finding]:
    """One finding per tensor at which a chain breaks; ``told`` outputs are explained already."""
    at_seq = {seq for (seq,) in rows(database, "SELECT tensor FROM seq_chain WHERE first")}
    for seq, node, target, source, opaque, detail in rows(database, _SEQ):
        if node not in told:
            yield _seq_break(database, seq, (node, target, source), opaque, detail)
    for dist, name, source, seq, near, near_source, opaque, detail in rows(database, _DIST):
        if seq in at_seq:
            continue
        where = {"dist": (name,), "dist_source": source or None}
        where |= {"seq": near, "seq_source": near_source or None}
        if opaque is not None:
            text = f"`{name}` stands in the way: {detail}"
            yield finding(BEYOND[opaque], text, **where)
        elif near is not None:
            text = f"`{name}` does not give what `{near}` gives: "
            yield finding(Kind.RANK_BREAKS, text + _why(database, seq, dist), **where)


_SEQ = """
    SELECT DISTINCT c.tensor, t.node, t.target, t.source, o.reason, o.detail
    FROM seq_chain c JOIN tensor_node t ON t.side = 'seq' AND t.tensor = c.tensor
    LEFT JOIN tensor_opaque o ON o.side = 'seq' AND o.tensor = c.tensor
    WHERE c.first ORDER BY c.tensor"""

_DIST = """
    SELECT DISTINCT b.dist, d.name, d.source, b.seq, s.node, s.source, o.reason, o.detail
    FROM chain_break b JOIN tensor_node d ON d.side = 'dist' AND d.tensor = b.dist
    LEFT JOIN tensor_node s ON s.side = 'seq' AND s.tensor = b.seq
    LEFT JOIN tensor_opaque o ON o.side = 'dist' AND o.tensor = b.dist
    WHERE b.rank IS NOT NULL ORDER BY d.name"""


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
    text = f"`{name}` ({target}) has no equivalent on the ranks although its operands have: {why}"
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
    return [(r, [n for n in dist if n], operand, at) for r, dist, operand, at in found]


def _why(database: duckdb.DuckDBPyConnection, seq: str, dist: str) -> str:
    sql = f"""
        SELECT b.reason, d.name, o.name FROM blocked b
        JOIN tensor_node d ON d.side = 'dist' AND d.tensor = b.dist
        LEFT JOIN tensor_node o ON o.side = 'dist' AND o.tensor = b.operand
        WHERE b.seq = {_text(seq)} AND b.dist = {_text(dist)} ORDER BY ALL LIMIT 1"""
    for reason, name, operand in rows(database, sql):
        return SENTENCE[reason].format(dist=names([name]), operand=names([operand or "?"]))
    return "its operands do not agree"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
