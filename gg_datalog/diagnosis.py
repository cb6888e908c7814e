"""Findings: what the views of a result say, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gg_datalog.findings import Kind
from gg_datalog.report import Finding
from gg_datalog.terms import coefficient_text

if TYPE_CHECKING:
    import duckdb

MANY = 6


def diagnose(database: duckdb.DuckDBPyConnection) -> list[Finding]:
    """All findings: causes first, then what is worth knowing."""
    from gg_datalog.breaks import chain_breaks

    returned = list(_returned(database))
    breaks = sorted(chain_breaks(database, {f.seq for f in returned}), key=_rank)
    causes = [f for f in breaks if f.code == Kind.PART_USED.value.code]
    found = [
        *_mismatches(database),
        *causes,
        *returned,
        *breaks[len(causes) :],
        *_limits(database),
        *_draws(database),
        *_notes(database),
    ]
    return list(dict.fromkeys(found))


def _rank(found: Finding) -> tuple[bool, bool]:
    """Causes that explain several breaks first, then those that name distributed operators."""
    return found.code != Kind.PART_USED.value.code, not found.dist


def finding(kind: Kind, message: str, **where: Any) -> Finding:
    """A finding with the code and level of its kind."""
    code = kind.value
    return Finding(code.code, code.level, message, title=code.title, **where)


def rows(database: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return list(database.sql(sql).fetchall())


def names(found: Sequence[str]) -> str:
    """Names in a sentence; the rest of a long list as a number."""
    quoted = [f"`{name}`" for name in found[:MANY]]
    return ", ".join(quoted) + (f" and {len(found) - MANY} more" if len(found) > MANY else "")


# ---- collectives, limits, notes ------------------------------------------------------------------
def _mismatches(database: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    sql = """
        SELECT c.rank, c.node, c.kind, c.problem, g.source
        FROM collective_mismatch c
        LEFT JOIN graph_node g ON g.side = 'dist' AND g.rank = c.rank AND g.name = c.node
        ORDER BY c.rank, g.position"""
    for rank, node, kind, problem, source in rows(database, sql):
        name = f"r{rank}.{node}"
        message = f"{kind} `{name}` does not line up between ranks: {problem}"
        yield finding(Kind.COLLECTIVE, message, dist=(name,), dist_source=source or None)


def _limits(database: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    for a, b in rows(database, "SELECT a, b FROM coefficient_out_of_range ORDER BY ALL LIMIT 1"):
        yield finding(
            Kind.LIMIT,
            f"the product of the coefficients {coefficient_text(a)} and {coefficient_text(b)} "
            "is left out: it does not fit the numbers of the rules",
        )


def _draws(database: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    for dist, seq in rows(database, "SELECT dist, seq FROM draw_shared ORDER BY ALL LIMIT 1"):
        yield finding(
            Kind.SHARED_DRAW,
            f"elements of the random draws `{dist}` and `{seq}` do not belong together one to one: "
            "they are drawn for elements that hold the same, and nothing says which is which",
            seq=seq,
            dist=(dist,),
        )


def _notes(database: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    for (text,) in rows(database, "SELECT text FROM warning"):
        yield finding(Kind.EXTRACTION, text)
    for target, reason, seq, dist in _grouped(database, "unsupported_operator", "target"):
        text = f"{target} is not interpreted ({reason}): equal operands give equal results, "
        yield finding(Kind.UNINTERPRETED, text + "and nothing more", seq=seq, dist=dist)
    for node, reason, seq, dist in _grouped(database, "opaque_input", "node"):
        yield finding(
            Kind.NOTHING_KNOWN, f"nothing is known of `{node}`: {reason}", seq=seq, dist=dist
        )


def _grouped(
    database: duckdb.DuckDBPyConnection, relation: str, column: str
) -> Iterator[tuple[str, str, str | None, tuple[str, ...]]]:
    sql = f"""
        SELECT {column}, reason, min(node) FILTER (side = 'seq'),
               list_sort(list('r' || rank || '.' || node) FILTER (side = 'dist'))
        FROM {relation} GROUP BY {column}, reason ORDER BY {column}, reason"""
    for subject, reason, seq, dist in rows(database, sql):
        yield subject, reason, seq, tuple(dist or ())


# ---- what comes back -----------------------------------------------------------------------------
def _returned(database: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Outputs that come back in another form, or not at all."""
    sql = """
        SELECT o.seq, coalesce(g.source, ''), s.state, s.times,
               list(s.dist ORDER BY s.rank), min(s.source),
               o.wants IN (SELECT wants FROM chain_break WHERE telling),
               bool_and(s.state = 'right') OVER (PARTITION BY o.wants)
        FROM output_status o JOIN returned_state s USING (wants)
        LEFT JOIN graph_node g ON g.side = 'seq' AND g.name = o.seq
        WHERE o.status <> 'mapped'
        GROUP BY o.wants, o.seq, g.source, s.state, s.times ORDER BY o.wants, s.state, s.times"""
    for seq, seq_source, state, times, dist, dist_source, broken, all_right in rows(database, sql):
        kind, text = _form(state, names(dist), seq, times, broken, all_right)
        if kind is not None:
            yield finding(
                kind,
                text,
                seq=seq,
                seq_source=seq_source or None,
                dist=tuple(dist),
                dist_source=dist_source or None,
            )


def _form(
    state: str, dist: str, seq: str, times: str, broken: bool, all_right: bool
) -> tuple[Kind | None, str]:
    """What is wrong with what comes back; nothing where a break in the chain explains it."""
    if state == "coefficient":
        text = f"{dist}: found {coefficient_text(times)} times `{seq}`, expected 1 times"
        return Kind.OTHER_COEFFICIENT, text
    if state == "part":
        text = f"{dist}: found a part of the reduction that gives `{seq}`, expected all of it "
        return Kind.OPEN_REDUCTION, text + "(is a reduction over ranks missing?)"
    if broken:
        return None, ""
    if state == "nothing":
        return Kind.NOT_RELATED, f"{dist}: found a tensor that is not related to `{seq}`"
    if state == "piece":
        return Kind.NOT_COVERED, f"{dist}: only some of it is related to `{seq}`"
    if all_right:
        return Kind.NOT_COVERED, f"{dist}: found pieces of `{seq}`, which do not make up all of it"
    return None, ""
