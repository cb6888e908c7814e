"""All findings of a result: causes first, then what is worth knowing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gg_datalog.diagnosis.findings import PAGES
from gg_datalog.diagnosis.finishing import finished, located
from gg_datalog.diagnosis.mistakes import (
    gg101_chain_break,
    gg102_rank_break,
    gg110_misaligned_collective,
)
from gg_datalog.diagnosis.mistakes.mistake import first
from gg_datalog.diagnosis.order import (
    AFTER,
    ALIKE_OUTPUTS,
    ALIKE_REDUCTIONS,
    AT_BREAK,
    AT_OUTPUT,
    AT_RANK,
    AT_REDUCTION,
    BEFORE,
    OUTPUTS_IN_WORDS,
    REDUCTIONS_IN_WORDS,
    SUMS,
    UNRETURNED,
)
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.breaks import breaks
from gg_datalog.diagnosis.sites.outputs import outputs
from gg_datalog.diagnosis.sites.ranks import rank_breaks
from gg_datalog.diagnosis.sites.reductions import Reduction, open_reductions
from gg_datalog.diagnosis.together import Place, Told, together
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
    """One finding per cause of outputs that come back in a form that is not right."""
    places = list(outputs(scene))
    told = _told(scene, [(place, first(AT_OUTPUT, place)) for place in places])
    back = together(told, ALIKE_OUTPUTS, OUTPUTS_IN_WORDS)
    return [*back, *(found for look in UNRETURNED for found in look(scene))]


def _told(scene: Scene, found: Sequence[tuple[Place, Finding | None]]) -> list[Told[Place]]:
    """The places where something is found, with the lines of that."""
    there = [(place, one) for place, one in found if one is not None]
    lines = located(scene, [one for _, one in there])
    return [(place, one) for (place, _), one in zip(there, lines, strict=True)]


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
    causes = _open(scene)
    yield from together(causes, ALIKE_REDUCTIONS, REDUCTIONS_IN_WORDS)
    origins = {found.seq for _, found in causes}
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


def _open(scene: Scene) -> list[Told[Reduction]]:
    """Reductions that stay open; of several forms of a tensor each may be."""
    places = list(open_reductions(scene))
    told = _told(scene, [(place, first(AT_REDUCTION, place)) for place in places])
    named = {(one.code, one.message): (place, one) for place, one in reversed(told)}
    return list(reversed(named.values()))


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
