"""GG112: a slice takes the wrong range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene, Thing
from gg_datalog.diagnosis.sites.breaks import Break, operand_pairs, operands_of, unmatched
from gg_datalog.diagnosis.sites.concatenations import Concatenation
from gg_datalog.diagnosis.sites.ranges import Range, complete, coverage, covered
from gg_datalog.diagnosis.sites.reductions import Reduction
from gg_datalog.diagnosis.sites.slices import DEPTH, Slice, cut, reach, strayed
from gg_datalog.result.placement import names_text, some, span, spans_text
from gg_datalog.result.reasons import Reason
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG112",
    title="a slice takes the wrong range",
    level="error",
    note="""
The ranges that the ranks take of a dimension overlap, leave something out, or begin elsewhere
than in the sequential program. Off-by-one offsets and sizes rounded down are the usual cause.""",
    remedy="""
Compute offset and size from the rank in one place: `rank * size // ranks` to `(rank + 1) *
size // ranks`.""",
    example=Example(
        sequential="""
x: f32[8, 6]
h = relu(x)
return tanh(h)""",
        wrong="""
x: f32[8, 6]
s = slice(x, 0, 3 * rank, 3 * rank + 4)
h = relu(s)
y = all_gather_into_tensor(h, 2, "g")
return tanh(y)""",
        right="""
