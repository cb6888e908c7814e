"""Convolutions tap by tap: products of shifted positions with one position of the kernel each.

So positions in space may be cut: what a rank needs of its neighbours (their borders, the halo) it
has beside its own, and where a dimension is padded with zeros, or a rank has zeros for what is
beyond the ends, the taps that meet those add nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import NamedTuple

from gg_datalog.extract.context import Context
from gg_datalog.extract.finite import may_be_infinite
from gg_datalog.extract.lower_math import added, vanishes
from gg_datalog.extract.lower_movement import joined, sliced, zeros_of
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.side import Side
from gg_datalog.extract.view import View

FRONT = 3  # dimensions before those in space: of the batch, groups and channels; of the kernel, too
MOST = 64
"""Of how many taps at most."""

Ranges = Sequence[tuple[int, int]]
Product = Callable[[View, View], View]


class Axis(NamedTuple):
    """A dimension in space: position ``p`` of what comes out meets position ``p + offset`` of what
    goes in, for each tap; and how many come out."""

    place: int
    offsets: tuple[int, ...]
    extent: int

    @property
    def dim(self) -> int:
        """The same among all dimensions."""
        return FRONT + self.place


def axes_of(
    ctx: Context, kernel: Sequence[int], ways: Sequence[Sequence[int]], size: Sequence[int]
) -> list[Axis]:
    """The dimensions in space which the other program cuts, or pads, in another way: none where one
    of them has a step, or where there are too many taps. ``ways``: step, padding and distance."""
    rank = len(kernel)
    places = [i for i in range(rank) if i - rank in ctx.side.shifted]
    stride, padding, apart = ways[:3]
    if any(stride[i] != 1 for i in places) or prod(kernel[i] for i in places) > MOST:
        return []
    return [
        Axis(i, tuple(k * apart[i] - padding[i] for k in range(kernel[i])), size[i]) for i in places
    ]


def backwards(axes: Sequence[Axis], size: Sequence[int]) -> list[Axis]:
    """The same from what comes out to what goes in, which has ``size``."""
    return [Axis(a.place, tuple(-o for o in a.offsets), size[a.place]) for a in axes]


# ---- where a tensor is not 0
def live(ctx: Context, x: View, dim: int, other: View) -> Ranges:
    """The ranges of a dimension beside which a tensor is known to be 0, and so are its products
    with the other one, if that is finite."""
    whole, found = [(0, x.shape[dim])], _not_0(ctx.side, x, dim)
    if found is None or list(found) == whole or may_be_infinite(other.base):
        return whole
    vanishes(ctx, other)
    return found


def _not_0(side: Side, x: View, dim: int) -> Ranges | None:
    note = side.notes.pieces.get(x.base)
    if note is None or x.dims[dim] != note.dims[note.dim]:
        return None
    found: list[tuple[int, int]] = []
    at = 0
    for span in note.spans:
        end = at + span.size
        if not side.is_zero(span.of):
            begins = found.pop()[0] if found and found[-1][1] == at else at
            found.append((begins, end))
        at = end
    return found


class Cell(NamedTuple):
    """Positions [start, end) of what comes out, and the taps that count there."""

    start: int
    end: int
    taps: tuple[int, ...]


def cells(axis: Axis, ranges: Ranges) -> list[Cell]:
    """What comes out, in ranges of which each tap counts everywhere or nowhere."""
    ends = {0, axis.extent}
    for offset in axis.offsets:
        ends |= {end - offset for pair in ranges for end in pair}
    inside = sorted(p for p in ends if 0 <= p <= axis.extent)
    return [Cell(p, q, _counting(axis, ranges, p, q)) for p, q in pairwise(inside)]


def _counting(axis: Axis, ranges: Ranges, start: int, end: int) -> tuple[int, ...]:
    return tuple(
        tap
        for tap, offset in enumerate(axis.offsets)
        if any(low <= start + offset and end + offset <= high for low, high in ranges)
    )


def _cut(ctx: Context, x: View, dim: int, start: int, size: int) -> View:
    """A slice. Pieces are looked for without the dimensions of one position that groups add."""
    kept = [i for i, digits in enumerate(x.dims) if digits or i == dim]
    bare = replace(x, dims=tuple(x.dims[i] for i in kept))
    found = sliced(ctx, bare, kept.index(dim), start, size)
    dims = dict(zip(kept, found.dims, strict=True))
    return replace(found, dims=tuple(dims.get(i, ()) for i in range(len(x.dims))))


# ---- forward, and from the gradient of what comes out to that of what goes in
def by_tap(
    ctx: Context, x: View, w: View, axes: Sequence[Axis], out: Sequence[int], one: Product
) -> View:
    """What comes out, of shape ``out``; ``one`` gives the product of positions that meet."""
    if not axes:
        return one(x, w)
    axis, parts = axes[0], []
    for cell in cells(axis, live(ctx, x, axis.dim, w)):
        size = cell.end - cell.start
        shape = [size if i == axis.dim else e for i, e in enumerate(out)]
        terms = []
        for tap in cell.taps:
            met = _cut(ctx, x, axis.dim, cell.start + axis.offsets[tap], size)
            by = _cut(ctx, w, axis.dim, tap, 1)
            terms.append((by_tap(ctx, met, by, axes[1:], shape, one), ONE))
        parts.append(added(ctx, terms) if terms else zeros_of(ctx, shape))
        if len(terms) > 1:
            ctx.side.taps.add(parts[-1].base)
    return _joined(ctx, parts, axis.dim) if len(parts) > 1 else parts[0]


def _joined(ctx: Context, parts: Sequence[View], dim: int) -> View:
    """One after the other, without the dimensions of one position that groups add."""
    kept = [i for i, e in enumerate(parts[0].shape) if e > 1 or i == dim]
    bare = [replace(x, dims=tuple(x.dims[i] for i in kept)) for x in parts]
    found = joined(ctx, bare, kept.index(dim))
    dims = dict(zip(kept, found.dims, strict=True))
    return replace(found, dims=tuple(dims.get(i, ()) for i in range(len(parts[0].dims))))


# ---- the gradient of the kernel
def of_kernel(
    ctx: Context, g: View, x: View, axes: Sequence[Axis], out: Sequence[int], one: Product
) -> View:
    """The gradient of the kernel, of shape ``out``; ``one`` adds up over positions that meet."""
    if not axes:
        return one(g, x)
    axis, taps = axes[0], []
    shape = [1 if i == axis.dim else e for i, e in enumerate(out)]
    for offset in axis.offsets:
        terms = []
        for low, high in live(ctx, x, axis.dim, g):
            start, end = max(0, low - offset), min(axis.extent, high - offset)
            if start < end:
                ours = _cut(ctx, g, axis.dim, start, end - start)
                theirs = _cut(ctx, x, axis.dim, start + offset, end - start)
                terms.append((of_kernel(ctx, ours, theirs, axes[1:], shape, one), ONE))
        taps.append(added(ctx, terms) if terms else zeros_of(ctx, shape))
    return joined(ctx, taps, axis.dim) if len(taps) > 1 else taps[0]
