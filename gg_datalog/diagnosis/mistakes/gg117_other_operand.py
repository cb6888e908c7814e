"""GG117: an operator takes another tensor."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.breaks import Break, operand_pairs, unmatched
from gg_datalog.result.placement import names_text, some, span
from gg_datalog.result.reasons import Reason
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG117",
    title="an operator takes another tensor",
    level="error",
    note="""
The same operator, but one of its operands is another tensor than in the sequential program: a
wrong weight, a tensor from before an update, operands the wrong way round.""",
    remedy="""
Compare the operands at the two lines.""",
    example=Example(
        sequential="""
x: f32[4, 8]
a: f32[8, 8]
b: f32[8, 8]
h = mm(x, a)
return mm(h, b)""",
        wrong="""
x: f32[4, 8]
a: f32[8, 8]
b: f32[8, 8]
h = mm(x, a)
return mm(h, a)""",
        right="""
x: f32[4, 8]
a: f32[8, 8]
b: f32[8, 8]
h = mm(x, a)
return mm(h, b)""",
        says=(
            "`out` on ranks 0-1 (aten.mm.default) takes `a` where the sequential `out` takes `b`"
        ),
    ),
)


def at_break(place: Break) -> Finding | None:
    """The same operator on another tensor, or on the same ones the other way round. What nothing is
    known of is no other tensor."""
    dists = place.at(Reason.OPERAND)
    for dist in dists:
        found = _another(place, dist, dists) or _crossed(place, dist)
        if found is not None:
            return found
    return None


def _another(place: Break, dist: str, dists: Sequence[str]) -> Finding | None:
    """Other tensors are taken than sequentially; all that take them are named."""
    scene = place.scene
    mine, theirs = unmatched(operand_pairs(place, dist))
    if not mine or not theirs or not all(scene.held([tensor]) for tensor in theirs):
        return None
    same = [d for d in dists if unmatched(operand_pairs(place, d))[0] == mine]
    return _taken(place, same, theirs, mine)


def _crossed(place: Break, dist: str) -> Finding | None:
    """The same tensors are taken, at each other's places."""
    pairs = operand_pairs(place, dist)
    crossed = [(x, y) for x, y, match, same in pairs if same and not match]
    mine, _ = unmatched(pairs)
    if mine or len(crossed) <= 1:
        return None
    more = f" (`{place.of.node}` takes its operands the other way round)"
    return _taken(place, [dist], [y for _, y in crossed], [x for x, _ in crossed], more)


def _taken(
    place: Break, dists: Sequence[str], theirs: Sequence[str], mine: Sequence[str], more: str = ""
) -> Finding:
    scene, of, names = place.scene, place.of, place.scene.names(dists)
    taken = some([_held_as(scene, tensor) for tensor in theirs])
    right = some([f"`{scene.seq(tensor).node}`" for tensor in mine])
    return MISTAKE.finding(
        f"{names_text(names)} ({of.target}) takes {taken} where the sequential `{of.node}` takes "
        f"{right}{more}",
        seq=of.node,
        dist=tuple(names),
        trigger=f"{taken} is not shown to be {right}",
        effect=f"what is to be `{of.node}` is computed from other tensors",
        expected=f"{of.target} of {right}",
        found=f"{of.target} of {taken}",
        outputs=place.outputs,
    )


def _held_as(scene: Scene, dist: str) -> str:
    """A distributed tensor, and what it is on the sequential side, where it has another name."""
    (thing,) = scene.things("dist", [dist])
    held = [h for h in scene.held([dist]) if h.plain]
    if not held:
        return f"`{thing.node}`"
    of, box = scene.seq(held[0].seq), scene.box(held[0])
    cut = [d for d, e in enumerate(of.shape) if box is not None and box[d] != (0, e)]
    if box is not None and cut:
        told = ", ".join(f"{span(*box[d])} of dim {d}" for d in cut)
        return f"`{thing.node}` (which is {told} of `{of.node}`)"
    return f"`{thing.node}`" if of.node == thing.node else f"`{thing.node}` (which is `{of.node}`)"
