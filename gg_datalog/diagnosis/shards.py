"""Findings about pieces: in the wrong order, along the wrong dimension, overlapping, too short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gg_datalog.diagnosis.causes import finding
from gg_datalog.diagnosis.parts import coverage
from gg_datalog.diagnosis.scene import ONE, Held, Scene
from gg_datalog.result.blocks import Box
from gg_datalog.result.findings import Kind
from gg_datalog.result.placement import box_of, names_text, some, span, spans_text
from gg_datalog.result.report import Finding
from gg_datalog.result.terms import runs_of

DEPTH = 6


@dataclass(frozen=True)
class Member:
    """A member of a concatenation, at ``start``, and what it holds."""

    held: Held
    start: int
    dim: int
    box: Box
    rank: int


# ---- concatenations --------------------------------------------------------------------------
def misplaced(scene: Scene, seq: str, dists: Sequence[str]) -> Finding | None:
    """A concatenation at a break whose members are pieces of one tensor, wrongly put together."""
    for (gives,) in scene.rows(_CONCATS, list(dists)):
        listed = _members(scene, gives)
        found = None if listed is None else _order(scene, seq, gives, listed)
        if found is not None:
            return found
    return None


def _members(scene: Scene, gives: str) -> list[Member] | None:
    """The members by place, with what they hold of the one tensor that all hold pieces of."""
    places = scene.rows(_MEMBERS, gives)
    held: dict[str, dict[str, Held]] = {}
    for h in scene.held({of for of, *_ in places}):
        if h.parts == "nil" and h.times == ONE:
            held.setdefault(h.seq, {}).setdefault(h.dist, h)
    ranks = {t.tensor: t.ranks[0] for t in scene.things("dist", {of for of, *_ in places})}
    for seq, rows in held.items():
        if all(of in rows for of, *_ in places):
            found = [
                Member(rows[of], start, dim, box, ranks[of])
                for of, start, dim in places
                if (box := scene.box(rows[of])) is not None
            ]
            if len(found) == len(places) and len({m.box for m in found}) > 1 and scene.seq(seq):
                return found
    return None


def _order(scene: Scene, seq: str, gives: str, members: Sequence[Member]) -> Finding | None:
    """What is wrong with the order, the dimension or the ranges of the members, if anything."""
    of = scene.seq(members[0].held.seq)
    differ = [d for d in range(len(of.shape)) if len({m.box[d] for m in members}) > 1]
    if len(differ) != 1:
        return None
    (dim,) = differ
    spans = [m.box[dim] for m in sorted(members, key=lambda m: m.start)]
    names = scene.names([gives])
    (thing,) = scene.things("dist", [gives])
    where: dict[str, Any] = {
        "seq": of.node,
        "dist": tuple(names),
        "expected": scene.wanted(of.tensor, [int(n[1:].partition(".")[0]) for n in names]),
        "found": f"concat of dim {dim} of {of.node} in the order {spans_text(spans)}",
        "outputs": scene.spoiled([seq]),
    }
    told = some(
        [f"{span(*m.box[dim])} (rank {m.rank})" for m in sorted(members, key=lambda m: m.start)]
    )
    whole = _meets(sorted(spans), of.shape[dim])
    along = _along(members[0], dim)
    if whole and sorted(spans) != spans:
        text = (
            f"{names_text(names)} ({thing.target}) puts the shards of `{of.node}` together in the "
            f"wrong order: along dim {dim} come {told}"
        )
        trigger = f"shards of dim {dim} ({of.shape[dim]}) are put together as {spans_text(spans)}"
        effect = f"what is to be `{of.node}` has its pieces at each other's places"
        return finding(Kind.WRONG_ORDER, text, trigger=trigger, effect=effect, **where)
    if whole and along is False:
        text = (
            f"{names_text(names)} ({thing.target}) puts the shards of `{of.node}` together along "
            f"another dimension than dim {dim}, along which they are cut: {told}"
        )
        trigger = f"shards of dim {dim} are put together along dim {members[0].dim} of the operands"
        effect = f"what is to be `{of.node}` has another layout"
        return finding(Kind.WRONG_ORDER, text, trigger=trigger, effect=effect, **where)
    if not whole:
        problem = coverage(spans, of.shape[dim])
        text = (
            f"{names_text(names)} ({thing.target}) puts ranges of dim {dim} of `{of.node}` "
            f"together that are not all of it once: {told}: {problem}"
        )
        trigger = f"the operands are {spans_text(spans)} of dim {dim} ({of.shape[dim]})"
        effect = f"`{of.node}` is not there as a whole"
        more = {"trigger": trigger, "effect": effect, "certain": False}
        return finding(Kind.WRONG_RANGE, text, **more, **where)
    return None


def _meets(spans: Sequence[tuple[int, int]], extent: int) -> bool:
    meet = all(a[1] == b[0] for a, b in pairwise(spans))
    return meet and (spans[0][0], spans[-1][1]) == (0, extent)


def _along(member: Member, dim: int) -> bool | None:
    """Is the dimension of which the member has a range the one it is put together along?"""
    dims = [run[3] for _, _, run in runs_of(member.held.block)]
    return None if len(dims) != len(member.box) else dims[dim] == member.dim


# ---- ranges ----------------------------------------------------------------------------------
def wrong_range(scene: Scene, seq: str, dists: Sequence[str]) -> Finding | None:
    """Pieces of the tensor at a break that leave something out: where they were cut."""
    of = scene.seq(seq)
    slices = _slices(scene, dists)
    if not slices:
        return None
    told = [_cut(scene, *row) for row in slices]
    names = scene.names([gives for gives, *_ in slices])
    other = _sequential_slice(scene, seq, slices)
    spans = list(dict.fromkeys((start, start + size) for _, _, _, start, size, _ in slices))
    extent, certain = slices[0][5], True
    if other is not None:
        certain = not _covered(other[1], other[1] + other[2], spans)  # else it is there, too
        right = f", the sequential `{other[0]}` takes {span(other[1], other[1] + other[2])}"
        expected = f"{span(other[1], other[1] + other[2])} of dim {slices[0][2]}"
    elif _meets(sorted(spans), extent) or len(slices) == 1:
        return None
    else:
        left = coverage(spans, extent)
        certain, right = False, f", and no rule shows what takes the rest: {left}"
        expected = f"all of dim {slices[0][2]} ({extent}) between the ranks"
    says = "cuts the wrong range" if certain else "cuts more than one range"
    says = f"{says}:" if other is not None else "cuts"
    return finding(
        Kind.WRONG_RANGE,
        f"{names_text(names)} {says} {some(list(dict.fromkeys(told)))}{right}",
        seq=of.node,
        dist=tuple(names),
        trigger=f"ranges {spans_text(spans)} of {extent} are cut",
        effect=f"what is to be `{of.node}` is computed from other elements, or never complete",
        expected=expected,
        found=f"{spans_text(spans)} of dim {slices[0][2]}",
        outputs=scene.spoiled([seq]),
        certain=certain,
    )


def _covered(lo: int, hi: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Do these ranges have all of [lo, hi) between them?"""
    for start, end in sorted(spans):
        if start <= lo:
            lo = max(lo, end)
    return lo >= hi


