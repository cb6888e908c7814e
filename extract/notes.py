"""What lowering an operator found out about the base tensor it gives, for operators after it.

None of it is a relation between the sides: each note says how a tensor could be written in another
way, or what its elements are. Who reads a note checks that it fits; without a note the tensor
is what its record says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from gg_datalog.extract.blanks import Blank
from gg_datalog.extract.finite import Known
from gg_datalog.extract.halves import Half
from gg_datalog.extract.pieces import Pieces
from gg_datalog.extract.records import Lookup
from gg_datalog.extract.scale import ONE, Scale
from gg_datalog.extract.view import Base, Digit, Dims, View, compose, cut


class Padded(NamedTuple):
    """A piece with 0 around it, from ``start`` on along dimension ``dim``; ``dims`` is how the
    whole lies over its base."""

    piece: View
    dims: Dims
    dim: int
    start: int

    def seen_as(self, x: View) -> tuple[View, int, int] | None:
        """The piece in the order of dimensions of a view of the whole, the dimension that it is
        cut from and where it starts."""
        free = list(range(len(self.dims)))
        order = []
        for digits in x.dims:
            place = next((k for k in free if self.dims[k] == digits), None)
            if place is None:
                return None
            free.remove(place)
            order.append(place)
        if free:
            return None
        return self.piece.permuted(order).scaled(x.scale), order.index(self.dim), self.start


class Cleared(NamedTuple):
    """``of``, with 0 wherever ``mask`` is true; both in the dimensions of the base."""

    of: View
    mask: View

    def seen_as(self, x: View) -> tuple[View, View] | None:
        """Both, in the dimensions of a view of the base."""
        of = compose(x, self.of.dims, self.of.base, self.of.scale)
        mask = compose(View(x.base, x.dims), self.mask.dims, self.mask.base, self.mask.scale)
        return None if of is None or mask is None else (of, mask)


class Classes(NamedTuple):
    """A factor per row times the one-hot class of the row; ``dims``: how it lies over its base,
    with the classes in dimension ``at``, of which ``factor`` has one position. ``hidden`` are the
    classes without those of rows where the factor is 0."""

    dims: Dims
    factor: View
    hot: View
    at: int = 1
    hidden: View | None = None

    def seen_as(self, x: View, dim: int) -> tuple[View, View, View | None] | None:
        """All, in the dimensions of a view of which dimension ``dim`` counts the classes."""
        if x.shape[dim] == 1 or x.dims[dim] != self.dims[self.at]:
            return None
        if [d for d in x.dims if d] != [d for d in self.dims if d]:
            return None
        rows = [*x.shape[:dim], 1, *x.shape[dim + 1 :]]
        factor = self.factor.scaled(x.scale).reshaped(rows)
        hot = self.hot.reshaped(x.shape)
        hidden = None if self.hidden is None else self.hidden.reshaped(x.shape)
        return None if factor is None or hot is None else (factor, hot, hidden)


class Shifted(NamedTuple):
    """``of`` is ``low`` plus its maximum ``high`` along dimension ``dim``, which has one position
    there."""

    of: View
    dim: int
    low: View
    high: View


class Looked(NamedTuple):
    """A lookup as it was asked for, with a letter per dimension; ``dims``: how the result lies over
    its base."""

    table: View
    lt: tuple[str, ...]
    ids: View
    li: tuple[str, ...]
    out: tuple[str, ...]
    dims: Dims


class Share(NamedTuple):
    """``exp(one - both)``, where ``both`` is the logarithm of ``exp(one) + exp(other)``: what is
    missing to 1 is ``exp(other - both)``. All in the dimensions of the base."""

    one: View
    other: View
    both: View


class Shared(NamedTuple):
    """A :class:`Share` times something, in the dimensions of the base."""

    share: View
    of: View


class Weighted(NamedTuple):
    """``by`` times ``core`` (nothing: 1) times the exponential of the sum of ``terms``, all in the
    dimensions of the base."""

    core: View | None
    terms: tuple[View, ...]
    by: Scale = ONE

    def seen_as(self, x: View) -> Weighted | None:
        """The same in the dimensions of a view of the base."""
        plain = View(x.base, x.dims)
        rows = [*self.terms, *([] if self.core is None else [self.core])]
        seen = [compose(plain, t.dims, t.base, t.scale) for t in rows]
        if any(v is None for v in seen):
            return None
        found = [v for v in seen if v is not None]
        core = None if self.core is None else found.pop()
        return Weighted(core, tuple(found), self.by * x.scale)


class Divided(NamedTuple):
    """``of``, in the dimensions of the base, divided by a number that depends on data."""

    of: View
    by: Base


class Counted(NamedTuple):
    """``start``, ``start + step``, ...: so many integers along the one dimension of the base."""

    start: int
    step: int
    extent: int


class Tabled(NamedTuple):
    """``values[i]`` where ``of``, which has the dimensions of the base, is i."""

    of: Base
    values: tuple[int, ...]


class Cut(NamedTuple):
    """What a slice is a slice of: ``kept`` are the labels that its own dimensions carry."""

    of: View
    label: int
    start: int
    size: int
    kept: tuple[int, ...]

    def under(self, digit: Digit) -> list[Digit] | None:
        """A digit of the slice as digits of what it is cut from (of its first positions)."""
        if digit.dim < 0:
            return None
        label = self.kept[digit.dim]
        of = self.of.dims[label]
        if label == self.label:
            inner = cut(of, 1, self.size)
            if inner is None:
                return None
            of = tuple(inner)
        if any(d.dim < 0 for d in of):
            return None
        return cut(of, digit.stride, digit.extent)


@dataclass
class Notes:
    """The notes of one side, by base tensor."""

    pieces: dict[Base, Pieces] = field(default_factory=dict)
    padded: dict[Base, Padded] = field(default_factory=dict)
    cleared: dict[Base, Cleared] = field(default_factory=dict)
    classes: dict[Base, Classes] = field(default_factory=dict)
    cuts: dict[Base, Cut] = field(default_factory=dict)
    taken: dict[Base, Lookup] = field(default_factory=dict)  # rows that ids choose
    chosen: dict[Base, View] = field(default_factory=dict)  # positions where a mask is true
    placed: dict[Base, View] = field(default_factory=dict)  # 0 but where this mask is true
    counted: dict[Base, Counted] = field(default_factory=dict)
    halves: dict[Base, Half] = field(default_factory=dict)  # of masks: where they are true
    blanks: dict[Base, Blank] = field(default_factory=dict)
    # a "sum" of what is never less than 0, which may be 0, or a "max" that is finite or -inf
    spotted: dict[Base, str] = field(default_factory=dict)
    ids: dict[Base, tuple[int, int]] = field(default_factory=dict)  # what is looked up: the ends
    known: dict[Base, tuple[int, ...]] = field(default_factory=dict)  # integers of a buffer
    tables: dict[Base, Tabled] = field(default_factory=dict)
    permutations: set[Base] = field(default_factory=set)  # every position once
    truths: set[Base] = field(default_factory=set)  # true and false alone
    weighted: dict[Base, Weighted] = field(default_factory=dict)
    logarithms: dict[Base, View] = field(default_factory=dict)  # of what, where that is positive
    positive: set[Base] = field(default_factory=set)  # more than 0, where the inputs are finite
    finite: set[Base] = field(default_factory=set)  # where the inputs are
    infinite: set[Base] = field(default_factory=set)  # or may be, even where the inputs are not
    same: dict[Base, View] = field(default_factory=dict)  # another form: the tensor that it gives
    summed: dict[Base, tuple[View, ...]] = field(default_factory=dict)  # a sum in other words
    lows: dict[Base, Shifted] = field(default_factory=dict)
    stable: dict[Base, tuple[View, ...]] = field(default_factory=dict)  # in the order of its view
    # sums that add up nothing of `summed` or `stable`, as far as so many of these were noted
    plain: dict[Base, int] = field(default_factory=dict)
    looked: dict[Base, Looked] = field(default_factory=dict)
    shares: dict[Base, Share] = field(default_factory=dict)
    shared: dict[Base, Shared] = field(default_factory=dict)
    divided: dict[Base, Divided] = field(default_factory=dict)

    def finiteness(self) -> Known:
        """What is known of which tensors are finite, and takes note of more."""
        return Known(self.positive, self.finite, self.infinite)
