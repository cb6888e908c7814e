"""Findings about where a chain breaks, and what comes closest there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gg_datalog.diagnosis.causes import finding
from gg_datalog.diagnosis.differences import (
    left_out,
    other_attribute,
    other_mask,
    other_operand,
    stale,
    unwritten,
)
from gg_datalog.diagnosis.factors import sums, used_factor
from gg_datalog.diagnosis.parts import open_causes
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.shards import (
    input_gap,
    misplaced,
    operand_ranges,
    operands_of,
    shard_too_small,
    wrong_range,
)
from gg_datalog.result.findings import Kind
from gg_datalog.result.placement import names_text
from gg_datalog.result.report import Finding

Blocked = tuple[str, str | None, str | None]  # reason, distributed tensor, operand at fault

# What `blocked` gives as reason, in a sentence about distributed operators (and their operands).
SENTENCE = {
    "operand is a part of a reduction": "an operand of {dist} is only a part of a reduction: "
    "{operand}",
    "result is a part of a reduction": "only a part of a reduction is in {dist}",
    "other coefficient": "another coefficient is in {dist}",
    "different operand": "no rule shows that the same operands go into {dist}",
    "different range": "no rule shows that the same range is covered by {dist}",
    "different mask": "rows of a shard are masked by {dist}",
    "different attribute": "other attributes has {dist}",
    "unsupported operator": "no rule describes {dist}",
    "no counterpart": "another operator on the same operands is {dist}",
}
BEYOND = {"unsupported operator": Kind.UNSUPPORTED, "opaque input": Kind.OPAQUE}


def chain_breaks(scene: Scene, told: set[str | None]) -> Iterator[Finding]:
    """One finding per tensor at which a chain breaks; ``told`` outputs are explained already."""
    causes = list(open_causes(scene))
    yield from causes
    origins = {found.seq for found in causes}
    explained = {node for node, origin in scene.rows(_EXPLAINED) if origin in origins}
    told = told | explained
    counted = [found for found in sums(scene) if found.seq not in told]
    yield from counted
    told |= {found.seq for found in counted}
    for seq, node, target, opaque, detail in scene.rows(_SEQ):
        if node not in told:
            yield _seq_break(scene, seq, node, target, opaque, detail)
            told = told | {node}
    yield from _rank_breaks(scene, explained)


def _rank_breaks(scene: Scene, explained: set[str | None]) -> Iterator[Finding]:
    """Breaks on single ranks that no break of the sequential chain accounts for."""
    for dists, seq, near, opaque, detail, reason, operand in scene.rows(_DIST):
        names = tuple(scene.names(dists))
        where: dict[str, Any] = {"seq": near, "dist": names}
        where["outputs"] = tuple(dict.fromkeys(scene.outputs[w] for w in _wants(scene, dists)))
        if near in explained and opaque is None and "part of a reduction" in (reason or ""):
            continue
        if opaque is not None:
            text = f"{names_text(names)} stands in the way: {detail}"
            yield finding(BEYOND[opaque], text, **where)
        elif near is not None:
            blocked = [(reason, dist, operand[0] if operand else None) for dist in dists]
            found = _specific(scene, seq, blocked)
            if found is not None:
                yield replace(found, outputs=found.outputs or where["outputs"])
                continue
            told = names_text(scene.names(operand))
            why = SENTENCE[reason].format(dist=names_text(names), operand=told)
            text = f"no rule shows that {names_text(names)} gives what `{near}` gives: {why}"
            yield finding(Kind.RANK_BREAKS, text, **where)


def _wants(scene: Scene, dists: Sequence[str]) -> list[int]:
    sql = "SELECT DISTINCT wants FROM chain_break WHERE dist IN (SELECT unnest(?)) ORDER BY wants"
    return [wants for (wants,) in scene.rows(sql, list(dists))]


_EXPLAINED = """
    SELECT DISTINCT t.node, o.node FROM open_cause c
    JOIN tensor_node t ON t.side = 'seq' AND t.tensor = c.seq
    JOIN tensor_node o ON o.side = 'seq' AND o.tensor = c.origin"""

_SEQ = """
    SELECT DISTINCT c.tensor, t.node, t.target, o.reason, o.detail
    FROM seq_chain c JOIN tensor_node t ON t.side = 'seq' AND t.tensor = c.tensor
    LEFT JOIN tensor_opaque o ON o.side = 'seq' AND o.tensor = c.tensor
    WHERE c.first ORDER BY c.tensor"""

_DIST = """
    WITH broken AS (
        SELECT DISTINCT b.dist, b.seq FROM chain_break b
        WHERE b.rank IS NOT NULL AND b.telling
          AND coalesce(b.seq NOT IN (SELECT tensor FROM seq_chain WHERE first), true)
    )
    SELECT list(DISTINCT b.dist ORDER BY b.dist), b.seq, s.node, o.reason, o.detail, k.reason,
           coalesce(list(DISTINCT k.operand ORDER BY k.operand)
                    FILTER (k.operand IS NOT NULL), [])
    FROM broken b
    LEFT JOIN tensor_node s ON s.side = 'seq' AND s.tensor = b.seq
    LEFT JOIN tensor_opaque o ON o.side = 'dist' AND o.tensor = b.dist
    LEFT JOIN blocked k ON k.seq = b.seq AND k.dist = b.dist
    GROUP BY b.seq, s.node, o.reason, o.detail, k.reason ORDER BY s.node, o.detail, k.reason"""

_BLOCKED = "SELECT reason, dist, operand FROM blocked WHERE seq = ? ORDER BY ALL"

_NEEDS = "SELECT 1 FROM tensor_needs WHERE side = 'seq' AND tensor = ? LIMIT 1"

_RANKS = """
    SELECT DISTINCT dist FROM chain_break
    WHERE dist IS NOT NULL AND NOT helper AND wants IN (SELECT wants FROM chain_break WHERE seq = ?)
    ORDER BY dist"""


_RETURNED = """
    SELECT DISTINCT "of" FROM returned
    WHERE wants IN (SELECT wants FROM chain_break WHERE seq = ?) ORDER BY ALL"""


def _seq_break(
    scene: Scene, seq: str, node: str, target: str, opaque: str | None, detail: str | None
) -> Finding:
    where: dict[str, Any] = {"seq": node, "outputs": scene.spoiled([seq])}
    if opaque is not None:
        text = f"`{node}` ({target}) stands in the way: {detail}"
        return finding(BEYOND[opaque], text, **where)
    blocked: list[Blocked] = scene.rows(_BLOCKED, seq)
    dists = list(dict.fromkeys(dist for _, dist, _ in blocked if dist))
    if not scene.rows(_NEEDS, seq):
        return input_gap(scene, seq, dists)
    return _specific(scene, seq, blocked) or _general(scene, seq, blocked, where)


def _specific(scene: Scene, seq: str, blocked: Sequence[Blocked]) -> Finding | None:
    """What is wrong at a break, where it is one of the mistakes that have a name."""
    reasons: dict[str, list[tuple[str, str | None]]] = {}
    for reason, dist, operand in blocked:
        if dist is not None:
            reasons.setdefault(reason, []).append((dist, operand))
    dists = list(dict.fromkeys(d for found in reasons.values() for d, _ in found))
    ranged = [d for d, _ in reasons.get("different range", ())]
    attributed = [d for d, _ in reasons.get("different attribute", ())]
    operated = [d for d, _ in reasons.get("different operand", ())]
    broken = [d for (d,) in scene.rows(_RANKS, seq)]
    return (
        unwritten(scene, seq, dists or [d for (d,) in scene.rows(_RETURNED, seq)])
        or (used_factor(scene, seq, blocked) if "other coefficient" in reasons else None)
        or misplaced(scene, seq, [*dists, *broken])
        or other_mask(scene, seq, blocked)
        or shard_too_small(scene, seq, ranged)
        or operand_ranges(scene, seq, ranged)
        or other_attribute(scene, seq, [*attributed, *ranged])
        or (wrong_range(scene, seq, ranged) if ranged else None)
        or other_operand(scene, seq, operated)
        or misplaced(scene, seq, operands_of(scene, ranged))
        or left_out(scene, seq, [d for d, _ in reasons.get("no counterpart", ())])
        or (None if dists else stale(scene, seq))
    )


def _general(scene: Scene, seq: str, blocked: Sequence[Blocked], where: dict[str, Any]) -> Finding:
    """What comes closest at a break."""
    of = scene.seq(seq)
    closest: dict[str, tuple[list[str], list[str]]] = {}
    for reason, dist, operand in blocked:
        dists, operands = closest.setdefault(reason, ([], []))
        dists += [dist] if dist else []
        operands += [operand] if operand else []
    if len(closest) > 1:
        closest.pop("no counterpart", None)
    told = [
        SENTENCE[reason].format(
            dist=names_text(scene.names(dists)), operand=names_text(scene.names(operands))
        )
        for reason, (dists, operands) in closest.items()
        if dists
    ]
    why = "; ".join(told) or "no operator of theirs comes close"
    text = (
        f"no equivalent of `{of.node}` ({of.target}) is found on the ranks, though its operands "
        f"are there: {why}"
    )
    unsupported = list(closest) == ["unsupported operator"]
    near = scene.names(d for dists, _ in closest.values() for d in dists)
    kind = Kind.UNSUPPORTED if unsupported else Kind.CHAIN_BREAKS
    found = None if unsupported else _computed(scene, closest)
    expected = f"{of.target} of what {of.node} takes"
    return finding(kind, text, **where, dist=tuple(near), expected=expected, found=found)


def _computed(scene: Scene, closest: dict[str, tuple[list[str], list[str]]]) -> str | None:
    """What the ranks compute there."""
    things = scene.things("dist", [d for dists, _ in closest.values() for d in dists])
    return ", ".join(dict.fromkeys(thing.target for thing in things)) or None