def _cut(scene: Scene, gives: str, of: str, dim: int, start: int, size: int, _: int) -> str:
    (thing,) = scene.things("dist", [of])
    return f"{span(start, start + size)} of dim {dim} of `{thing.node}`"


def _slices(scene: Scene, dists: Sequence[str]) -> list[tuple[Any, ...]]:
    """The slices that the tensors are computed from, the nearest ones."""
    near = list(dists)
    for _ in range(DEPTH):
        found = scene.rows(_SLICES, near)
        if found:
            return found
        near = [n for n in operands_of(scene, near) if n not in scene.sums]
        if not near:
            return []
    return []


def operands_of(scene: Scene, dists: Sequence[str]) -> list[str]:
    """What these distributed tensors are computed from."""
    return [needs for (needs,) in scene.rows(_NEEDS, list(dists))]


def _sequential_slice(
    scene: Scene, seq: str, slices: Sequence[tuple[Any, ...]]
) -> tuple[str, int, int] | None:
    """The sequential slice of the same tensor that goes into the break, if its range differs."""
    for node, start, size in scene.rows(
        _SEQ_SLICES, seq, [of for _, of, *_ in slices], [extent for *_, extent in slices]
    ):
        if any((start, size) != (row[3], row[4]) for row in slices):
            return node, start, size
    return None


def input_gap(scene: Scene, seq: str, dists: Sequence[str]) -> Finding:
    """An input of which the ranks have pieces that leave something out."""
    of = scene.seq(seq)
    rows = [h for h in scene.held(dists, seq) if h.parts == "nil"]
    relation = scene.relation(seq, rows) if rows else None
    boxes = [b for h in rows if (b := scene.box(h)) is not None]
    differ = [d for d, e in enumerate(of.shape) if any(b[d] != (0, e) for b in boxes)]
    problem = "the input relations do not say that the ranks hold all of it"
    if len(differ) == 1 and boxes:
        spans = [b[differ[0]] for b in boxes]
        left = coverage(spans, of.shape[differ[0]])
        problem = f"the ranks hold {spans_text(sorted(set(spans)))} of dim {differ[0]}: {left}"
    elif not boxes and not rows:
        problem = "the input relations do not say what the ranks hold of it"
    return finding(
        Kind.INPUT_GAP,
        f"input `{of.node}`: {problem}",
        seq=of.node,
        dist=tuple(scene.names(dists)),
        trigger=problem,
        effect=f"what is computed from all of `{of.node}` cannot be rebuilt",
        expected=f"relations that cover {of.node}",
        found=relation,
        outputs=scene.spoiled([seq]),
    )


