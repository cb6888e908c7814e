"""Findings about outputs that come back in another form, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gg_datalog.diagnosis.causes import finding
from gg_datalog.diagnosis.differences import returned_instead
from gg_datalog.diagnosis.factors import Factor, counted_twice, returned_factor
from gg_datalog.diagnosis.parts import GRADIENT, coverage
from gg_datalog.diagnosis.scene import Held, Scene
from gg_datalog.result.findings import Kind
from gg_datalog.result.placement import names_text, spans_text
from gg_datalog.result.report import Finding
from gg_datalog.result.terms import coefficient_text, coefficient_value


def returned(scene: Scene) -> Iterator[Finding]:
    """One finding per output and form in which it comes back, where that is not right."""
    for wants, seq, name, state, times, dist, broken, all_right in scene.rows(_RETURNED):
        where: dict[str, Any] = {"seq": seq, "dist": tuple(dist), "outputs": (seq,)}
        if state == "coefficient":
            yield _coefficient(scene, wants, seq, times, where)
        elif state == "part":
            yield _part(scene, wants, seq, name, where)
        elif not broken and (found := _piece(scene, wants, seq, state, all_right, where)):
            yield found
    yield from _nothing(scene)


def _nothing(scene: Scene) -> Iterator[Finding]:
    """Outputs for which no rank returns anything. Gradients are freed by a step that is captured
    with them: what it makes of them is returned."""
    stepped = bool(scene.rows(_UPDATED))
    for seq, name in scene.rows(_NOT_RETURNED):
        text = f"no rank returns anything for `{seq}`"
        certain = not (stepped and name.startswith("grad_"))
        yield finding(Kind.NOT_COVERED, text, seq=seq, outputs=(seq,), certain=certain)


NEAR = 1e-6  # what rounding alone makes of 1


def _coefficient(scene: Scene, wants: int, seq: str, times: str, where: dict[str, Any]) -> Finding:
    told, factor = coefficient_text(times), returned_factor(scene, wants, _base(scene, wants))
    twice = None if factor is None else counted_twice(scene, factor, [seq])
    if twice is not None:
        return twice
    trigger = None if factor is None else _brings(scene, factor)
    return finding(
        Kind.OTHER_COEFFICIENT,
        f"{names_text(where['dist'])}, returned for `{seq}`, is {told} times `{seq}`",
        trigger=trigger,
        effect=f"whoever reads `{seq}` gets {told} times of it",
        expected=seq,
        found=f"{told} x {seq}",
        certain=abs(coefficient_value(times) - 1) > NEAR,
        **where,
    )


def _brings(scene: Scene, factor: Factor) -> str:
    """Where the factor comes from."""
    held = [h for h in scene.held(factor.terms, factor.seq) if h.parts != "nil"]
    words = scene.relation(factor.seq, held) if held else None
    if words is not None:
        return f"{names_text(factor.names)} ({factor.target}) adds up {words}"
    return f"the factor comes in at {names_text(factor.names)} ({factor.target})"


def _part(scene: Scene, wants: int, seq: str, name: str, where: dict[str, Any]) -> Finding:
    base = _base(scene, wants)
    held = [h for h in _held(scene, wants) if h.parts != "nil"]
    relation = scene.relation(base, held)
    trigger = f"nothing adds up {relation}" if relation else "no reduction over the ranks follows"
    more = {"trigger": trigger, "expected": scene.seq(base).node, "found": relation, **where}
    if name.startswith(GRADIENT):
        text = (
            f"{names_text(where['dist'])}: gradient `{name}` comes back as what each rank's own "
            "share gives to it: it is not added up over the ranks"
        )
        effect = "every rank goes on with another gradient, and the replicas drift apart"
        return finding(Kind.GRADIENT, text, effect=effect, **more)
    text = (
        f"{names_text(where['dist'])}: each rank returns only its part of `{seq}`: the reduction "
        "over the ranks is missing"
    )
    return finding(Kind.OPEN_REDUCTION, text, effect="every rank returns too little", **more)


def _piece(
    scene: Scene, wants: int, seq: str, state: str, all_right: bool, where: dict[str, Any]
) -> Finding | None:
    names = names_text(where["dist"])
    if state == "nothing":
        other = returned_instead(scene, wants)
        text = f"no rule relates {names}, returned for `{seq}`, to it"
        if other is not None:
            text = f"{names}, returned for `{seq}`, is `{other}`"
        return finding(Kind.NOT_RELATED, text, expected=seq, found=other, **where)
    if state == "piece":
        text = f"{names}: only some of what is returned for `{seq}` is shown to belong to it"
        return finding(Kind.NOT_COVERED, text, **where)
    if not all_right:
        return None
    base = _base(scene, wants)
    held = [h for h in _held(scene, wants) if h.parts == "nil"]
    problem = _left_out(scene, base, held)
    text = f"{names}: the pieces of `{seq}` that are returned do not make up all of it{problem}"
    relation = scene.relation(base, held)
    more = {"expected": seq, "found": relation, "certain": True}
    return finding(Kind.NOT_COVERED, text, **more, **where)


def _left_out(scene: Scene, base: str, held: Sequence[Held]) -> str:
    """Which range of an output is returned by no rank."""
    shape = scene.seq(base).shape
    boxes = [b for h in held if (b := scene.box(h)) is not None]
    differ = [d for d, e in enumerate(shape) if any(b[d] != (0, e) for b in boxes)]
    if len(differ) != 1:
        return ""
    (dim,) = differ
    spans = list(dict.fromkeys(b[dim] for b in boxes))
    return f": {spans_text(spans)} of dim {dim}, {coverage(spans, shape[dim])}"


def _base(scene: Scene, wants: int) -> str:
    ((base,),) = scene.rows('SELECT "of" FROM wanted WHERE wants = ?', wants)
    return str(base)


def _held(scene: Scene, wants: int) -> list[Held]:
    dists = [d for (d,) in scene.rows('SELECT DISTINCT "of" FROM returned WHERE wants = ?', wants)]
    return scene.held(dists, _base(scene, wants))


_RETURNED = """
    SELECT o.wants, o.seq, n.name, s.state, s.times, list(s.dist ORDER BY s.rank),
           o.wants IN (SELECT wants FROM chain_break WHERE telling),
           bool_and(s.state = 'right') OVER (PARTITION BY o.wants)
    FROM output_status o JOIN returned_state s USING (wants)
    JOIN output_name n ON n.wants = o.wants
    WHERE o.status <> 'mapped' AND o.wants NOT IN (SELECT wants FROM output_mapped)
    GROUP BY o.wants, o.seq, n.name, s.state, s.times ORDER BY o.wants, s.state, s.times"""

_NOT_RETURNED = """
    SELECT seq, name FROM output_name WHERE wants NOT IN (SELECT wants FROM returned_name)
    ORDER BY wants"""

_UPDATED = "SELECT 1 FROM output_name WHERE starts_with(name, 'updated_') LIMIT 1"
