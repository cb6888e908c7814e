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
    gg135_unused_collective,
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
    AT_SUM,
    BEFORE,
    OUTPUTS_IN_WORDS,
    REDUCTIONS_IN_WORDS,
    UNRETURNED,
)
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.breaks import Break, breaks
from gg_datalog.diagnosis.sites.outputs import Output, outputs
from gg_datalog.diagnosis.sites.ranks import RankBreak, rank_breaks
from gg_datalog.diagnosis.sites.reductions import Reduction, open_reductions
from gg_datalog.diagnosis.sites.sums import Uneven, uneven_sums
from gg_datalog.diagnosis.together import Place, Told, of_lines, together
from gg_datalog.result.reasons import PARTS, Reason
from gg_datalog.result.report import Finding

# What explains whatever else breaks behind it.
EXPLAINS = {code for code, page in PAGES.items() if page.explains}
# Findings that there is a break, and no more.
GENERAL = (gg101_chain_break.MISTAKE.code, gg102_rank_break.MISTAKE.code)
COLLECTIVE = gg110_misaligned_collective.MISTAKE.code
UNUSED = gg135_unused_collective.MISTAKE.code


def diagnose(scene: Scene) -> list[Finding]:
    """All findings: causes first, then what is worth knowing."""
    lost = [found for look in UNRETURNED for found in look(scene)]
    opened, other = _attached(_open(scene), _returned(scene))
    back = list(together(other, ALIKE_OUTPUTS, OUTPUTS_IN_WORDS))
    before = [found for look in BEFORE for found in look(scene)]
    astray = {name for f in before if f.code == COLLECTIVE for name in f.dist}
    told = {seq for f in (*back, *lost) for seq in (f.seq, *f.outputs)}
    broken = [f for f in _breaks(scene, opened, told) if not _behind(f, astray)]
    broken.sort(key=_rank)
    causes = [f for f in broken if f.code in EXPLAINS]
    named = {name for f in (*before, *causes, *back, *broken) for name in f.dist}
    after = [f for look in AFTER for f in look(scene) if not _repeats(f, named)]
    first_of_all = [*before, *(f for f in lost if f.certain)]
    back += [f for f in lost if not f.certain]
    found = [*first_of_all, *causes, *back, *broken[len(causes) :], *after]
    return finished(scene, list(dict.fromkeys(found)))


def _returned(scene: Scene) -> list[Told[Output]]:
    """Outputs that come back in a form that is not right, and what is found of each."""
    return _told(scene, [(place, first(AT_OUTPUT, place)) for place in outputs(scene)])


def _attached(
    opened: Sequence[Told[Reduction]], back: Sequence[Told[Output]]
) -> tuple[list[Told[Reduction]], list[Told[Output]]]:
    """The open reductions, with the outputs that come back as parts of them, and the others."""
    spoiled: dict[int, list[str]] = {}
    other = []
    for output, found in back:
        causes = [i for i, (place, one) in enumerate(opened) if _same(place, one, output, found)]
        for i in causes:
            spoiled.setdefault(i, []).append(output.seq)
        if not causes:
            other.append((output, found))
    with_outputs = [
        (place, replace(one, outputs=tuple(dict.fromkeys([*one.outputs, *spoiled.get(i, ())]))))
        for i, (place, one) in enumerate(opened)
    ]
    return with_outputs, other


def _same(place: Reduction, one: Finding, output: Output, found: Finding) -> bool:
    """Does an output come back as the very part that is found to be used without a reduction?"""
    alike = (one.code, one.certain) == (found.code, found.certain)
    return alike and output.is_part and output.base == place.origin


def _told(scene: Scene, found: Sequence[tuple[Place, Finding | None]]) -> list[Told[Place]]:
    """The places where something is found, with the lines of that."""
    there = [(place, one) for place, one in found if one is not None]
    lines = located(scene, [one for _, one in there])
    return [(place, one) for (place, _), one in zip(there, lines, strict=True)]


def _repeats(found: Finding, named: set[str]) -> bool:
    """Is it an unused collective that another finding speaks of?"""
    return found.code == UNUSED and named.issuperset(found.dist)


