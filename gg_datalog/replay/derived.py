"""Derived relations against numbers: ``D[piece] = times * Part(S, axis -> range, ...)[block]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gg_datalog.extract.graph import is_symbolic
from gg_datalog.extract.view import Base
from gg_datalog.replay.dtypes import times
from gg_datalog.replay.evaluate import EVERYTHING, Evaluator, Limits, NotEvaluated
from gg_datalog.replay.tensor import Tensor
from gg_datalog.result.records import Relation
from gg_datalog.result.terms import Block, Parts

RELATIVE = 1e-10
ROUNDING = 1e-12  # what sums of numbers around 1 may be off by
NOTHING = 1e-13  # what is no larger is 0
HUGE = 1e100  # beyond, numbers overflow on one side before they do on the other


def limits(parts: Parts) -> Limits:
    """The restrictions that a stack of parts stands for."""
    return frozenset((_axis(part.along), part.lo, part.n, part.extent) for part in parts)


def _axis(along: tuple[tuple[str, int], ...]) -> Any:
    (by, place), *rest = along
    return by, place, _axis(tuple(rest)) if rest else None


def positions(
    block: Block, seq: tuple[int, ...], dist: tuple[int, ...]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Index tensors of both sides; IndexError for a position outside of a tensor."""
    if len(block) != len(seq):
        raise IndexError(f"{len(block)} entries for {len(seq)} dimensions")
    runs = [(p, run) for p, inside in enumerate(block) for run in inside]
    sizes = [run.n for _, run in runs]
    if any(map(is_symbolic, sizes)):
        raise NotEvaluated("a size that depends on data")
    ours = [torch.zeros([1] * len(sizes), dtype=torch.int64) for _ in seq]
    theirs = [torch.zeros([1] * len(sizes), dtype=torch.int64) for _ in dist]
    for axis, (p, (stride, lo, n, dim, dist_stride, dist_lo)) in enumerate(runs):
        steps = torch.arange(n).reshape([-1 if i == axis else 1 for i in range(len(sizes))])
        ours[p] = ours[p] + stride * (lo + steps)
        if dim >= 0:
            theirs[dim] = theirs[dim] + dist_stride * (dist_lo + steps)
    for at, extent in zip([*ours, *theirs], [*seq, *dist], strict=True):
        if at.min() < 0 or at.max() >= extent:
            raise IndexError(f"position {int(at.max())} of {extent}")
    return tuple(i.expand(sizes) for i in ours), tuple(i.expand(sizes) for i in theirs)


@dataclass(frozen=True)
class Numbers:
    """The largest absolute and relative difference of what was compared, None where there is
    nothing to compare; ``fits`` says whether that is rounding: None where no one can tell, for
    there is no number on both sides, or they are as small as rounding."""

    max_abs: float | None
    max_rel: float | None
    fits: bool | None

    def beside(self, other: Numbers) -> Numbers:
        """With other elements of the same draw: all of them have to fit."""
        both = self.fits, other.fits
        return self._larger(other, False if False in both else None if None in both else True)

    def again(self, other: Numbers) -> Numbers:
        """With another draw: one of which nothing can be told takes nothing back."""
        both = self.fits, other.fits
        return self._larger(other, False if False in both else True if True in both else None)

    def _larger(self, other: Numbers, fits: bool | None) -> Numbers:
        return Numbers(
            _larger(self.max_abs, other.max_abs), _larger(self.max_rel, other.max_rel), fits
        )


def _larger(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else max(a, b)


SAME = Numbers(0.0, 0.0, True)
START = Numbers(None, None, True)  # before anything is compared
APART = Numbers(None, None, False)  # what cannot be put together
OPEN = Numbers(None, None, None)  # what cannot be compared


def difference(a: Tensor, b: Tensor) -> Numbers:
    """How far two tensors of one shape are apart, relative to the largest number in them. Where
    both hold no number (a logarithm of something negative) there is nothing to compare."""
    if a.shape != b.shape:
        return APART
    if not any(x.is_floating_point() or x.is_complex() for x in (a, b)):
        return _apart_exactly(a, b)
    a, b = _plain(a), _plain(b)
    if torch.equal(a, b):
        return SAME
    if bool(a.isnan().any()):
        known = ~(a.isnan() & b.isnan())
        if not bool(known.any()):
            return OPEN
        a, b = a[known], b[known]
    apart = (a - b).abs().masked_fill_(a == b, 0)  # infinities, too
    worst = float(apart.nan_to_num_(nan=float("inf"), posinf=float("inf")).max())
    if not worst:
        return SAME
    largest = max((float(x[x.isfinite()].abs().max()) for x in (a, b) if x.isfinite().any()),
                  default=0.0)  # fmt: skip
    relative = worst / largest if largest else float("inf")
    if relative <= RELATIVE or max(worst, largest) <= NOTHING:
        return Numbers(worst, relative, True)
    return Numbers(worst, relative, None if worst <= ROUNDING or largest > HUGE else False)


def _apart_exactly(a: Tensor, b: Tensor) -> Numbers:
    """Of integers and truth values, none of which is rounded."""
    if torch.equal(a.to(torch.int64), b.to(torch.int64)):
        return SAME
    a, b = a.to(torch.float64), b.to(torch.float64)
    worst = max(float((a - b).abs().max()), 1.0)
    return Numbers(worst, worst / max(float(a.abs().max()), float(b.abs().max()), 1.0), False)


def _plain(x: Tensor) -> Tensor:
    """Real numbers."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x.to(torch.float64)


@dataclass(repr=False)
class Checker:
    """Both sides, evaluated for one execution."""

    seq: Evaluator
    dist: Evaluator

    def __post_init__(self) -> None:
        self.bases: dict[str, dict[str, Base]] = {
            n: {b.name: b for b in e.side.bases}
            for n, e in (("seq", self.seq), ("dist", self.dist))
        }

    def problem(self, held: Relation) -> str | None:
        """What is wrong with a relation; :class:`NotEvaluated` where nothing can be said."""
        ours, theirs = self.bases["seq"][held.seq], self.bases["dist"][held.dist]
        open_ = limits(held.parts) if held.parts else EVERYTHING
        whole, piece = self.seq.value(ours, open_), self.dist.value(theirs)
        try:
            at, there = positions(held.block, ours.shape, theirs.shape)
        except IndexError as error:
            return str(error)
        expected = times(whole[at] if at else whole, float(held.times.value))
        found = piece[there] if there else piece
        apart = difference(*torch.broadcast_tensors(found, expected))  # one of no dimensions
        if apart.fits is None:
            raise NotEvaluated("no numbers to compare")
        if apart.fits:
            return None
        return f"differs by {apart.max_abs or 0.0:.3g} (relative {apart.max_rel or 0.0:.3g})"


__all__ = ["APART", "OPEN", "SAME", "Checker", "NotEvaluated", "Numbers", "difference",
           "positions"]  # fmt: skip
