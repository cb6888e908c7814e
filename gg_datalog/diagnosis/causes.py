"""All findings of a result: causes first, then what is worth knowing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gg_datalog.diagnosis.findings import PAGES
from gg_datalog.diagnosis.finishing import finished
from gg_datalog.diagnosis.mistakes import (
    gg101_chain_break,
    gg102_rank_break,
    gg110_misaligned_collective,
)
from gg_datalog.diagnosis.mistakes.mistake import first
from gg_datalog.diagnosis.order import (
    AFTER,
    AT_BREAK,
    AT_OUTPUT,
    AT_RANK,
    AT_REDUCTION,
    BEFORE,
    SUMS,
    UNRETURNED,
)
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.breaks import breaks
from gg_datalog.diagnosis.sites.outputs import outputs
from gg_datalog.diagnosis.sites.ranks import rank_breaks
from gg_datalog.diagnosis.sites.reductions import open_reductions
from gg_datalog.result.reasons import PARTS
from gg_datalog.result.report import Finding

# What explains whatever else breaks behind it.
EXPLAINS = {code for code, page in PAGES.items() if page.explains}
# Findings that there is a break, and no more.
GENERAL = (gg101_chain_break.MISTAKE.code, gg102_rank_break.MISTAKE.code)
COLLECTIVE = gg110_misaligned_collective.MISTAKE.code


def diagnose(scene: Scene) -> list[Finding]:
    """All findings: causes first, then what is worth knowing."""
    back = _returned(scene)
    before = [found for look in BEFORE for found in look(scene)]
    astray = {name for f in before if f.code == COLLECTIVE for name in f.dist}
    broken = [f for f in _breaks(scene, {f.seq for f in back}) if not _behind(f, astray)]
    broken.sort(key=_rank)
    causes = [f for f in broken if f.code in EXPLAINS]
    after = [found for look in AFTER for found in look(scene)]
    found = [*before, *causes, *back, *broken[len(causes) :], *after]
    return finished(scene, list(dict.fromkeys(found)))


def _returned(scene: Scene) -> list[Finding]:
    """One finding per output and form in which it comes back, where that is not right."""
    back = [found for output in outputs(scene) if (found := first(AT_OUTPUT, output))]
    return [*back, *(found for look in UNRETURNED for found in look(scene))]


def _behind(found: Finding, astray: set[str]) -> bool:
    """Is all that comes close there a collective that does not line up?"""
    return found.code in GENERAL and bool(found.dist) and astray.issuperset(found.dist)


def _rank(found: Finding) -> tuple[bool, bool]:
    """Causes that explain several breaks first, then those that name distributed operators."""
    return found.code not in EXPLAINS, not found.dist


# ---- where chains break ------------------------------------------------------------------------
def _breaks(scene: Scene, told: set[str | None]) -> Iterator[Finding]:
    """One finding per tensor at which a chain breaks; ``told`` outputs are explained already."""
    if not scene.broken:
        return
    named: dict[tuple[str, str], Finding] = {}
    for one in open_reductions(scene):  # of several forms of a tensor each may be open
        if found := first(AT_REDUCTION, one):
            named.setdefault((found.code, found.message), found)
    causes = list(named.values())
    yield from causes
    origins = {found.seq for found in causes}
    explained = {node for node, origin in scene.rows(_EXPLAINED) if origin in origins}
    told = told | explained
    counted = [found for look in SUMS for found in look(scene) if found.seq not in told]
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
