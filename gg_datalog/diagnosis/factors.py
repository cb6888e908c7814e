"""Findings about numbers that multiply: where a factor comes in, and what is counted too often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gg_datalog.diagnosis.causes import finding
from gg_datalog.diagnosis.parts import linear
from gg_datalog.diagnosis.scene import ONE, Held, Scene
from gg_datalog.result.findings import Kind
from gg_datalog.result.placement import names_text, numbers_text, ranks_text
from gg_datalog.result.report import Finding
from gg_datalog.result.terms import coefficient_text

STEPS = 100


@dataclass(frozen=True)
class Factor:
    """Nodes ``names`` multiply what ``dist`` has of ``seq``: it is ``times`` of it, not ``right``.
    ``terms`` are what they add up, where they are a reduction over ranks."""

    dist: str
    seq: str
    times: str
    names: tuple[str, ...]
    target: str
    right: str = ONE
    terms: tuple[str, ...] = field(default=())


def used_factor(
    scene: Scene, seq: str, blocked: Sequence[tuple[str, str | None, str | None]]
) -> Finding | None:
    """What is multiplied at a break: the nodes that bring the factor in."""
    found = [
        f for _, dist, operand in blocked if dist and (f := _factor(scene, seq, dist, operand))
    ]
    if not found:
        return None
    dists = [dist for _, dist, _ in blocked if dist]
    certain = not linear(scene, dists, [factor.dist for factor in found])
    twice = counted_twice(scene, found[0], scene.spoiled([seq]))
    return replace(twice, certain=certain) if twice else _used(scene, seq, found, certain)


def _used(scene: Scene, seq: str, found: Sequence[Factor], certain: bool) -> Finding:
    first, of = found[0], scene.seq(found[0].seq)
    names = [n for f in found if f.seq == first.seq and f.times == first.times for n in f.names]
    told, right = coefficient_text(first.times), coefficient_text(first.right)
    user = scene.seq(seq)
    text = (
        f"{names_text(dict.fromkeys(names))} ({first.target}): {told} times `{of.node}` goes into "
        f"what is to give `{user.node}` ({user.target})"
    )
    text += f", {right} times is right" if certain else ": no rule shows what comes of it"
    return finding(
        Kind.USED_FACTOR,
        text,
        seq=user.node,
        dist=tuple(dict.fromkeys(names)),
        trigger=f"the factor {told} comes in at {first.target}; the sequential program has {right}",
        effect=f"`{user.node}` is computed from {told} times `{of.node}`",
        expected=f"{'' if right == '1' else right + ' x '}{of.node}",
        found=f"{'' if told == '1' else told + ' x '}{of.node}",
        outputs=scene.spoiled([seq]),
        certain=certain,
    )


def counted_twice(scene: Scene, factor: Factor, outputs: Sequence[str]) -> Finding | None:
    """A reduction over ranks of what they have whole, or of parts that several of them have."""
    times, of = coefficient_text(factor.times), scene.seq(factor.seq)
    if not factor.terms or factor.times == ONE:
        return None
    held = scene.held(factor.terms, factor.seq)
    whole = {h.dist for h in held if h.parts == "nil" and h.times == ONE}
    parts = Counter(h.parts for d in factor.terms for h in held if h.dist == d and h.parts != "nil")
    ranks = [int(n[1:].partition(".")[0]) for n in factor.names]
    where: dict[str, Any] = {
        "seq": of.node,
        "dist": factor.names,
        "expected": of.node,
        "found": f"{times} x {of.node}",
        "effect": f"everything behind it is computed from {times} times `{of.node}`",
        "outputs": tuple(outputs),
    }
    if whole.issuperset(factor.terms):
        text = (
            f"{names_text(factor.names)} adds up over {ranks_text(ranks)} what each of them has "
            f"whole already: {times} times `{of.node}`"
        )
        trigger = (
            f"every operand of the reduction is all of `{of.node}`: it is reduced once too often"
        )
        return finding(Kind.REDUCED_TWICE, text, trigger=trigger, **where)
    if parts and min(parts.values()) > 1 and not whole:
        text = (
            f"{names_text(factor.names)} adds up over the wrong group of ranks "
            f"({numbers_text(ranks)}): several of them have the same part of `{of.node}`, so it is "
            f"counted {times} times"
        )
        trigger = f"each part is on {min(parts.values())} ranks of the group"
        return finding(Kind.WRONG_GROUP, text, trigger=trigger, **where)
    return None


def returned_factor(scene: Scene, wants: int, seq: str) -> Factor | None:
    """Where the factor comes from with which an output comes back."""
    sql = 'SELECT DISTINCT r."of", r.times FROM returned r WHERE wants = ? ORDER BY ALL'
    for dist, times in scene.rows(sql, wants):
        viewed = _viewed(scene, dist, times)
        if viewed is not None:
            names, target, value = viewed
            terms = scene.sums.get(dist, []) if dist in scene.sums else []
            return Factor(dist, seq, value, names, target, ONE, _again(scene, dist, target, terms))
        held = _multiplied(scene, dist)
        if held is not None:
            return _traced(scene, held)
    return None


# ---- where it comes from ---------------------------------------------------------------------
def _factor(scene: Scene, seq: str, dist: str, operand: str | None) -> Factor | None:
    """The factor that makes the distributed tensor another than sequential one ``seq``."""
    for mine, theirs, of, value, right in scene.rows(_OPERANDS, seq, dist):
        viewed = _viewed(scene, of, value)
        if viewed is not None and theirs:
            names, target, times = viewed
            terms = _again(scene, of, target, scene.sums.get(of, []))
            return Factor(of, mine, times, names, target, _coefficient(scene, right), terms)
    held = _multiplied(scene, operand or dist)
    return None if held is None else _traced(scene, held)


def _again(scene: Scene, dist: str, target: str, terms: Sequence[str]) -> tuple[str, ...]:
    """A tensor that a reduction multiplies has been the same on all ranks before it."""
    return (dist,) if scene.kinds.get(dist) and "reduce" in target and terms else ()


def _viewed(scene: Scene, dist: str, times: str) -> tuple[tuple[str, ...], str, str] | None:
    """The nodes that are ``times`` times a tensor, and the coefficient."""
    if times == "1":
        return None
    found = scene.rows(_VIEWED, dist, times)
    if not found:
        return None
    first = found[0]
    names = tuple(f"r{rank}.{name}" for name, rank, *_ in found if name == first[0])
    return names, first[2], _coefficient(scene, times)


def _coefficient(scene: Scene, times: str) -> str:
    sql = "SELECT num, den, over, under FROM scale_of WHERE id = ?"
    found = scene.rows(sql, times)
    return "[{}, {}, {}, {}]".format(*found[0]) if found else ONE


def _multiplied(scene: Scene, dist: str) -> Held | None:
    """What a tensor holds with another coefficient than 1, where that is all that it holds."""
    held = scene.held([dist])
    if not held or any(h.times == ONE for h in held):
        return None
    return min(held, key=lambda h: h.parts != "nil")


def _traced(scene: Scene, held: Held) -> Factor:
    """Back to where the coefficient comes in."""
    for _ in range(STEPS):
        needs = scene.rows(
            "SELECT DISTINCT needs FROM tensor_needs WHERE side = 'dist' AND tensor = ?", held.dist
        )
        before = [h for (n,) in needs if (h := _multiplied(scene, n))]
        if not before or held.dist in scene.sums:
            break
        held = before[0]
    (thing,) = scene.things("dist", [held.dist])
    terms = tuple(scene.sums.get(held.dist, ()))
    names, target = tuple(thing.names), thing.target
    for of, value in scene.rows(_SCALED, held.dist):
        viewed = _viewed(scene, of, value)
        if viewed is not None:
            names, target, _ = viewed
    return Factor(held.dist, held.seq, held.times, names, target, ONE, terms)


_OPERANDS = """
    SELECT x."of", EXISTS (SELECT 1 FROM holds h WHERE h.seq = x."of" AND h.dist = y."of"),
           y."of", y.times, x.times
    FROM result_of s JOIN result_of d ON s.gives = ? AND d.gives = ?
    JOIN operand_of x ON x."by" = s."by" JOIN operand_of y ON y."by" = d."by" AND y.place = x.place
    WHERE x.times <> y.times ORDER BY x.place"""

_VIEWED = """
    SELECT name, rank, target FROM graph_node
    WHERE side = 'dist' AND tensor = ? AND times = ? ORDER BY position, rank"""

_SCALED = """
    SELECT o."of", o.times FROM result_of r JOIN operand_of o ON o."by" = r."by"
    WHERE r.gives = ? AND o.times <> '1' ORDER BY o.place"""


# ---- sums ------------------------------------------------------------------------------------
def sums(scene: Scene) -> list[Finding]:
    """Sums that the ranks have, too, but with other coefficients or without some terms."""
    return [_sum(scene, *row) for row in scene.rows(_SUMS)]


def _sum(scene: Scene, tensor: str, dists: Sequence[str], terms: Sequence[Any]) -> Finding:
    seq, names = scene.seq(tensor), scene.names(dists)
    told = [f"`{term}` {_often(state, times)}" for term, _, state, times in terms]
    text = (
        f"{names_text(names)} comes closest to `{seq.node}`, but counts {' and '.join(told[:4])}"
        f"{' and more' if len(told) > 4 else ''} (once each is right)"
    )
    found = [_term(term, state, times) for term, _, state, times in terms]
    return finding(
        Kind.SUM_RATIO,
        text,
        seq=seq.node,
        dist=tuple(names),
        trigger=_why(scene, dists, [base for _, base, _, _ in terms]),
        effect=f"what is to be `{seq.node}` has {', '.join(found)} in it",
        expected=" + ".join(term for term, *_ in terms),
        found=" + ".join(found),
        outputs=scene.spoiled([tensor]),
        certain=all(state not in ("missing", "open") for _, _, state, _ in terms),
    )


def _often(state: str, times: str) -> str:
    return {"missing": "not at all that a rule finds", "open": "only in part"}.get(
        state, f"{coefficient_text(times)} times"
    )


def _term(term: str, state: str, times: str) -> str:
    if state == "open":
        return f"part of {term}"
    return f"{'0' if state == 'missing' else coefficient_text(times)} x {term}"


def _why(scene: Scene, dists: Sequence[str], terms: Sequence[str]) -> str:
    """What the terms of the sum on the ranks hold of the terms that are counted wrongly."""
    added = [of for (of,) in scene.rows(_ADDED, list(dists))]
    shown = []
    for term in terms:
        held = scene.held(added, term)
        words = scene.relation(term, held) if held else None
        if words:
            shown.append(f"{names_text(scene.names(h.dist for h in held))} is {words}")
    return "it adds up: " + "; ".join(shown[:4]) if shown else "terms are counted differently"


_ADDED = """
    SELECT DISTINCT t."of" FROM dist_sum s JOIN term_of t ON t."by" = s."by"
    WHERE s.gives IN (SELECT unnest(?)) ORDER BY ALL"""

_SUMS = """
    SELECT seq, list(dist ORDER BY dist), any_value(terms)
    FROM (
        SELECT d.seq, s.gives AS dist,
               list((d.term, d.base, d.state, d.times) ORDER BY d.term) AS terms
        FROM sum_difference d JOIN dist_sum s ON s."by" = d.by
        WHERE d.seq IN (SELECT tensor FROM seq_chain WHERE first)
        GROUP BY d.seq, s.gives
    )
    GROUP BY seq, terms::VARCHAR ORDER BY seq"""
