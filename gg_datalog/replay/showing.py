"""Elements at which the ranks' numbers are not those of the sequential program."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gg_datalog.replay.comparison import TOGETHER, Meant
from gg_datalog.replay.derived import NOTHING, RELATIVE, difference
from gg_datalog.replay.tensor import Tensor
from gg_datalog.result.report import Element

MOST = 16
DIGITS = 6
Value = float | int | bool | str


def elements(meant: Sequence[Meant], ranks: Sequence[int]) -> list[Element]:
    """The first elements that differ, rank by rank; ``ranks`` are those of the pieces."""
    found: list[Element] = []
    for one in meant:
        if difference(one.piece, one.part).fits is not False:
            continue
        rank = None if one.place == TOGETHER else ranks[one.place]
        for at in _apart(one.piece, one.part)[: MOST - len(found)]:
            place = _place(one, at)
            found.append(Element(rank, place, _value(one.part[at]), _value(one.piece[at])))
        if len(found) == MOST:
            break
    return found


def _place(one: Meant, at: tuple[int, ...]) -> tuple[int, ...]:
    """The position in the whole of a position in a piece."""
    if one.order is None:
        return tuple(a + b for a, b in zip(at, one.at, strict=True))
    dim, positions = one.order
    return (*at[:dim], positions[at[dim]], *at[dim + 1 :])


def _apart(piece: Tensor, part: Tensor) -> list[tuple[int, ...]]:
    """Positions of elements that differ by more than rounding, in order."""
    a, b = (x.to(torch.complex128 if x.is_complex() else torch.float64) for x in (piece, part))
    near = torch.isclose(a, b, rtol=RELATIVE, atol=NOTHING, equal_nan=True)
    positions = (~near).nonzero()[:MOST]
    return [tuple(int(i) for i in row) for row in positions]


def _value(x: Tensor) -> Value:
    """A number as JSON knows it, rounded to a few digits."""
    value = x.item()
    if isinstance(value, bool | int):
        return value
    text = f"{value:.{DIGITS}g}"
    plain = not isinstance(value, complex) and bool(x.isfinite())
    return float(text) if plain else text