def shard_too_small(scene: Scene, seq: str, dists: Sequence[str]) -> Finding | None:
    """An operator that needs all of a dimension and has a shard of it."""
    rows = scene.rows(_WHOLE, seq, list(dists))
    if not rows:
        return None
    of, (_, mine, whole) = scene.seq(seq), rows[0]
    names = scene.names([dist for dist, *_ in rows])
    return finding(
        Kind.NEEDS_WHOLE,
        f"{names_text(names)} ({of.target}) works over {mine} positions of a dimension that has "
        f"{whole} in the sequential `{of.node}`: every rank does it over its own shard only",
        seq=of.node,
        dist=tuple(names),
        trigger=f"{of.target} looks at a whole dimension at once; the ranks have shards of {mine}",
        effect=f"each rank computes `{of.node}` as if its shard were everything",
        expected=f"{of.target} over {whole} positions",
        found=f"{of.target} over {mine} positions",
        outputs=scene.spoiled([seq]),
    )


def operand_ranges(scene: Scene, seq: str, dists: Sequence[str]) -> Finding | None:
    """An operator whose operands have different ranges of the dimension that they share."""
    for dist in dists:
        ranges: dict[int, list[tuple[str, tuple[int, int]]]] = {}
        shared = scene.rows(_SHARED, seq, dist)
        digits = Counter((mine, theirs, label) for mine, theirs, _, label, _ in shared)
        for mine, theirs, dim, label, inner in shared:
            if digits[mine, theirs, label] > 1:  # several dimensions are one here
                continue
            for h in scene.held([theirs], mine):
                of = scene.seq(mine)
                box = box_of(h.block, of.base)
                if box is not None and h.parts == "nil" and len(box) > dim:
                    text = f"{span(*box[dim])} of dim {dim} ({of.base[dim]}) of `{of.node}`"
                    lo, hi = box[dim]
                    if lo % inner == hi % inner == 0:
                        ranges.setdefault(label, []).append((text, (lo // inner, hi // inner)))
                    break
        for told in ranges.values():
            if len({r for _, r in told}) > 1:
                return _unequal(scene, seq, dist, [text for text, _ in told])
    return None


def _unequal(scene: Scene, seq: str, dist: str, told: Sequence[str]) -> Finding:
    of, names = scene.seq(seq), scene.names([dist])
    return finding(
        Kind.WRONG_RANGE,
        f"{names_text(names)} ({of.target}) pairs different ranges: {' with '.join(told)}",
        seq=of.node,
        dist=tuple(names),
        trigger=f"the operands have other ranges of the dimension they share: {' and '.join(told)}",
        effect=f"what is to be `{of.node}` may combine elements that do not belong together",
        expected="equal ranges",
        found=" with ".join(told),
        outputs=scene.spoiled([seq]),
        certain=False,
    )


_CONCATS = """
    SELECT gives FROM dist_concat WHERE gives IN (SELECT unnest(?)) ORDER BY gives"""

_MEMBERS = """
    SELECT m."of", m.start, coalesce(d.dim, -1) FROM dist_concat c
    JOIN dist_member m ON m."by" = c."by"
    LEFT JOIN digit_of d
        ON d.shaped = m.shaped AND d.place = 0 AND d.label = m.label AND d.level = 0
    WHERE c.gives = ? ORDER BY m.place"""

_SLICES = """
    SELECT s.gives, s."of", coalesce(d.dim, 0), s.start, s.size, l.extent FROM dist_slice s
    JOIN label_of l ON l.shaped = s.shaped AND l.label = s.label
    LEFT JOIN digit_of d
        ON d.shaped = s.shaped AND d.place = 0 AND d.label = s.label AND d.level = 0
    WHERE s.gives IN (SELECT unnest(?)) AND s.size < l.extent ORDER BY ALL"""

_SEQ_SLICES = """
    SELECT b.node, s.start, s.size FROM seq_slice s
    JOIN base_tensor b ON b.side = 'seq' AND b.tensor = s.gives
    JOIN label_of l ON l.shaped = s.shaped AND l.label = s.label
    JOIN (SELECT DISTINCT needs FROM tensor_needs WHERE side = 'seq' AND tensor = ?) n
        ON n.needs = s.gives
    WHERE EXISTS (SELECT 1 FROM holds h WHERE h.seq = s."of" AND h.dist IN (SELECT unnest(?)))
      AND l.extent IN (SELECT unnest(?))
    ORDER BY ALL"""

_NEEDS = """
    SELECT DISTINCT needs FROM tensor_needs WHERE side = 'dist' AND tensor IN (SELECT unnest(?))
    ORDER BY needs"""

_WHOLE = """
    SELECT r.gives, b.extent, a.extent FROM result_of q JOIN result_of r ON true
    JOIN seq_operator s ON s."by" = q."by" JOIN dist_operator d ON d."by" = r."by"
    JOIN label_of a ON a.shaped = s.shaped JOIN label_of b ON b.shaped = d.shaped
    WHERE q.gives = ? AND r.gives IN (SELECT unnest(?)) AND s.signed = d.signed
      AND a.factor = b.factor AND a.kind = 'whole' AND b.kind = 'whole' AND b.extent < a.extent
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
