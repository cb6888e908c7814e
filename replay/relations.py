"""Derived relations against numbers: ``D[piece] = times * Part(S, axis -> range, ...)[block]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import torch

from gg_datalog.extract.view import Base
from gg_datalog.replay.evaluate import EVERYTHING, Evaluator, Limits, NotEvaluated
from gg_datalog.replay.tensor import Tensor
from gg_datalog.terms import parse_record

RELATIVE, ABSOLUTE = 1e-8, 1e-11
record = cache(parse_record)


def coefficient(text: str) -> float:
    """num/den * over / under as a number."""
    num, den, over, under = record(text)
    value = float(Fraction(num, den))
    for words, power in ((over, 1), (under, -1)):
        for word in filter(None, str(words if words is not None else "").split("*")):
            value *= float(Fraction(word)) ** power
    return value


def limits(text: str) -> Limits:
    """The restrictions that a stack of parts stands for."""
    found = set()
    rest = record(text)
    while rest is not None:
        along, _, lo, n, _, rest = rest
        found.add((along, lo, n))
    return frozenset(found)


def positions(
    block: str, seq: tuple[int, ...], dist: tuple[int, ...]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Index tensors of both sides; IndexError for a position outside of a tensor."""
    dims = []
    rest = record(block)
    while rest is not None:
        dims.append(rest[0])
        rest = rest[1]
    if len(dims) != len(seq):
        raise IndexError(f"{len(dims)} entries for {len(seq)} dimensions")
    runs = []
    for p, run in enumerate(dims):
        while run is not None:
            runs.append((p, run))
            run = run[-1]
    sizes = [run[2] for _, run in runs]
    ours = [torch.zeros([1] * len(sizes), dtype=torch.int64) for _ in seq]
    theirs = [torch.zeros([1] * len(sizes), dtype=torch.int64) for _ in dist]
    for axis, (p, (stride, lo, n, dim, dist_stride, dist_lo, _)) in enumerate(runs):
        steps = torch.arange(n).reshape([-1 if i == axis else 1 for i in range(len(sizes))])
        ours[p] = ours[p] + stride * (lo + steps)
        if dim >= 0:
            theirs[dim] = theirs[dim] + dist_stride * (dist_lo + steps)
    for at, extent in zip([*ours, *theirs], [*seq, *dist], strict=True):
        if at.min() < 0 or at.max() >= extent:
            raise IndexError(f"position {int(at.max())} of {extent}")
    return tuple(i.expand(sizes) for i in ours), tuple(i.expand(sizes) for i in theirs)


def difference(a: Tensor, b: Tensor) -> tuple[float, float]:
    """Largest absolute difference, and the largest relative to the size of what is compared, of the
    elements that are numbers on both sides."""
    a, b = torch.broadcast_tensors(a.to(torch.float64), b.to(torch.float64))
    known = ~(a.isnan() & b.isnan()) & ~(a == b)
    if not bool(known.any()):
        return 0.0, 0.0
    apart = (a - b).abs()[known].nan_to_num(nan=float("inf"), posinf=float("inf"))
    largest = max(
        (x[x.isfinite()].abs().max().item() for x in (a, b) if x.isfinite().any()), default=0.0
    )
    worst = float(apart.max())
    return worst, worst / largest if largest else float("inf")


def same(a: Tensor, b: Tensor) -> bool:
    """Equal but for rounding."""
    absolute, relative = difference(a, b)
    return absolute <= ABSOLUTE or relative <= RELATIVE


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

    def problem(self, row: Mapping[str, Any]) -> str | None:
        """What is wrong with a relation; :class:`NotEvaluated` where nothing can be said."""
        ours, theirs = self.bases["seq"][row["seq"]], self.bases["dist"][row["dist"]]
        open_ = limits(row["parts"]) if row["parts"] != "nil" else EVERYTHING
        try:
            at, there = positions(row["block"], ours.shape, theirs.shape)
        except IndexError as error:
            return str(error)
        whole, piece = self.seq.value(ours, open_), self.dist.value(theirs)
        expected = (
            whole[at] * coefficient(row["times"]) if at else whole * coefficient(row["times"])
        )
        found = piece[there] if there else piece
        if same(found, expected):
            return None
        absolute, relative = difference(found, expected)
        return f"differs by {absolute:.3g} (relative {relative:.3g})"


__all__ = ["Checker", "NotEvaluated", "coefficient", "difference", "positions", "same"]