def _behind(found: Finding, astray: set[str]) -> bool:
    """Is all that comes close there a collective that does not line up?"""
    return found.code in GENERAL and bool(found.dist) and astray.issuperset(found.dist)


def _rank(found: Finding) -> tuple[bool, bool]:
    """Causes that explain several breaks first, then those that name distributed operators."""
    return found.code not in EXPLAINS, not found.dist


# ---- where chains break ------------------------------------------------------------------------
def _breaks(
    scene: Scene, opened: Sequence[Told[Reduction]], told: set[str | None]
) -> Iterator[Finding]:
    """One finding per cause of chains that break, where reductions stay open first, where rules
    find no term of a sum last; ``told`` outputs are explained already."""
    if not scene.broken:
        return
    yield from together(opened, ALIKE_REDUCTIONS, REDUCTIONS_IN_WORDS)
    origins = {place.origin for place, _ in opened}
    parts = {tensor for tensor, origin in scene.rows(_EXPLAINED) if origin in origins}
    explained = {scene.seq(tensor).node for tensor in parts}
    sums = list(uneven_sums(scene))
    behind = {one.tensor for one in sums if one.follows(parts)}
    told = told | explained | {scene.seq(tensor).node for tensor in behind}
    counted = [one for one in sums if one.of.node not in told]
    told = told | {one.of.node for one in counted}
    yield from _at_sums([one for one in counted if not one.lacks])
    places = [(one, first(AT_BREAK, one)) for one in breaks(scene) if one.of.node not in told]
    found = of_lines(_told(scene, places), lambda one: one.of.target)
    named = {name for _, what in found if what.code not in GENERAL for name in what.dist}
    yield from (what for one, what in found if not _vague(one, what))
    yield from _rank_breaks(scene, explained, _after(scene, named))
    yield from (what for one, what in found if _vague(one, what))
    yield from _at_sums([one for one in counted if one.lacks])


def _vague(place: Break, found: Finding) -> bool:
    """Is all that comes close another operator on the same operands?"""
    return found.code in GENERAL and place.closest.keys() <= {Reason.NO_COUNTERPART}


def _at_sums(sums: Sequence[Uneven]) -> Iterator[Finding]:
    """One finding per sum that counts terms differently."""
    for one in sums:
        if found := first(AT_SUM, one):
            yield found


def _open(scene: Scene) -> list[Told[Reduction]]:
    """Reductions that stay open; of several forms of a tensor each may be."""
    if not scene.broken:
        return []
    places = list(open_reductions(scene))
    told = _told(scene, [(place, first(AT_REDUCTION, place)) for place in places])
    named = {(one.code, one.message): (place, one) for place, one in reversed(told)}
    return list(reversed(named.values()))


def _rank_breaks(scene: Scene, explained: set[str], after: set[str]) -> Iterator[Finding]:
    """Breaks on single ranks that no break of the sequential chain accounts for; of those behind
    what is named already only what has a name of its own."""
    places = [one for one in rank_breaks(scene) if not _explained(one, explained)]
    told = _told(scene, [(one, first(AT_RANK, one)) for one in places])
    for place, found in of_lines(told, lambda one: one.target):
        if not (found.code in GENERAL and after.issuperset(place.dists)):
            yield replace(found, outputs=found.outputs or place.where["outputs"])


def _explained(place: RankBreak, explained: set[str]) -> bool:
    """Is a part at fault that is told already?"""
    return place.near in explained and place.opaque is None and place.reason in PARTS


def _after(scene: Scene, names: set[str]) -> set[str]:
    """The distributed tensors that are computed from these nodes."""
    return {tensor for (tensor,) in scene.rows(_AFTER, sorted(names))} if names else set()


_AFTER = """
    WITH RECURSIVE after(tensor) AS (
        SELECT n.tensor FROM tensor_needs n JOIN graph_node g ON g.side = 'dist'
            AND g.tensor = n.needs AND 'r' || g.rank || '.' || g.name IN (SELECT unnest(?))
        WHERE n.side = 'dist'
        UNION
        SELECT n.tensor FROM after a JOIN tensor_needs n ON n.side = 'dist' AND n.needs = a.tensor
    )
    SELECT tensor FROM after"""

_EXPLAINED = "SELECT DISTINCT seq, origin FROM open_cause"
