"""Blocks as affine maps between the elements of two nodes, and such a map as an expression.

The rules relate base tensors; a person knows nodes, which are views of them. A map has counters:
each runs over ``n`` elements, in steps along one dimension of either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gg_datalog.foundation.errors import InputError
from gg_datalog.result.terms import Block

Box = tuple[tuple[int, int], ...]


class NoExpression(Exception):
    """The map cannot be written as slices, permutations and reshapes."""


@dataclass(frozen=True)
class Digit:
    """``extent`` positions, ``stride`` apart, of base dimension ``dim`` (-1: a repetition)."""

    dim: int
    extent: int
    stride: int


@dataclass(frozen=True)
class Counter:
    """``n`` elements: steps along dimension ``seq`` of one side and ``dist`` of the other."""

    n: int
    seq: int
    seq_step: int
    dist: int
    dist_step: int


Dims = tuple[tuple[Digit, ...], ...]


def parse_view(text: str) -> Dims:
    """The digits of a view, per dimension, outermost first."""
    try:
        return tuple(
            tuple(Digit(*map(int, digit.split("/"))) for digit in dim.split("*") if digit != "-")
            for dim in text.split()
        )
    except (TypeError, ValueError):
        raise InputError(
            f"{text!r} is no view", "relation output_view", "extract the facts again"
        ) from None


def shape_of(dims: Dims) -> tuple[int, ...]:
    """Extents per dimension."""
    return tuple(prod(d.extent for d in dim) for dim in dims)


@dataclass(frozen=True)
class Map:
    """The elements that counters and offsets reach, on both sides."""

    counters: tuple[Counter, ...]
    seq_at: dict[int, int]
    dist_at: dict[int, int]


def between_bases(block: Block) -> Map:
    """The map that a block of the rules stands for."""
    counters: list[Counter] = []
    seq_at: dict[int, int] = {}
    dist_at: dict[int, int] = {}
    every = ((place, run) for place, runs in enumerate(block) for run in runs)
    for place, (stride, lo, n, dim, dist_stride, dist_lo) in every:
        seq_at[place] = seq_at.get(place, 0) + stride * lo
        if dim >= 0:
            dist_at[dim] = dist_at.get(dim, 0) + dist_stride * dist_lo
        if n > 1:
            counters.append(Counter(n, place, stride, dim, dist_stride))
    return Map(tuple(counters), seq_at, dist_at)


def between_nodes(found: Map, seq: Dims, dist: Dims) -> Map:
    """The same map between views of the two bases."""
    split = [
        part
        for counter in found.counters
        for half in _split(counter, _bounds(seq, counter.seq), "seq")
        for part in _split(half, _bounds(dist, counter.dist), "dist")
    ]
    moved = []
    for c in split:
        seq_dim, seq_step = _placed(seq, c.seq, c.seq_step)
        dist_dim, dist_step = _placed(dist, c.dist, c.dist_step)
        moved.append(Counter(c.n, seq_dim, seq_step, dist_dim, dist_step))
    return Map(
        (*moved, *_repeats(seq, dist)), _offsets(seq, found.seq_at), _offsets(dist, found.dist_at)
    )


def _bounds(view: Dims, dim: int) -> list[int]:
    return sorted(d.stride for digits in view for d in digits if d.dim == dim and d.stride > 1)


def _split(counter: Counter, bounds: Sequence[int], side: str) -> list[Counter]:
    """The counter in parts, none of which crosses from one digit into the next."""
    step = counter.seq_step if side == "seq" else counter.dist_step
    for bound in bounds:
        if step < bound < step * counter.n:
            if bound % step or (step * counter.n) % bound:
                raise NoExpression
            inner = bound // step
            outer = Counter(
                counter.n // inner,
                counter.seq,
                counter.seq_step * inner,
                counter.dist,
                counter.dist_step * inner,
            )
            first = Counter(inner, counter.seq, counter.seq_step, counter.dist, counter.dist_step)
            return [*_split(outer, bounds, side), first]
    return [counter]


def _placed(view: Dims, dim: int, step: int) -> tuple[int, int]:
    """Dimension and step in the view of a step along a base dimension."""
    for place, digits in enumerate(view):
        inner = 1
        for digit in reversed(digits):
            inside = digit.stride <= step < digit.stride * digit.extent
            if digit.dim == dim and inside and step % digit.stride == 0:
                return place, step // digit.stride * inner
            inner *= digit.extent
    raise NoExpression


def _offsets(view: Dims, at: dict[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for place, digits in enumerate(view):
        inner = 1
        for digit in reversed(digits):
            if digit.dim >= 0:
                value = at.get(digit.dim, 0) // digit.stride % digit.extent
                found[place] = found.get(place, 0) + value * inner
            inner *= digit.extent
    return found


def _repeats(seq: Dims, dist: Dims) -> list[Counter]:
    """Repetitions, which both sides must have at the same place."""
    ours, theirs = _repeated(seq), _repeated(dist)
    if ours != theirs:
        raise NoExpression
    return [Counter(n, place, step, place, step) for place, step, n in ours]


def _repeated(view: Dims) -> list[tuple[int, int, int]]:
    found = []
    for place, digits in enumerate(view):
        inner = 1
        for digit in reversed(digits):
            if digit.dim < 0:
                found.append((place, inner, digit.extent))
            inner *= digit.extent
    return found


# ---- as text -------------------------------------------------------------------------------------
def expression(name: str, found: Map, seq: Dims, dist: Dims) -> tuple[Box, str]:
    """The box of the sequential node that is held, and an expression for it."""
    sides = [(c.seq, c.seq_step, c.n) for c in found.counters]
    box = _box(sides, found.seq_at, shape_of(seq))
    theirs = [(c.dist, c.dist_step, c.n) for c in found.counters]
    piece = _box(theirs, found.dist_at, shape_of(dist))
    counters = _merged(found.counters)
    by_dist = sorted(counters, key=lambda c: (c.dist, -c.dist_step))
    by_seq = sorted(counters, key=lambda c: (c.seq, -c.seq_step))
    order = [by_dist.index(c) for c in by_seq]
    have = [hi - lo for lo, hi in piece]
    text = _sliced(name, piece, shape_of(dist))
    if order != sorted(order):
        if have != [c.n for c in by_dist]:
            text = f"reshape({text}, {[c.n for c in by_dist]})"
        text = f"permute({text}, {order})"
        have = [c.n for c in by_seq]
    size = [hi - lo for lo, hi in box]
    return box, text if have == size else f"reshape({text}, {size})"


def _box(steps: Sequence[tuple[int, int, int]], at: dict[int, int], shape: Sequence[int]) -> Box:
    """The range per dimension, where the steps fill it without a gap."""
    found = []
    for place, extent in enumerate(shape):
        reach = 1
        for step, n in sorted((step, n) for dim, step, n in steps if dim == place):
            if step != reach:
                raise NoExpression
            reach *= n
        low = at.get(place, 0)
        if low + reach > extent:
            raise NoExpression
        found.append((low, low + reach))
    return tuple(found)


def _merged(counters: Sequence[Counter]) -> list[Counter]:
    """Counters that continue each other on both sides are one."""
    merged: list[Counter] = []
    for c in sorted(counters, key=lambda c: (c.seq, -c.seq_step)):
        last = merged[-1] if merged else None
        if (
            last
            and (last.seq, last.dist) == (c.seq, c.dist)
            and last.seq_step == c.seq_step * c.n
            and last.dist_step == c.dist_step * c.n
        ):
            merged[-1] = Counter(last.n * c.n, c.seq, c.seq_step, c.dist, c.dist_step)
        else:
            merged.append(c)
    return merged


def _sliced(name: str, piece: Box, shape: Sequence[int]) -> str:
    text = name
    for dim, ((lo, hi), extent) in enumerate(zip(piece, shape, strict=True)):
        if (lo, hi) != (0, extent):
            text = f"slice({text}, dim={dim}, {lo}, {hi})"
    return text
