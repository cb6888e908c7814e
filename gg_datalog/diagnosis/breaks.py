"""Findings about where chains break: one for each place that no other one explains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gg_datalog.diagnosis.mistakes.gg107_uneven_sum import uneven_sums
from gg_datalog.diagnosis.mistakes.mistake import first
from gg_datalog.diagnosis.order import AT_BREAK, AT_RANK, AT_REDUCTION
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.breaks import breaks
from gg_datalog.diagnosis.sites.ranks import rank_breaks
from gg_datalog.diagnosis.sites.reductions import open_reductions
from gg_datalog.result.reasons import PARTS
from gg_datalog.result.report import Finding


def chain_breaks(scene: Scene, told: set[str | None]) -> Iterator[Finding]:
    """One finding per tensor at which a chain breaks; ``told`` outputs are explained already."""
    causes = [found for one in open_reductions(scene) if (found := first(AT_REDUCTION, one))]
    yield from causes
    origins = {found.seq for found in causes}
    explained = {node for node, origin in scene.rows(_EXPLAINED) if origin in origins}
    told = told | explained
    counted = [found for found in uneven_sums(scene) if found.seq not in told]
    yield from counted
    told |= {found.seq for found in counted}
    for place in breaks(scene):
        if place.of.node not in told and (found := first(AT_BREAK, place)):
            yield found
            told = told | {place.of.node}
    yield from _rank_breaks(scene, explained)


def _rank_breaks(scene: Scene, explained: set[str]) -> Iterator[Finding]:
    """Breaks on single ranks that no break of the sequential chain accounts for."""
    for place in rank_breaks(scene):
        part = place.near in explained and place.opaque is None and place.reason in PARTS
        if not part and (found := first(AT_RANK, place)):
            yield replace(found, outputs=found.outputs or place.where["outputs"])


_EXPLAINED = """
    SELECT DISTINCT t.node, o.node FROM open_cause c
    JOIN tensor_node t ON t.side = 'seq' AND t.tensor = c.seq
    JOIN tensor_node o ON o.side = 'seq' AND o.tensor = c.origin"""
