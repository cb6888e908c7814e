"""Slices that operands are cut by, on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.ranges import Range

DEPTH = 6


class Slice(NamedTuple):
    """Tensor ``gives`` is [start, start + size) of ``extent`` positions of dimension ``dim`` of
    ``of``."""

    gives: str
    of: str
    dim: int
    start: int
    size: int
    extent: int

    @property
    def range(self) -> Range:
        """The positions that are taken."""
        return self.start, self.start + self.size


def cut(scene: Scene, side: str, tensors: Sequence[str]) -> list[Slice]:
    """The slices that give these tensors."""
    return [Slice(*row) for row in scene.rows(_SLICES.format(side=side), list(tensors))]


def strayed(scene: Scene, seq: str, dist: str) -> tuple[Slice, Slice] | None:
    """Of the slices by which both sides cut an operand, the outermost pair of which the ranks' one
    has nothing of what the sequential one takes: that one, and its own."""
    pairs = list(zip(_chain(scene, "seq", seq), _chain(scene, "dist", dist), strict=False))
    found = [(mine, theirs) for mine, theirs in pairs if _apart(scene, mine, theirs)]
    return found[-1] if found else None


def _chain(scene: Scene, side: str, tensor: str) -> Iterator[Slice]:
    """The slices that lead to a tensor, the last one first."""
    for _ in range(DEPTH):
        found = cut(scene, side, [tensor])
        if len(found) != 1:
            return
        yield found[0]
        tensor = found[0].of


def _apart(scene: Scene, mine: Slice, theirs: Slice) -> bool:
    """Does the one hold nothing of the positions that the other takes of the same tensor?"""
    whole = scene.seq(mine.of).base
    held = [h for h in scene.held([theirs.gives], mine.of) if h.whole]
    if not held or len(whole) <= mine.dim or whole[mine.dim] != mine.extent:
        return False
    return all(_outside(reach(scene, h.block, mine.dim), mine.range) for h in held)


def reach(scene: Scene, block: str, dim: int) -> Range:
    """From the first to the last position of a dimension that a block reaches."""
    runs = scene.records.block(block)[dim]
    return (
        sum(run.stride * run.lo for run in runs),
        sum(run.stride * (run.lo + run.n - 1) for run in runs) + 1,
    )


def _outside(one: Range, other: Range) -> bool:
    return one[1] <= other[0] or other[1] <= one[0]


_SLICES = """
    SELECT s.gives, s."of", coalesce(d.dim, 0), s.start, s.size, l.extent FROM {side}_slice s
    JOIN label_of l ON l.shaped = s.shaped AND l.label = s.label
    LEFT JOIN digit_of d
        ON d.shaped = s.shaped AND d.place = 0 AND d.label = s.label AND d.level = 0
    WHERE s.gives IN (SELECT unnest(?)) AND s.size < l.extent ORDER BY ALL"""
