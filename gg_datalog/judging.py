"""The verdict, read off the database of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gg_datalog.diagnosis import diagnose
from gg_datalog.relation import output_relations
from gg_datalog.report import Assumption, Finding, OutputRow

if TYPE_CHECKING:
    import duckdb


def judge(
    database: duckdb.DuckDBPyConnection,
) -> tuple[str, list[OutputRow], list[Finding], list[Assumption]]:
    """Verdict, outputs, findings and assumptions of a result."""
    statuses = database.sql("SELECT wants, seq, status FROM output_status").fetchall()
    relations = output_relations(database)
    outputs = [
        OutputRow(seq, status, relations.get(wants) if status == "mapped" else None)
        for wants, seq, status in statuses
    ]
    (verdict,) = database.sql("SELECT verdict FROM verdict").fetchall()[0]
    taken = database.sql("SELECT kind, text FROM assumption").fetchall()
    assumptions = [Assumption(kind, text) for kind, text in taken]
    return str(verdict), outputs, diagnose(database), assumptions
