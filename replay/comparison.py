"""What the ranks return against what the sequential program returns, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gg_datalog.extract.view import View
from gg_datalog.replay.documents import Json
from gg_datalog.replay.evaluate import Evaluator, NotEvaluated, number
from gg_datalog.replay.relations import coefficient, difference, positions, record
from gg_datalog.replay.tensor import Tensor

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Numbers:
    """The largest differences of an output; None where it cannot be put together at all."""

    max_abs: float | None
    max_rel: float | None

    def worse(self, other: Numbers) -> Numbers:
        """The larger one of two draws."""
        if self.max_abs is None or other.max_abs is None:
            return Numbers(None, None)
        return max(self, other, key=lambda n: (n.max_rel or 0.0, n.max_abs or 0.0))


def related(seq: Evaluator, dist: Evaluator, wanted: Json, rows: Rows) -> Numbers | None:
    """An output by the derived relations of what the ranks return for it; parts are added up."""
    whole_view = seq.contexts[0].values.get(wanted["seq"])
    if not isinstance(whole_view, View) or not rows:
        return None
    whole = seq.value(whole_view.base) * number(whole_view.scale)
    total: dict[str, tuple[Tensor, Tensor]] = {}
    worst = Numbers(0.0, 0.0)
    for row in rows:
        view = dist.contexts[row["rank"]].values[wanted["dist"][str(row["rank"])]]
        piece = dist.value(view.base) * number(view.scale)
        at, there = positions(row["block"], whole_view.base.shape, view.base.shape)
        found = piece[there] if there else piece
        expected = whole[at] if at else whole
        if row["parts"] == "nil":
            worst = worst.worse(Numbers(*difference(found, expected * coefficient(row["times"]))))
        else:
            before = total.get(row["block"])
            total[row["block"]] = (found if before is None else before[0] + found, expected)
    for found, expected in total.values():
        worst = worst.worse(Numbers(*difference(found, expected)))
    return worst


def by_shape(whole: Tensor, pieces: Sequence[Tensor]) -> Numbers:
    """The difference where pieces are replicas, or shares along one dimension, in some order of the
    ranks that their program may have meant: the closest one counts."""
    if not pieces:
        return Numbers(None, None)
    if all(p.shape == whole.shape for p in pieces):
        worst = Numbers(0.0, 0.0)
        for piece in pieces:
            worst = worst.worse(Numbers(*difference(piece, whole)))
        return worst
    found = []
    for dim in range(whole.dim()):
        rest = [(*p.shape[:dim], *p.shape[dim + 1 :]) for p in pieces if p.dim() == whole.dim()]
        if len(rest) < len(pieces) or set(rest) != {(*whole.shape[:dim], *whole.shape[dim + 1 :])}:
            continue
        if (made := _along(whole, pieces, dim)) is not None:
            found.append(made)
    if not found:
        return Numbers(None, None)
    return min(found, key=lambda n: n.max_rel if n.max_rel is not None else float("inf"))


def _along(whole: Tensor, pieces: Sequence[Tensor], dim: int) -> Numbers | None:
    """Shares in rank order; of several ranks that hold the same share each one has to."""
    total = sum(p.shape[dim] for p in pieces)
    extent = whole.shape[dim]
    if total % extent:
        return None
    copies = total // extent
    if len(pieces) % copies:
        return None
    orders = [list(range(len(pieces)))]
    if copies > 1:  # ranks of one share are side by side, or far apart
        size = len(pieces) // copies
        orders = [[i // copies for i in range(len(pieces))], [i % size for i in range(len(pieces))]]
    best: Numbers | None = None
    for order in orders:
        width = pieces[0].shape[dim]
        if copies == 1:
            starts = [sum(p.shape[dim] for p in pieces[:i]) for i in range(len(pieces))]
        else:
            starts = [place * width for place in order]
        if any(s + p.shape[dim] > extent for s, p in zip(starts, pieces, strict=True)):
            continue
        worst = Numbers(0.0, 0.0)
        for start, piece in zip(starts, pieces, strict=True):
            part = whole.narrow(dim, start, piece.shape[dim])
            worst = worst.worse(Numbers(*difference(piece, part)))
        if best is None or (worst.max_rel or 0.0) < (best.max_rel or 0.0):
            best = worst
    return best


def is_part(row: Mapping[str, Any]) -> bool:
    """Does a relation leave a reduction open?"""
    return record(row["parts"]) is not None


__all__ = ["NotEvaluated", "Numbers", "by_shape", "is_part", "related"]
