"""Pieces: which part of a global tensor lies where in the tensor of a rank, as pairs of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import torch

Box = list[list[int]]
Piece = tuple[Box, Box]
# global shape, pieces (None: nothing says it), what says so, placements
Placed = tuple[tuple[int, ...], list[Piece] | None, str, list[str]]


def agree(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Does ``b`` say all that ``a`` says? The pieces of one list do not overlap."""
    return all(_volume(x[1]) == sum(_shared(x, y) for y in b) for x in a)


def _shared(a: Any, b: Any) -> int:
    """How many elements two pieces say the same of."""
    shifts = [[s[0] - d[0] for s, d in zip(seq, dist, strict=True)] for seq, dist in (a, b)]
    if shifts[0] != shifts[1]:
        return 0
    return prod(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x, y in zip(a[1], b[1], strict=True))


def _volume(box: Any) -> int:
    return prod(hi - lo for lo, hi in box)


# ---- positions to boxes
Run = tuple[int, int, int]  # first position, first place, how many


def runs(positions: Sequence[int] | torch.Tensor) -> list[Run]:
    """Consecutive positions (of a vector of whole numbers)."""
    held = torch.as_tensor(positions, dtype=torch.long)
    if not len(held):
        return []
    breaks = (held.diff() != 1).nonzero().flatten() + 1
    starts = [0, *breaks.tolist()]
    firsts = held[torch.tensor(starts)].tolist()
    ends = [*starts[1:], len(held)]
    return [(first, at, end - at) for first, at, end in zip(firsts, starts, ends, strict=True)]


def boxes(per_dim: Sequence[Sequence[Run]]) -> list[Piece]:
    """The boxes (global, local) that runs per dimension span."""
    return [
        (
            [[first, first + count] for first, _, count in one],
            [[place, place + count] for _, place, count in one],
        )
        for one in product(*per_dim)
    ]
