"""Findings: what the views of a result say, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gg_datalog.result.findings import Kind
from gg_datalog.result.placement import names_text, ranks_text, some
from gg_datalog.result.report import Finding
from gg_datalog.result.terms import coefficient_text

if TYPE_CHECKING:
    import duckdb

MANY = 6
# What explains whatever else breaks behind it.
CAUSES = {
    kind.value.code
    for kind in (Kind.PART_USED, Kind.NOT_LINEAR, Kind.WRONG_GROUP, Kind.WRONG_RANGE,
                 Kind.REDUCED_TWICE, Kind.GRADIENT, Kind.UNWRITTEN)
}  # fmt: skip


# What is found and what was expected are both derived, and nothing behind it can make it good,
# unless a finding says otherwise. Of orders, and of what is elsewhere, this cannot be said.
CERTAIN = (
    Kind.COLLECTIVE, Kind.OTHER_COEFFICIENT, Kind.OPEN_REDUCTION, Kind.PART_USED, Kind.WRONG_GROUP,
    Kind.REDUCED_TWICE, Kind.USED_FACTOR, Kind.GRADIENT, Kind.UNWRITTEN, Kind.STALE,
    Kind.WRONG_RANGE, Kind.NOT_LINEAR, Kind.MISPLACED, Kind.STATE_MOVED, Kind.GRADIENT_LACKED,
    Kind.DRAW_REPEATED, Kind.DRAW_UNEQUAL,
)  # fmt: skip


def diagnose(database: duckdb.DuckDBPyConnection) -> list[Finding]:
    """All findings: causes first, then what is worth knowing."""
    from gg_datalog.diagnosis.breaks import chain_breaks
    from gg_datalog.diagnosis.finishing import finished
    from gg_datalog.diagnosis.precision import precision
    from gg_datalog.diagnosis.returned import returned
    from gg_datalog.diagnosis.scene import Scene

    scene = Scene(database)
    back = list(returned(scene))
    mismatches = list(_mismatches(database))
    astray = {name for f in mismatches for name in f.dist}
    breaks = [f for f in chain_breaks(scene, {f.seq for f in back}) if not _behind(f, astray)]
    breaks.sort(key=_rank)
    causes = [f for f in breaks if f.code in CAUSES]
    found = [
        *mismatches,
        *_seeds(database),
        *_lacking(database),
        *causes,
        *back,
        *breaks[len(causes) :],
        *_limits(database),
        *_draws(database),
        *_notes(database),
        *precision(scene),
    ]
    return finished(scene, list(dict.fromkeys(found)))


def _behind(found: Finding, astray: set[str]) -> bool:
    """Is all that comes close there a collective that does not line up?"""
    general = found.code in (Kind.CHAIN_BREAKS.value.code, Kind.RANK_BREAKS.value.code)
    return general and bool(found.dist) and astray.issuperset(found.dist)


def _rank(found: Finding) -> tuple[bool, bool]:
    """Causes that explain several breaks first, then those that name distributed operators."""
    return found.code not in CAUSES, not found.dist


def finding(kind: Kind, message: str, **where: Any) -> Finding:
    """A finding with the code and level of its kind."""
    code = kind.value
    return Finding(
        code.code, code.level, message, title=code.title, **{"certain": kind in CERTAIN, **where}
    )


def rows(database: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return list(database.execute(sql).fetchall())


# ---- collectives, limits, notes ------------------------------------------------------------------
def _mismatches(database: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """One finding per call that does not line up; ranks that call it alike share it."""
    sql = """
        SELECT c.kind, c.node, list('r' || c.rank || '.' || c.node ORDER BY c.rank),
               arg_min(c.problem, c.rank)
        FROM collective_mismatch c
        LEFT JOIN graph_node g ON g.side = 'dist' AND g.rank = c.rank AND g.name = c.node
        GROUP BY c.kind, c.node ORDER BY min(c.rank), min(g.position)"""
    for kind, _, called, problem in rows(database, sql):
        message = f"{kind} {names_text(called)} does not line up between ranks: {problem}"
        yield finding(
            Kind.COLLECTIVE,
            message,
            dist=tuple(called),
            trigger=problem,
            effect="the ranks wait for each other, or get data that is not meant for them",
        )


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


def _seeds(database: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Per sequential draw one finding of each kind."""
    for table, kind, told in (
        ("draw_repeated", Kind.DRAW_REPEATED, "hold different elements of `{}`, and draw the same"),
        ("draw_unequal", Kind.DRAW_UNEQUAL, "hold the same elements of `{}`, and draw different"),
    ):
        sql = f"""
            SELECT d.seq, list(DISTINCT d.a ORDER BY d.a), list(DISTINCT f.stream ORDER BY f.stream)
            FROM {table} d JOIN result_of r ON r.gives = d.a JOIN drawn_as f ON f."by" = r."by"
            JOIN result_of s ON s.gives = d.seq
            WHERE (s."by", s.place) IN (
                SELECT ("by", min(place)) FROM result_of
                WHERE gives IN (SELECT seq FROM {table}) GROUP BY "by"
            )
            GROUP BY d.seq ORDER BY d.seq"""
        for seq, dist, streams in rows(database, sql):
            seeds = list(dict.fromkeys(stream.partition(":")[0] for stream in streams))
            given = f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(seeds[:MANY])}"
            yield finding(
                kind,
                f"{names_text(dist)} {told.format(seq)} numbers ({given})",
                seq=seq,
                dist=tuple(dist),
            )


def _lacking(database: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """One finding for all gradients that the same ranks lack."""
    sql = """
        WITH lacking AS (
            SELECT wants, list('r' || rank || '.' || dist ORDER BY rank) AS used,
                   list(rank ORDER BY rank) AS ranks
            FROM gradient_lacked GROUP BY wants
        ), given AS (
            SELECT wants, list(rank ORDER BY rank) AS ranks FROM returned_name GROUP BY wants
        )
        SELECT l.ranks, g.ranks, list(coalesce(nullif(o.name, ''), o.seq) ORDER BY wants),
               list(o.seq ORDER BY wants), arg_min(l.used, wants)
        FROM lacking l JOIN given g USING (wants) JOIN output_name o USING (wants)
        GROUP BY ALL ORDER BY min(wants)"""
    for lacking, giving, names, outputs, used in rows(database, sql):
        yield finding(
            Kind.GRADIENT_LACKED,
            f"{ranks_text(giving)} alone {'returns' if len(giving) == 1 else 'return'} "
            f"{some([f'`{name}`' for name in names])}, and {ranks_text(lacking)} "
            f"{'uses' if len(lacking) == 1 else 'use'} the parameter, too",
            dist=tuple(used),
            effect="replicas of the parameter drift apart with the next step",
            outputs=tuple(outputs),
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