x: f32[8, 6]
s = slice(x, 0, 4 * rank, 4 * rank + 4)
h = relu(s)
y = all_gather_into_tensor(h, 2, "g")
return tanh(y)""",
        says=(
            "`y` on ranks 0-1 (_c10d_functional.all_gather_into_tensor.default) puts "
            "ranges of dim 0 of `h` together that are not all of it once: 0:4 (rank 0), "
            "3:7 (rank 1): 7:8 of 8 is missing and 3:4 is there twice"
        ),
    ),
    certain=True,
    explains=True,
)


# ---- parts of a reduction ------------------------------------------------------------------------
def at_reduction(reduction: Reduction) -> Finding | None:
    """Parts that overlap or leave something out."""
    if not reduction.gaps:
        return None
    first = reduction.parts[0][1]
    shown = some([f"{span(p.lo, p.hi)} on rank {rank}" for rank, p in reduction.parts])
    problem = coverage(reduction.spans, first.extent)
    sums = reduction.scene.sums
    summed = {term for user in reduction.users for term in sums.get(user, ())}
    certain = bool(summed) and summed <= {h.dist for h in reduction.rows}
    wrong = "the wrong ranges" if certain else "ranges"
    text = f"{reduction.named(reduction.opened)} add up {wrong} of {first.along}: {shown}: "
    text += problem if certain else f"{problem}, as far as rules show"
    effect = f"`{reduction.of.node}` is never added up completely"
    trigger = f"ranges of {first.along} ({first.extent}) on the ranks: {shown}"
    where = reduction.where(reduction.opened, reduction.rows, trigger=trigger, effect=effect)
    return MISTAKE.finding(text, certain=certain, **where)


# ---- members of a concatenation ------------------------------------------------------------------
def at_concatenation(joined: Concatenation) -> Finding | None:
    """The members overlap, or leave something out."""
    if joined.whole:
        return None
    node, dim, extent = joined.of.node, joined.dim, joined.extent
    text = (
        f"{names_text(joined.names)} ({joined.target}) puts ranges of dim {dim} of `{node}` "
        f"together that are not all of it once: {joined.told}: {coverage(joined.spans, extent)}"
    )
    return MISTAKE.finding(
        text,
        trigger=f"the operands are {spans_text(joined.spans)} of dim {dim} ({extent})",
        effect=f"`{node}` is not there as a whole",
        certain=False,
        **joined.where,
    )


# ---- slices --------------------------------------------------------------------------------------
def of_slices(place: Break) -> Finding | None:
    """Pieces of the tensor at a break that leave something out: where they were cut."""
    slices = _slices(place.scene, place.ranged) if place.ranged else []
    if not slices:
        return None
    other = _sequential(place, slices)
    spans = list(dict.fromkeys(one.range for one in slices))
    if other is not None:
        return _unlike(place, slices, spans, *other)
    if complete(sorted(spans), slices[0].extent) or len(slices) == 1:
        return None
    left = coverage(spans, slices[0].extent)
    more = f", and no rule shows what takes the rest: {left}"
    expected = f"all of dim {slices[0].dim} ({slices[0].extent}) between the ranks"
    return _cut(place, slices, spans, "cuts", more, expected, False)


def _unlike(
    place: Break, slices: Sequence[Slice], spans: Sequence[Range], node: str, start: int, size: int
) -> Finding:
    """The sequential program cuts another range at ``node``."""
    right = span(start, start + size)
    certain = not covered(start, start + size, spans)  # else it is there, too
    says = "cuts the wrong range:" if certain else "cuts more than one range:"
    more = f", the sequential `{node}` takes {right}"
    return _cut(place, slices, spans, says, more, f"{right} of dim {slices[0].dim}", certain)


def _cut(
    place: Break,
    slices: Sequence[Slice],
    spans: Sequence[Range],
    says: str,
    more: str,
    expected: str,
    certain: bool,
) -> Finding:
    scene, of, first = place.scene, place.of, slices[0]
    names = scene.names([one.gives for one in slices])
    told = some(list(dict.fromkeys(_told(scene, one) for one in slices)))
    return MISTAKE.finding(
        f"{names_text(names)} {says} {told}{more}",
        seq=of.node,
        dist=tuple(names),
        trigger=f"ranges {spans_text(spans)} of {first.extent} are cut",
        effect=f"what is to be `{of.node}` is computed from other elements, or never complete",
        expected=expected,
        found=f"{spans_text(spans)} of dim {first.dim}",
        outputs=place.outputs,
        certain=certain,
    )


def _told(scene: Scene, one: Slice) -> str:
    (thing,) = scene.things("dist", [one.of])
    return f"{span(*one.range)} of dim {_dim(thing, one.dim)} of `{thing.node}`"


def _dim(of: Thing, dim: int) -> int:
    """A dimension of a base tensor as one of its node, which may put the first ones together."""
    at = dim + len(of.shape) - len(of.base)
    return at if 0 <= at < len(of.shape) and of.shape[at] == of.base[dim] else dim


def _slices(scene: Scene, dists: Sequence[str]) -> list[Slice]:
    """The slices that the tensors are computed from, the nearest ones."""
    near = list(dists)
    for _ in range(DEPTH):
        found = cut(scene, "dist", near)
        if found:
            return found
        near = [n for n in operands_of(scene, near) if n not in scene.sums]
        if not near:
            return []
    return []


def _sequential(place: Break, slices: Sequence[Slice]) -> tuple[str, int, int] | None:
    """The sequential slice of the same tensor that goes into the break, if its range differs."""
    given = [one.of for one in slices], [one.extent for one in slices]
    for node, start, size in place.scene.rows(_SEQ_SLICES, place.seq, *given):
        if any((start, size) != (one.start, one.size) for one in slices):
            return node, start, size
    return None


# ---- slices far from a break ---------------------------------------------------------------------
def of_origin(place: Break) -> Finding | None:
    """Operands that hold nothing of what they should: the slice by which they went astray."""
    for dist in place.at(Reason.OPERAND):
        mine, theirs = unmatched(operand_pairs(place, dist))
        found = [
            pair
            for seq in mine
            for of in theirs
            if (pair := strayed(place.scene, seq, of)) is not None
        ]
        if found:
            return _astray(place, *found[0])
    return None


def _astray(place: Break, mine: Slice, theirs: Slice) -> Finding:
    scene, of = place.scene, place.scene.seq(mine.of)
    where = f"of dim {_dim(of, mine.dim)} of `{of.node}`"
    right = f"{span(*mine.range)} {where}"
    alike = _alike(scene, theirs)
    names = scene.names(alike)
    held = [h for h in scene.held(alike, mine.of) if h.whole]
    spans = list(dict.fromkeys(reach(scene, h.block, mine.dim) for h in held))
    told = f"{_told(scene, theirs)}, which is {spans_text(spans)} {where}"
    node = scene.seq(mine.gives).node
    return MISTAKE.finding(
        f"{names_text(names)} cuts the wrong range: {told}: nothing of what the sequential "
        f"`{node}` takes, {right}",
        seq=node,
        dist=tuple(names),
        trigger=f"no position of {right} is in it",
        effect=f"what is computed from it is computed from other elements than those of `{node}`",
        expected=right,
        found=told,
        outputs=place.outputs,
        certain=False,
    )


def _alike(scene: Scene, one: Slice) -> list[str]:
    """The tensors that the same node of any rank gives."""
    (thing,) = scene.things("dist", [one.gives])
    return [tensor for (tensor,) in scene.rows(_SAME_NODE, thing.node)]


# ---- operands ------------------------------------------------------------------------------------
def of_operands(place: Break) -> Finding | None:
    """An operator whose operands have different ranges of the dimension that they share."""
    for dist in place.ranged:
        ranges: dict[int, list[tuple[str, Range]]] = {}
        for label, text, positions in _shared(place, dist):
            ranges.setdefault(label, []).append((text, positions))
        for told in ranges.values():
            if len({positions for _, positions in told}) > 1:
                return _unequal(place, dist, [text for text, _ in told])
    return None


def _shared(place: Break, dist: str) -> Iterator[tuple[int, str, Range]]:
    """The ranges of shared dimensions that operands have: label, text and positions."""
    scene = place.scene
    shared = scene.rows(_SHARED, place.seq, dist)
    digits = Counter((mine, theirs, label) for mine, theirs, _, label, _ in shared)
    for mine, theirs, dim, label, inner in shared:
        if digits[mine, theirs, label] > 1:  # several dimensions are one here
            continue
        of = scene.seq(mine)
        for h in scene.held([theirs], mine):
            box = scene.range_of(h)
            if box is not None and h.whole and len(box) > dim:
                text = f"{span(*box[dim])} of dim {dim} ({of.base[dim]}) of `{of.node}`"
                lo, hi = box[dim]
                if lo % inner == hi % inner == 0:
                    yield label, text, (lo // inner, hi // inner)
                break


def _unequal(place: Break, dist: str, told: Sequence[str]) -> Finding:
    of, names = place.of, place.scene.names([dist])
    return MISTAKE.finding(
        f"{names_text(names)} ({of.target}) pairs different ranges: {' with '.join(told)}",
        seq=of.node,
        dist=tuple(names),
        trigger=f"the operands have other ranges of the dimension they share: {' and '.join(told)}",
        effect=f"what is to be `{of.node}` may combine elements that do not belong together",
        expected="equal ranges",
        found=" with ".join(told),
        outputs=place.outputs,
        certain=False,
    )


_SEQ_SLICES = """
    SELECT b.node, s.start, s.size FROM seq_slice s
    JOIN base_tensor b ON b.side = 'seq' AND b.tensor = s.gives
    JOIN label_of l ON l.shaped = s.shaped AND l.label = s.label
    JOIN (SELECT DISTINCT needs FROM tensor_needs WHERE side = 'seq' AND tensor = ?) n
        ON n.needs = s.gives
    WHERE EXISTS (SELECT 1 FROM holds h WHERE h.seq = s."of" AND h.dist IN (SELECT unnest(?)))
      AND l.extent IN (SELECT unnest(?))
    ORDER BY ALL"""

# Where a label lies in the operands of both operators, as the outermost digit of a dimension of
# which each position is `inner` positions of the dimension.
_SHARED = """
    SELECT x."of", y."of", e.dim, e.label, coalesce((
        SELECT product(f.extent) FROM digit_of f
        WHERE f.shaped = e.shaped AND f.place = e.place AND f.dim = e.dim AND f.level < e.level
    ), 1)::BIGINT FROM result_of q JOIN result_of r ON true
    JOIN seq_operator s ON s."by" = q."by" JOIN dist_operator d ON d."by" = r."by"
    JOIN operand_of x ON x."by" = s."by"
    JOIN operand_of y ON y."by" = d."by" AND y.place = x.place
    JOIN digit_of e ON e.shaped = s.shaped AND e.place = x.place
    JOIN label_of l ON l.shaped = s.shaped AND l.label = e.label
    JOIN digit_count c ON c.shaped = e.shaped AND c.place = e.place AND c.dim = e.dim
    WHERE q.gives = ? AND r.gives = ? AND s.signed = d.signed AND l.kind <> 'whole'
      AND e.level = c.total - 1 AND e.stride = 1
    ORDER BY e.label, x.place"""

_SAME_NODE = """
    SELECT DISTINCT tensor FROM base_tensor WHERE side = 'dist' AND node = ? ORDER BY tensor"""
