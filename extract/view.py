"""Views: how a tensor lies over its base tensor, as mixed-radix digits.

A base tensor is the result of an operator. Views, permutations, expansions and scalar factors
after it move no information, so a tensor is ``scale * view(base)``. Dimensions of one position are
dropped from bases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import prod
from typing import NamedTuple

from gg_datalog.extract.scale import ONE, Scale


@dataclass(eq=False)
class Base:
    """A base tensor: ``shape`` without dimensions of one position; ``name`` is its id."""

    name: str
    shape: tuple[int, ...]
    kind: str  # operator | sum | slice | concat | input | constant | uninitialised | opaque
    dtype: str = ""
    rank: int = 0
    node: str = ""
    needs: list[Base] = field(default_factory=list)
    made: object = None  # the record that gives it
    ring: str = ""  # of formal integers the type: the tensor is the base modulo its width
    range: tuple[int, int] | None = None  # between what its numbers lie, where that is known


class Digit(NamedTuple):
    """``extent`` positions, ``stride`` apart, of base dimension ``dim`` (-1: a repetition)."""

    dim: int
    extent: int
    stride: int


Dims = tuple[tuple[Digit, ...], ...]


@dataclass(frozen=True)
class View:
    """``scale`` times a view of ``base``; ``dims`` lists its digits per dimension, outer first."""

    base: Base
    dims: Dims
    scale: Scale = ONE

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Extents per dimension."""
        return tuple(prod(d.extent for d in dim) for dim in self.dims)

    def scaled(self, by: Scale) -> View:
        """The view times a scalar."""
        return self if by is ONE else View(self.base, self.dims, self.scale * by)

    def permuted(self, order: Sequence[int]) -> View:
        """Dimensions in another order."""
        return replace(self, dims=tuple(self.dims[i] for i in order))

    def unsqueezed(self, dim: int) -> View:
        """A dimension of one position before ``dim``."""
        return replace(self, dims=(*self.dims[:dim], (), *self.dims[dim:]))

    def without(self, dim: int) -> View:
        """Dropped dimension ``dim``, which has one position."""
        return replace(self, dims=(*self.dims[:dim], *self.dims[dim + 1 :]))

    def expanded(self, shape: Sequence[int]) -> View | None:
        """Broadcast to ``shape`` as torch does (-1 keeps an extent); None where it does not fit."""
        dims = [()] * (len(shape) - len(self.dims)) + list(self.dims)
        if len(dims) != len(shape):
            return None
        for i, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
            have = prod(d.extent for d in dim)
            if extent in (-1, have):
                continue
            if have != 1:
                return None
            dims[i] = (Digit(-1, extent, 1),)
        return replace(self, dims=tuple(tuple(d) for d in dims))

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same elements in row-major order as ``shape``; None where digits do not allow it."""
        rest = [d for dim in self.dims for d in dim]
        dims: list[tuple[Digit, ...]] = []
        for extent in shape:
            took = _take(rest, extent)
            if took is None:
                return None
            dims.append(merge(took))
        return replace(self, dims=tuple(dims)) if not rest else None


def _take(rest: list[Digit], extent: int) -> list[Digit] | None:
    """Digits from the front of ``rest`` that make up ``extent``; the last one may be cut."""
    took: list[Digit] = []
    while extent > 1:
        if not rest:
            return None
        digit = rest.pop(0)
        if extent % digit.extent == 0:
            took.append(digit)
            extent //= digit.extent
        elif digit.extent % extent == 0:
            inner = digit.extent // extent
            took.append(Digit(digit.dim, extent, digit.stride * inner))
            rest.insert(0, Digit(digit.dim, inner, digit.stride))
            extent = 1
        else:
            return None
    return took


def broadcast(views: Sequence[View]) -> list[int]:
    """The shape of views together, as torch broadcasts; ValueError where they do not fit."""
    rank = max(len(v.dims) for v in views)
    sizes = [(1,) * (rank - len(v.dims)) + v.shape for v in views]
    wide = [set(column) - {1} for column in zip(*sizes, strict=True)]
    if any(len(w) > 1 for w in wide):
        raise ValueError(f"shapes {[list(v.shape) for v in views]} do not broadcast")
    return [max(w, default=1) for w in wide]


def merge(digits: Sequence[Digit]) -> tuple[Digit, ...]:
    """Neighbours that nest are one digit."""
    merged: list[Digit] = []
    for digit in digits:
        last = merged[-1] if merged else None
        if (
            last
            and last.dim == digit.dim
            and (digit.dim == -1 or last.stride == digit.stride * digit.extent)
        ):
            merged[-1] = Digit(digit.dim, last.extent * digit.extent, digit.stride)
        else:
            merged.append(digit)
    return tuple(merged)


def identity(base: Base) -> View:
    """The base as it is."""
    return View(base, tuple((Digit(p, e, 1),) for p, e in enumerate(base.shape)))


def cut(digits: Sequence[Digit], stride: int, extent: int) -> list[Digit] | None:
    """Of a dimension made of ``digits``, the positions ``stride * k`` for ``k < extent``."""
    rest = list(digits)
    total = prod(d.extent for d in digits)
    if total % (stride * extent):
        return None
    outer = _take(rest, total // (stride * extent))
    return None if outer is None else _take(rest, extent)


def compose(outer: View, inner_dims: Dims, base: Base, scale: Scale) -> View | None:
    """``outer`` over a base that itself has ``inner_dims`` over ``base``: one view."""
    dims = _composed(outer.dims, inner_dims)
    return None if dims is None else View(base, dims, outer.scale * scale)


# Layers and ranks repeat the same few forms.
@lru_cache(maxsize=1 << 14)
def _composed(outer: Dims, inner: Dims) -> Dims | None:
    dims: list[tuple[Digit, ...]] = []
    for dim in outer:
        digits: list[Digit] = []
        for digit in dim:
            if digit.dim < 0:
                digits.append(digit)
                continue
            part = cut(inner[digit.dim], digit.stride, digit.extent)
            if part is None:
                return None
            digits.extend(part)
        dims.append(merge(digits))
    return tuple(dims)
