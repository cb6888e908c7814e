"""All findings of a result: causes first, then what is worth knowing."""

from __future__ import annotations

from gg_datalog.diagnosis.breaks import chain_breaks
from gg_datalog.diagnosis.findings import PAGES
from gg_datalog.diagnosis.finishing import finished
from gg_datalog.diagnosis.mistakes import (
    gg101_chain_break,
    gg102_rank_break,
    gg110_misaligned_collective,
)
from gg_datalog.diagnosis.mistakes.gg105_missing_piece import never_returned
from gg_datalog.diagnosis.mistakes.mistake import first
from gg_datalog.diagnosis.order import AFTER, AT_OUTPUT, BEFORE
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.outputs import outputs
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
    breaks = [f for f in chain_breaks(scene, {f.seq for f in back}) if not _behind(f, astray)]
    breaks.sort(key=_rank)
    causes = [f for f in breaks if f.code in EXPLAINS]
    after = [found for look in AFTER for found in look(scene)]
    found = [*before, *causes, *back, *breaks[len(causes) :], *after]
    return finished(scene, list(dict.fromkeys(found)))


def _returned(scene: Scene) -> list[Finding]:
    """One finding per output and form in which it comes back, where that is not right."""
    back = [found for output in outputs(scene) if (found := first(AT_OUTPUT, output))]
    return [*back, *never_returned(scene)]


def _behind(found: Finding, astray: set[str]) -> bool:
    """Is all that comes close there a collective that does not line up?"""
    return found.code in GENERAL and bool(found.dist) and astray.issuperset(found.dist)


def _rank(found: Finding) -> tuple[bool, bool]:
    """Causes that explain several breaks first, then those that name distributed operators."""
    return found.code not in EXPLAINS, not found.dist
