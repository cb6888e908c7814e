"""The verdict, read off the database of a result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gg_datalog.diagnosis.causes import diagnose, finding
from gg_datalog.result.expression import output_relations
from gg_datalog.result.findings import Kind
from gg_datalog.result.placement import names_text, some
from gg_datalog.result.report import Assumption, Finding, OutputRow

if TYPE_CHECKING:
    import duckdb


def judge(
    database: duckdb.DuckDBPyConnection,
) -> tuple[str, list[OutputRow], list[Finding], list[Assumption]]:
    """Verdict, outputs, findings and assumptions of a result."""
    statuses = database.execute(
        "SELECT wants, s.seq, status, name FROM output_status s JOIN output_name USING (wants) "
        "ORDER BY wants"
    ).fetchall()
    relations = output_relations(database)
    outputs = {
        wants: OutputRow(seq, status, relations.get(wants) if status == "mapped" else None, name)
        for wants, seq, status, name in statuses
    }
    (verdict,) = database.execute("SELECT verdict FROM verdict").fetchall()[0]
    taken = database.execute("SELECT kind, text FROM assumption").fetchall()
    assumptions = [Assumption(kind, text) for kind, text in taken]
    returned = database.execute(_RETURNED).fetchall()
    shares = {wants: dict(zip(names, ranks, strict=True)) for wants, names, ranks in returned}
    unknown = {wants for (wants,) in database.execute("SELECT wants FROM order_unknown").fetchall()}
    moved = database.execute("SELECT wants FROM output_misplaced ORDER BY wants").fetchall()
    found = [
        *diagnose(database),
        *(
            _misplaced(
                outputs[wants], relations.get(wants, ""), list(shares[wants]), wants in unknown
            )
            for (wants,) in moved
        ),
        *_moved_state(database, outputs, relations),
        *out_of_order(outputs, shares),
    ]
    return str(verdict), list(outputs.values()), found, assumptions


_RETURNED = """
    SELECT wants, list('r' || rank || '.' || dist ORDER BY rank), list(rank ORDER BY rank)
    FROM returned_name GROUP BY wants"""


def _misplaced(output: OutputRow, relation: str, dist: Sequence[str], unknown: bool) -> Finding:
    """An output that is rebuilt, but not in place."""
    names = names_text(dist)
    text = f"{names}, returned for `{output.seq}`, is not `{output.seq}` in place"
    if unknown:
        text = f"in what order {names} holds the elements of `{output.seq}` is not shown"
    found = finding(
        Kind.MISPLACED,
        f"{text}: {output.seq} = {relation}",
        seq=output.seq,
        dist=tuple(dist),
        effect=f"whoever reads `{output.seq}` where it stands reads other elements",
        expected=output.seq,
        found=relation,
        outputs=(output.seq,),
    )
    return replace(found, certain=found.certain and not unknown)


def _moved_state(
    database: duckdb.DuckDBPyConnection,
    outputs: Mapping[int, OutputRow],
    relations: Mapping[int, str],
) -> Iterator[Finding]:
    """State that comes back in another relation than the one in which it was given."""
    for wants, given, dist, pieces in database.execute(_STATE_LOST).fetchall():
        output, back = outputs[wants], relations.get(wants, "")
        title = output.name or output.seq
        told = some(list(dict.fromkeys(pieces)))
        text = (
            f"{names_text(dist)}: `{title}`, the new value of `{given}`, does not come back as it "
            f"was given: the ranks were given {told}, and `{output.seq}` is {back}"
        )
        yield finding(
            Kind.STATE_MOVED,
            text,
            seq=output.seq,
            dist=tuple(dist),
            effect="the next step starts from something else than this one did",
            expected=told,
            found=back,
            outputs=(output.seq,),
        )


def state_kept(database: duckdb.DuckDBPyConnection) -> int:
    """How many updated tensors of state come back on every rank as they were given."""
    sql = """
        SELECT count(DISTINCT wants) FROM state_kept
        WHERE wants NOT IN (SELECT wants FROM state_lost)
          AND wants IN (SELECT wants FROM output_status WHERE status = 'mapped')"""
    ((found,),) = database.execute(sql).fetchall()
    return int(found)


_STATE_LOST = """
    SELECT l.wants, s.seq, list_distinct(list('r' || l.rank || '.' || n.dist ORDER BY l.rank)),
           list('r' || l.rank || '.' || s.dist ||
                coalesce(' = ' || s.seq || '[' || i.seq_box || ']', ', related to nothing')
                ORDER BY l.rank, i.row)
    FROM state_lost l JOIN returned_name n USING (wants, rank)
    JOIN state_name s USING (wants, rank)
    LEFT JOIN input_row i ON i.rank = l.rank AND i.dist = s.dist AND i.seq = s.seq
    GROUP BY l.wants, s.seq ORDER BY l.wants"""


def out_of_order(
    outputs: Mapping[int, OutputRow], shares: Mapping[int, Mapping[str, int]]
) -> Iterator[Finding]:
    """Outputs that are rebuilt, but not by putting the shares one after the other: whoever gathers
    them in the order of the ranks gets something else. Ranks with several pieces each (of fused
    halves) are not gathered that way to begin with."""
    for wants, output in outputs.items():
        ranks = _ranks(output.relation or "", shares.get(wants, {}))
        if sorted(ranks) != ranks and len(set(ranks)) == len(ranks):
            text = f"`{output.seq}` is rebuilt from shares in another order than that of the ranks"
            yield finding(Kind.OUT_OF_ORDER, f"{text}: {output.relation}", seq=output.seq)


def _ranks(relation: str, shares: Mapping[str, int]) -> list[int]:
    """The ranks of the shares in the order in which a relation names them."""
    longest = sorted(shares, key=len, reverse=True)  # a name may begin as another one
    return [
        shares[name] for name in re.findall("|".join(map(re.escape, longest)), relation) if name
    ]
