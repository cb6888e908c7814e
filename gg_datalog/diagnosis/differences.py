"""Findings about operators that differ between the sides, and about what comes back instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from gg_datalog.diagnosis.causes import finding
from gg_datalog.diagnosis.scene import ONE, Scene
from gg_datalog.result.findings import Kind
from gg_datalog.result.placement import names_text, ranks_text, some, span
from gg_datalog.result.report import Finding


def unwritten(scene: Scene, seq: str, dists: Sequence[str]) -> Finding | None:
    """Memory that nobody has written, at a break or going into it."""
    found = [t for (t,) in scene.rows(_UNWRITTEN, list(dists), list(dists))]
    if not found:
        return None
    of, names = scene.seq(seq), scene.names(found)
    return finding(
        Kind.UNWRITTEN,
        f"{names_text(names)} is memory that nothing has written; it is used where `{of.node}` "
        f"({of.target}) is to be computed",
        seq=of.node,
        dist=tuple(names),
        trigger="a tensor is allocated, and nothing writes it before it is read",
        effect=f"what is to be `{of.node}` depends on what was in memory before",
        found=f"uninitialised memory on {ranks_text(_ranks(names))}",
        outputs=scene.spoiled([seq]),
    )


def _ranks(names: Sequence[str]) -> list[int]:
    return [int(name[1:].partition(".")[0]) for name in names]


def other_attribute(scene: Scene, seq: str, dists: Sequence[str]) -> Finding | None:
    """The same operator with other attributes, or over another dimension."""
    of = scene.seq(seq)
    rows = scene.rows(_ATTRIBUTES, seq, list(dists))
    told = {d: t for d, a, b in rows if (t := _unlike(a, b)) is not None}
    if not told:
        told = {d: (a, b) for d, a, b in scene.rows(_DIMENSIONS, seq, list(dists))}
    if not told:
        return None
    mine, right = next(iter(told.values()))
    names = scene.names(told)
    return finding(
        Kind.OTHER_ATTRIBUTE,
        f"{names_text(names)} ({of.target}) has {mine}, the sequential `{of.node}` has {right}",
        seq=of.node,
        dist=tuple(names),
        trigger=f"an attribute of {of.target} differs: {mine}, not {right}",
        effect=f"what is to be `{of.node}` is computed in another way",
        expected=f"{of.target} with {right}",
        found=f"{of.target} with {mine}",
        outputs=scene.spoiled([seq]),
    )


def _unlike(seq: str, dist: str) -> tuple[str, str] | None:
    """The words in which two signatures differ: those of the ranks, and the sequential ones."""
    if seq == dist or seq.partition("(")[0] != dist.partition("(")[0]:
        return None
    a, b = (re.split(r"[(),]+", text) for text in (seq, dist))
    pairs = [(y.strip(), x.strip()) for x, y in zip(a, b, strict=False) if x != y]
    if not pairs or len(a) != len(b):
        return dist, seq
    return some([y for y, _ in pairs]), some([x for _, x in pairs])


def other_operand(scene: Scene, seq: str, dists: Sequence[str]) -> Finding | None:
    """The same operator on another tensor, or on the same ones the other way round. What nothing is
    known of is no other tensor."""
    of = scene.seq(seq)
    for dist in dists:
        pairs = scene.rows(_OPERANDS, seq, dist)
        mine, theirs = _unmatched(pairs)
        if mine and theirs and all(map(scene.held, ([t] for t in theirs))):
            taken, right = [_held_as(scene, t) for t in theirs], [scene.seq(m).node for m in mine]
            same = [d for d in dists if _unmatched(scene.rows(_OPERANDS, seq, d))[0] == mine]
            return _taken(scene, seq, same, taken, [f"`{name}`" for name in right])
        crossed = [(x, y) for x, y, match, same in pairs if same and not match]
        if not mine and len(crossed) > 1:
            taken = [_held_as(scene, y) for _, y in crossed]
            right = [scene.seq(x).node for x, _ in crossed]
            text = f"`{of.node}` takes its operands the other way round"
            return _taken(scene, seq, [dist], taken, [f"`{r}`" for r in right], f" ({text})")
    return None


def _unmatched(pairs: Sequence[tuple[str, str, bool, bool]]) -> tuple[list[str], list[str]]:
    """Sequential operands of which no distributed one holds anything, and the other way round."""
    mine = {x for x, *_ in pairs} - {x for x, _, match, _ in pairs if match}
    theirs = {y for _, y, *_ in pairs} - {y for _, y, match, _ in pairs if match}
    return sorted(mine), sorted(theirs)


def _held_as(scene: Scene, dist: str) -> str:
    """A distributed tensor, and what it is on the sequential side, where it has another name."""
    (thing,) = scene.things("dist", [dist])
    held = [h for h in scene.held([dist]) if h.parts == "nil" and h.times == ONE]
    if not held:
        return f"`{thing.node}`"
    of, box = scene.seq(held[0].seq), scene.box(held[0])
    cut = [d for d, e in enumerate(of.shape) if box is not None and box[d] != (0, e)]
    if box is not None and cut:
        told = ", ".join(f"{span(*box[d])} of dim {d}" for d in cut)
        return f"`{thing.node}` (which is {told} of `{of.node}`)"
    return f"`{thing.node}`" if of.node == thing.node else f"`{thing.node}` (which is `{of.node}`)"


def _taken(
    scene: Scene, seq: str, dists: Sequence[str], taken: list[str], right: list[str], more: str = ""
) -> Finding:
    of, names = scene.seq(seq), scene.names(dists)
    return finding(
        Kind.OTHER_OPERAND,
        f"{names_text(names)} ({of.target}) takes {some(taken)} where the sequential `{of.node}` "
        f"takes {some(right)}{more}",
        seq=of.node,
        dist=tuple(names),
        trigger=f"{some(taken)} is not shown to be {some(right)}",
        effect=f"what is to be `{of.node}` is computed from other tensors",
        expected=f"{of.target} of {some(right)}",
        found=f"{of.target} of {some(taken)}",
        outputs=scene.spoiled([seq]),
    )


def other_mask(
    scene: Scene, seq: str, blocked: Sequence[tuple[str, str | None, str | None]]
) -> Finding | None:
    """A lookup in a shard whose mask does not fit the rows of the shard."""
    masks = [dist for reason, dist, _ in blocked if reason == "different mask" and dist]
    if not masks:
        return None
    of, dists = scene.seq(seq), [d for _, d, _ in blocked if d]
    lookups = scene.rows(_LOOKUPS, dists)
    names = scene.names([gives for gives, *_ in lookups] or masks)
    shards = dict.fromkeys((rank, lo, hi) for _, rank, lo, hi in lookups)
    rows = some([f"{lo}:{hi} on rank {rank}" for rank, lo, hi in shards])
    tests = _tests(scene, masks)
    held = f" of rows {rows}" if rows else ""
    certain = bool(shards) and _other_bounds(scene, masks, shards)
    text = (
        f"{names_text(names)} looks up ids in a shard{held}, "
        + ("but ids outside of it are not masked that way" if certain else _OPEN_MASK)
        + (f": {tests}" if tests else "")
    )
    return finding(
        Kind.OTHER_MASK,
        text,
        seq=of.node,
        dist=tuple(names),
        trigger="bounds of the mask, shift of the ids and rows of the shard do not agree"
        if certain
        else None,
        effect=f"some ids of `{of.node}` are found on no rank, on several, or in a wrong row"
        if certain
        else None,
        certain=False,
        expected=f"a mask that lets rows {rows} pass" if rows else None,
        found=tests or None,
        outputs=scene.spoiled([seq]),
    )


_OPEN_MASK = "and no rule shows that what is masked are the ids outside of it"


def _other_bounds(
    scene: Scene, masks: Sequence[str], shards: Iterable[tuple[int, int, int]]
) -> bool:
    """Do ids pass that lie outside of a shard: are there more of them than rows?"""
    bounds: dict[int, set[int]] = {}
    for rank, _, _, bound in scene.rows(_TESTS, list(masks)):
        bounds.setdefault(rank, set()).add(bound)
    return any(
        len(found := bounds.get(rank, set())) == 2 and max(found) - min(found) > hi - lo
        for rank, lo, hi in shards
    )


def _tests(scene: Scene, masks: Sequence[str]) -> str:
    """The comparisons that a mask is made of: ``ids < 4, ids >= 9 on rank 1``."""
    found: dict[int, list[str]] = {}
    for rank, node, compare, bound in scene.rows(_TESTS, list(masks)):
        found.setdefault(rank, []).append(f"{node} {'<' if compare == 'lt' else '>='} {bound}")
    return some([f"{', '.join(texts)} on rank {rank}" for rank, texts in found.items()])


def stale(scene: Scene, seq: str) -> Finding | None:
    """An output for which the ranks return something that comes before it."""
    of = scene.seq(seq)
    found: dict[str, set[str]] = {}
    wanted = {}
    for wants, node, dist, held in scene.rows(_STALE, seq):
        found.setdefault(held, set()).add(dist)
        wanted[wants] = node
    if not found:
        return None
    earlier = scene.seq(next(iter(found)))
    names = sorted({d for dists in found.values() for d in dists}, key=_by_rank)
    outputs = some([f"`{node}`" for node in dict.fromkeys(wanted.values())])
    return finding(
        Kind.STALE,
        f"{names_text(names)}, returned for {outputs}, is still `{earlier.node}`: `{of.node}` "
        f"({of.target}) is not applied to it",
        seq=of.node,
        dist=tuple(names),
        trigger=f"what is returned is a tensor from which {outputs} is only computed later",
        effect=f"whoever reads {outputs} gets `{earlier.node}`",
        expected=f"{next(iter(wanted.values()))}",
        found=earlier.node,
        outputs=tuple(dict.fromkeys(wanted.values())),
        certain=bool(scene.rows(_COMPUTED, seq)),
    )


def left_out(scene: Scene, seq: str, dists: Sequence[str]) -> Finding | None:
    """An operator whose operand goes on the ranks where its result goes sequentially."""
    rows = scene.rows(_LEFT_OUT, seq, list(dists))
    if not rows:
        return None
    of, names = scene.seq(seq), scene.names(dist for dist, *_ in rows)
    user, before = rows[0][1], scene.seq(rows[0][2])
    return finding(
        Kind.LEFT_OUT,
        f"`{of.node}` ({of.target}) is left out on the ranks: {names_text(names)} takes "
        f"`{before.node}` where the sequential `{user}` takes `{of.node}`",
        seq=of.node,
        dist=tuple(names),
        trigger=f"{names_text(names)} has the operand of `{of.node}` for its own",
        effect=f"everything behind it is computed without `{of.node}`",
        expected=of.node,
        found=before.node,
        outputs=scene.spoiled([seq]),
    )


def _by_rank(name: str) -> tuple[int, str]:
    rank, _, node = name.partition(".")
    return int(rank[1:]), node


def returned_instead(scene: Scene, wants: int) -> str | None:
    """The sequential tensor that the ranks return in place of an output, if they return one."""
    found: list[Any] = scene.rows(_INSTEAD, wants)
    things = scene.things("seq", [tensor for (tensor, *_) in found])
    return things[0].node if len(found) == len(things) == 1 else None


# What only puts elements elsewhere may be made up for.
_COMPUTED = """
    SELECT 1 FROM result_of r JOIN seq_operator s ON s."by" = r."by" WHERE r.gives = ? LIMIT 1"""

_UNWRITTEN = """
    SELECT tensor FROM base_tensor
    WHERE side = 'dist' AND kind = 'uninitialised' AND (
        tensor IN (SELECT unnest(?))
        OR tensor IN (
            SELECT needs FROM tensor_needs WHERE side = 'dist' AND tensor IN (SELECT unnest(?))
        )
    ) ORDER BY tensor"""

_ATTRIBUTES = """
    SELECT DISTINCT d.gives, a.attributes, b.attributes
    FROM result_of s JOIN operator_node a ON a."by" = s."by" AND a.side = 'seq'
    JOIN result_of d ON d.gives IN (SELECT unnest($2))
    JOIN operator_node b ON b."by" = d."by" AND b.side = 'dist'
    WHERE s.gives = $1 AND a.target = b.target AND a.attributes <> b.attributes ORDER BY ALL"""

# The same operator, whole or reduced in another dimension of its one operand.
_DIMENSIONS = """
    WITH worked AS (
        SELECT r.gives, list(DISTINCT e.dim ORDER BY e.dim) AS dims, o.signed FROM result_of r
        JOIN (SELECT * FROM seq_operator UNION SELECT * FROM dist_operator) o ON o."by" = r."by"
        JOIN operand_count c ON c."by" = o."by" AND c.total = 1
        JOIN label_of l ON l.shaped = o.shaped AND l.kind IN ('whole', 'sum', 'max', 'min')
        JOIN digit_of e ON e.shaped = o.shaped AND e.label = l.label AND e.place = 0
        WHERE r.gives = $1 OR r.gives IN (SELECT unnest($2)) GROUP BY r.gives, o.signed
    )
    SELECT d.gives, 'dim ' || list_aggregate(d.dims, 'string_agg', ', '),
           'dim ' || list_aggregate(s.dims, 'string_agg', ', ')
    FROM worked s JOIN worked d ON s.gives = $1 AND d.gives <> $1
    WHERE s.dims <> d.dims AND s.signed = d.signed ORDER BY ALL"""

_OPERANDS = """
    SELECT x."of", y."of",
           EXISTS (SELECT 1 FROM holds h WHERE h.seq = x."of" AND h.dist = y."of"),
           x.place = y.place
    FROM result_of s JOIN result_of d ON d.gives = $2
    JOIN operand_of x ON x."by" = s."by" JOIN operand_of y ON y."by" = d."by"
    WHERE s.gives = $1 ORDER BY x.place, y.place"""

_LOOKUPS = """
    SELECT DISTINCT l.gives, i.rank, i.lo, i.hi FROM dist_lookup l
    JOIN (
        SELECT 'r' || rank || '.' || dist AS tensor, rank,
               split_part(split_part(seq_box, ',', 1), ':', 1)::BIGINT AS lo,
               split_part(split_part(seq_box, ',', 1), ':', 2)::BIGINT AS hi
        FROM input_row
    ) i ON i.tensor = l."table"
    WHERE l.gives IN (SELECT unnest(?)) ORDER BY ALL"""

_TESTS = """
    SELECT DISTINCT g.rank, b.node, t.compare, t.bound FROM integer_test t
    JOIN base_tensor b ON b.side = 'dist' AND b.tensor = t."of"
    JOIN base_tensor g ON g.side = 'dist' AND g.tensor = t.gives
    WHERE t.gives IN (SELECT unnest(?)) ORDER BY ALL"""

# An operator of the kind that uses the sequential tensor takes what the tensor is computed from.
_LEFT_OUT = """
    SELECT DISTINCT d.tensor, u.node, n.needs
    FROM tensor_node u
    JOIN tensor_needs v ON v.side = 'seq' AND v.tensor = u.tensor AND v.needs = $1
    JOIN tensor_node d ON d.side = 'dist' AND d.target = u.target
        AND d.tensor IN (SELECT unnest($2))
    JOIN (
        SELECT needs FROM tensor_needs WHERE side = 'seq' AND tensor = $1
        UNION SELECT needs FROM seq_needs WHERE "of" = $1
    ) n ON true
    JOIN holds h ON h.seq = n.needs AND h.parts = 'nil'
    JOIN tensor_needs e ON e.side = 'dist' AND e.tensor = d.tensor AND e.needs = h.dist
    WHERE u.side = 'seq' AND NOT EXISTS (
        SELECT 1 FROM tensor_node o JOIN tensor_node q ON q.target = o.target
        JOIN tensor_needs m ON m.side = 'dist' AND m.tensor = q.tensor AND m.needs = h.dist
        WHERE o.side = 'seq' AND o.tensor = $1 AND q.side = 'dist'
    ) ORDER BY ALL"""

_STALE = """
    WITH RECURSIVE before(wants, tensor) AS (
        SELECT w.wants, n.needs FROM wanted w JOIN seq_chain c ON c.wants = w.wants
        JOIN seq_needs n ON n."of" = c.tensor
        WHERE c.tensor = ?
        UNION SELECT b.wants, n.needs FROM before b JOIN seq_needs n ON n."of" = b.tensor
    )
    SELECT DISTINCT r.wants, o.seq, 'r' || r.rank || '.' || m.dist, h.seq
    FROM returned r JOIN returned_name m USING (wants, rank) JOIN output_name o USING (wants)
    JOIN holds h ON h.dist = r."of" AND h.parts = 'nil' AND h.times = '[1, 1, , ]'
    JOIN before b ON b.wants = r.wants AND b.tensor = h.seq
    WHERE r.wants NOT IN (SELECT wants FROM output_mapped)
    ORDER BY ALL"""

_INSTEAD = """
    SELECT DISTINCT h.seq FROM returned r
    JOIN holds h ON h.dist = r."of" AND h.parts = 'nil' AND h.times = '[1, 1, , ]'
    WHERE r.wants = ?"""
