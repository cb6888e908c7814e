"""The verdict, read off the database of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gg_datalog.diagnosis.causes import diagnose
from gg_datalog.diagnosis.finishing import finished
from gg_datalog.diagnosis.order import REBUILT
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.rebuilt import Rebuilt
from gg_datalog.result.expression import output_relations
from gg_datalog.result.reasons import Status, Verdict
from gg_datalog.result.report import Assumption, Finding, OutputRow

if TYPE_CHECKING:
    import duckdb


def judge(
    database: duckdb.DuckDBPyConnection,
) -> tuple[Verdict, list[OutputRow], list[Finding], list[Assumption]]:
    """Verdict, outputs, findings and assumptions of a result."""
    scene = Scene(database)
    rebuilt = _rebuilt(scene)
    aside = finished(scene, [one for look in REBUILT for one in look(rebuilt)])
    found = [*diagnose(scene), *aside]
    ((verdict,),) = scene.rows("SELECT verdict FROM verdict")
    taken = [Assumption(*row) for row in scene.rows("SELECT kind, text FROM assumption")]
    return Verdict(verdict), list(rebuilt.outputs.values()), found, taken


def _rebuilt(scene: Scene) -> Rebuilt:
    """The outputs, with the relations by which they are rebuilt."""
    relations = output_relations(scene.database)
    outputs = {}
    for wants, seq, status, name in scene.rows(_STATUSES):
        mapped = status == Status.MAPPED and wants in relations
        text = relations[wants].text if mapped else None
        outputs[wants] = OutputRow(seq, Status(status), text, name)
    return Rebuilt(scene, outputs, relations, dict(scene.rows(_RETURNED)))


def state_kept(database: duckdb.DuckDBPyConnection) -> int:
    """How many updated tensors of state come back on every rank as they were given."""
    sql = """
        SELECT count(DISTINCT wants) FROM state_kept
        WHERE wants NOT IN (SELECT wants FROM state_lost)
          AND wants IN (SELECT wants FROM output_status WHERE status = 'mapped')"""
    ((found,),) = database.sql(sql).fetchall()
    return int(found)


_STATUSES = """
    SELECT wants, s.seq, status, name FROM output_status s JOIN output_name USING (wants)
    ORDER BY wants"""

_RETURNED = """
    SELECT wants, list('r' || rank || '.' || dist ORDER BY rank)
    FROM returned_name GROUP BY wants"""
