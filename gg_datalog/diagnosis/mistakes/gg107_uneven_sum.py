"""GG107: terms of a sum are counted differently on the two sides."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.sums import Uneven, Weighed
from gg_datalog.result.placement import names_text
from gg_datalog.result.reasons import Term
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG107",
    title="terms of a sum are counted differently on the two sides",
    level="error",
    note="""
Both sides add up the same terms, but a term is counted more often, less often or only in part.
Usual causes: a bias that every rank adds before the all-reduce, a mean of means over
micro-batches, a residual that is added twice.""",
    remedy="""
Give each term the same weight on both sides: add the bias after the reduction (or on one rank
only), divide the loss of a micro-batch by their number.""",
    example=Example(
        sequential="""
x: f32[4, 8]
w: f32[8, 6]
b: f32[6]
y = add(mm(x, w), b)
return relu(y)""",
        wrong="""
x: f32[4, 4]
w: f32[4, 6]
b: f32[6]
y = add(mm(x, w), b)
z = all_reduce(y, "sum", "g")
return relu(z)""",
        right="""
x: f32[4, 4]
w: f32[4, 6]
b: f32[6]
y = all_reduce(mm(x, w), "sum", "g")
z = add(y, b)
return relu(z)""",
        says=("`z` on ranks 0-1 comes closest to `y`, but counts `b` 2 times (once each is right)"),
    ),
)


SHOWN = 4


def at_sum(place: Uneven) -> Finding:
    """A sum with other coefficients, or without some terms."""
    scene, seq, names = place.scene, place.of, place.scene.names(place.dists)
    told = [f"`{one.term}` {_often(scene, one)}" for one in place.terms]
    text = (
        f"{names_text(names)} comes closest to `{seq.node}`, but counts "
        f"{' and '.join(told[:SHOWN])}{' and more' if len(told) > SHOWN else ''} (once each is "
        "right)"
    )
    found = [_term(scene, one) for one in place.terms]
    return MISTAKE.finding(
        text,
        seq=seq.node,
        dist=tuple(names),
        trigger=_why(scene, place.dists, [one.base for one in place.terms]),
        effect=f"what is to be `{seq.node}` has {', '.join(found)} in it",
        expected=" + ".join(one.term for one in place.terms),
        found=" + ".join(found),
        outputs=scene.spoiled([place.tensor]),
        certain=all(one.state not in (Term.MISSING, Term.OPEN) for one in place.terms),
    )


def _often(scene: Scene, one: Weighed) -> str:
    if one.state == Term.MISSING:
        return "not at all that a rule finds"
    if one.state == Term.OPEN:
        return "only in part"
    return f"{scene.records.coefficient(one.times).text} times"


def _term(scene: Scene, one: Weighed) -> str:
    if one.state == Term.OPEN:
        return f"part of {one.term}"
    missing = one.state == Term.MISSING
    times = "0" if missing else scene.records.coefficient(one.times).text
    return f"{times} x {one.term}"


def _why(scene: Scene, dists: Sequence[str], terms: Sequence[str]) -> str:
    """What the terms of the sum on the ranks hold of the terms that are counted wrongly."""
    added = [of for (of,) in scene.rows(_ADDED, list(dists))]
    shown = []
    for term in terms:
        held = scene.held(added, term)
        words = scene.relation(term, held) if held else None
        if words:
            shown.append(f"{names_text(scene.names(h.dist for h in held))} is {words}")
    told = "; ".join(shown[:SHOWN])
    return f"it adds up: {told}" if shown else "terms are counted differently"


_ADDED = """
    SELECT DISTINCT t."of" FROM dist_sum s JOIN term_of t ON t."by" = s."by"
    WHERE s.gives IN (SELECT unnest(?)) ORDER BY ALL"""
