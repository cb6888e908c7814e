"""GG152: a lookup in a shard masks the wrong ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.result.placement import names_text, some
from gg_datalog.result.reasons import Reason
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG152",
    title="a lookup in a shard masks the wrong ids",
    level="error",
    note="""
Each rank looks up the ids that lie in its rows of the table and gives 0 for the others, and
the ranks add up. Bounds that are off by one let an id be found twice, never, or in a
neighbour's row.""",
    remedy="""
With rows `first` to `last` on a rank the mask is `(ids < first) | (ids >= last)`, and the
local id `ids - first`.""",
    example=Example(
        sequential="""
ids: i64[5]
w: f32[8, 6]
e = embedding(w, ids)
return relu(e)""",
        wrong="""
ids: i64[5]
w: f32[4, 6]
low: b[5] = lt(ids, 4 * rank)
high: b[5] = gt(ids, 4 * rank + 4)
out: b[5] = bitwise_or.Tensor(low, high)
shifted: i64[5] = sub.Tensor(ids, 4 * rank)
local: i64[5] = masked_fill(shifted, out, 0)
e = masked_fill(embedding(w, local), unsqueeze(out, -1), 0.0)
return relu(all_reduce(e, "sum", "g"))""",
        right="""
ids: i64[5]
w: f32[4, 6]
low: b[5] = lt(ids, 4 * rank)
high: b[5] = ge(ids, 4 * rank + 4)
out: b[5] = bitwise_or.Tensor(low, high)
shifted: i64[5] = sub.Tensor(ids, 4 * rank)
local: i64[5] = masked_fill(shifted, out, 0)
e = masked_fill(embedding(w, local), unsqueeze(out, -1), 0.0)
return relu(all_reduce(e, "sum", "g"))""",
        says=(
            "`embedding`, `e` on rank 0 looks up ids in a shard of rows 0:4 on rank 0, but ids "
            "outside of it are not masked that way: ids >= 5, ids < 0 on rank 0"
        ),
    ),
)


Shard = tuple[int, int, int]
"""Rank, and the rows [lo, hi) of the table that it has."""
OTHER = "but ids outside of it are not masked that way"
UNKNOWN = "and no rule shows that what is masked are the ids outside of it"


def at_break(place: Break) -> Finding | None:
    """A lookup in a shard whose mask does not fit the rows of the shard."""
    scene, of, masks = place.scene, place.of, place.at(Reason.MASK)
    if not masks:
        return None
    lookups = scene.rows(_LOOKUPS, place.dists)
    names = scene.names([gives for gives, *_ in lookups] or masks)
    shards = _shards(scene, {table: dim for _, table, dim in lookups})
    rows = some([f"{lo}:{hi} on rank {rank}" for rank, lo, hi in shards])
    tests = _tests(scene, masks)
    shown = bool(shards) and _other_bounds(scene, masks, shards)
    text = (
        f"{names_text(names)} looks up ids in a shard{f' of rows {rows}' if rows else ''}, "
        f"{OTHER if shown else UNKNOWN}{f': {tests}' if tests else ''}"
    )
    trigger = "bounds of the mask, shift of the ids and rows of the shard do not agree"
    effect = f"some ids of `{of.node}` are found on no rank, on several, or in a wrong row"
    return MISTAKE.finding(
        text,
        seq=of.node,
        dist=tuple(names),
        trigger=trigger if shown else None,
        effect=effect if shown else None,
        certain=False,
        expected=f"a mask that lets rows {rows} pass" if rows else None,
        found=tests or None,
        outputs=place.outputs,
    )


def _shards(scene: Scene, tables: Mapping[str, int]) -> list[Shard]:
    """Which rank has which rows of the tables, by rank; each table with its dimension of rows."""
    ranks = {thing.tensor: thing.ranks for thing in scene.things("dist", tables)}
    return sorted(
        {
            (rank, run.lo, run.lo + run.n)
            for h in scene.held(tables)
            if h.plain
            for runs in scene.records.block(h.block)
            for run in runs
            if len(runs) == 1 and run.stride == run.dist_stride == 1 and run.dim == tables[h.dist]
            for rank in ranks[h.dist]
        }
    )


def _other_bounds(scene: Scene, masks: Sequence[str], shards: Sequence[Shard]) -> bool:
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


_LOOKUPS = """
    SELECT DISTINCT l.gives, l."table", d.dim FROM dist_lookup l
    JOIN digit_of d ON d.shaped = l.shaped AND d.place = 0 AND d.label = l.label
    WHERE l.gives IN (SELECT unnest(?)) ORDER BY ALL"""

_TESTS = """
    SELECT DISTINCT g.rank, b.node, t.compare, t.bound FROM integer_test t
    JOIN base_tensor b ON b.side = 'dist' AND b.tensor = t."of"
    JOIN base_tensor g ON g.side = 'dist' AND g.tensor = t.gives
    WHERE t.gives IN (SELECT unnest(?)) ORDER BY ALL"""
