"""Masks that compare positions: true in one half of a tensor, on one side of a diagonal.

`triu`, `arange(n) >= bound` and rows compared with columns all say the same of their positions:
``position[col] - position[row] >= least``. A block of such a mask is such a mask, or it is true, or
false, everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gg_datalog.extract.records import DigitMap, Label, Slice
from gg_datalog.extract.view import Base, Digit, View


class Half(NamedTuple):
    """Where ``position[col] - position[row] >= least``; ``row`` and ``col`` are dimensions (or
    labels of an operator), -1 counts as position 0."""

    row: int
    col: int
    least: int

    def otherwise(self) -> Half:
        """Where it is not so."""
        return Half(self.col, self.row, 1 - self.least)

    def renamed(self, places: Mapping[int, int]) -> Half | None:
        """The same of other dimensions; None where one of them is not among ``places``."""
        found = {-1: -1, **places}
        if self.row not in found or self.col not in found:
            return None
        return Half(found[self.row], found[self.col], self.least)

    def cut(self, dim: int, start: int, single: bool) -> Half:
        """The same of positions from ``start`` on, or of that one alone."""
        row, col, least = self
        if row == dim:
            row, least = (-1 if single else row), least + start
        if col == dim:
            col, least = (-1 if single else col), least - start
        return Half(row, col, least)

    def everywhere(self, shape: Sequence[int]) -> bool | None:
        """Is it so at all positions of a tensor of this shape, or at none? None: at some."""
        rows, cols = (0 if k < 0 else shape[k] - 1 for k in (self.row, self.col))
        if -rows >= self.least:
            return True
        return False if cols < self.least else None


def leaves_some(halves: Iterable[Half], along: int, shape: Sequence[int]) -> bool:
    """Does each position of the other dimensions keep some of dimension ``along`` outside of the
    halves? The first one that is left, and the last one, are linear in those piece by piece, with
    the gap between them the widest in between: the ends decide."""
    others = {k for half in halves for k in (half.row, half.col)} - {along, -1}
    if len(others) > 1:
        return False
    for at in (0, shape[others.pop()] - 1) if others else (0,):
        low, high = 0, shape[along]
        for row, col, least in halves:
            if along not in (row, col):
                return False
            if col == along:
                high = min(high, least + (at if row >= 0 else 0))
            else:
                low = max(low, (at if col >= 0 else 0) - least + 1)
        if low >= high:
            return False
    return True


# ---- along views and operators
def whole_dims(view: View) -> dict[int, int]:
    """Dimensions of the base that dimensions of a view show as they are: base to view."""
    shape = view.base.shape
    plain = {(Digit(k, extent, 1),): k for k, extent in enumerate(shape)}
    return {plain[dim]: i for i, dim in enumerate(view.dims) if dim in plain}


def under_labels(digits: DigitMap, labels: Sequence[Label]) -> dict[int, int]:
    """Dimensions of an operand's base that one label carries: base dimension to label."""
    found = {}
    for dim, row in enumerate(digits):
        if len(row) == 1 and row[0][2] == 1 and row[0][0] == labels[row[0][1]].extent:
            found[dim] = row[0][1]
    return found


def of_slice(cut: Slice, half: Half) -> Half | None:
    """What a half of the base of a slice is of the slice."""
    under = half.renamed(whole_dims(cut.of))
    if under is None:
        return None
    shape = [cut.size if i == cut.dim else extent for i, extent in enumerate(cut.of.shape)]
    kept = [i for i, extent in enumerate(shape) if extent != 1]
    found = under.cut(cut.dim, cut.start, cut.size == 1)
    return found.renamed({i: k for k, i in enumerate(kept)})


def over_base(half: Half, view: View) -> Half | None:
    """A half of a view as one of its base; None where the view shows something else."""
    back = {i: k for k, i in whole_dims(view).items()}
    back |= {i: -1 for i, dim in enumerate(view.dims) if not dim}
    return half.renamed(back)


def seen_as(half: Half, view: View) -> Half | None:
    """A half of the base as one of a view."""
    return half.renamed(whole_dims(view))


def positions(view: View, starts: Mapping[Base, int]) -> tuple[int, int] | None:
    """(dimension or -1, start) of a view that counts 1 by 1 along one dimension, of bases that
    count from ``starts`` on."""
    start = starts.get(view.base)
    along = [i for i, dim in enumerate(view.dims) if any(d.dim >= 0 for d in dim)]
    if start is None or len(along) > 1:
        return None
    if not along:
        return (-1, start) if not view.base.shape else None
    return (along[0], start) if along[0] in whole_dims(view).values() else None
