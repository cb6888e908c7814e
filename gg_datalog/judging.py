"""The verdict, read off the database of a result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gg_datalog.diagnosis.causes import diagnose, finding
from gg_datalog.findings import Kind
from gg_datalog.relation import output_relations
from gg_datalog.report import Assumption, Finding, OutputRow

if TYPE_CHECKING:
    import duckdb


def judge(
    database: duckdb.DuckDBPyConnection,
) -> tuple[str, list[OutputRow], list[Finding], list[Assumption]]:
    """Verdict, outputs, findings and assumptions of a result."""
    statuses = database.sql(
        "SELECT wants, s.seq, status, name FROM output_status s JOIN output_name USING (wants) "
        "ORDER BY wants"
    ).fetchall()
    relations = output_relations(database)
    outputs = [
        OutputRow(seq, status, relations.get(wants) if status == "mapped" else None, name)
        for wants, seq, status, name in statuses
    ]
    (verdict,) = database.sql("SELECT verdict FROM verdict").fetchall()[0]
    taken = database.sql("SELECT kind, text FROM assumption").fetchall()
    assumptions = [Assumption(kind, text) for kind, text in taken]
    return str(verdict), outputs, [*diagnose(database), *out_of_order(outputs)], assumptions


def out_of_order(outputs: Sequence[OutputRow]) -> Iterator[Finding]:
    """Outputs that are rebuilt, but not by putting the shares one after the other: whoever gathers
    them in the order of the ranks gets something else. Ranks with several pieces each (of fused
    halves) are not gathered that way to begin with."""
    for output in outputs:
        shares = re.findall(r"\br(\d+)\.", output.relation or "")
        if sorted(shares, key=int) != shares and len(set(shares)) == len(shares):
            text = f"`{output.seq}` is rebuilt from shares in another order than that of the ranks"
            yield finding(Kind.OUT_OF_ORDER, f"{text}: {output.relation}", seq=output.seq)
