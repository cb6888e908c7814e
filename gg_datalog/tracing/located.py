"""Where the values of a rank's buffer lie in the sequential one."""

from __future__ import annotations

import torch

from gg_datalog.tracing.pieces import Box, Piece

# How far apart computed values may lie, in units of the precision of their own: kernels round the
# same function otherwise at other places of a vector. Half types are rounded at the end.
ROUNDINGS = 8
PRECISE = (torch.float32, torch.float64)
RUNS = 256  # in how many runs a dimension may lie; what lies in more is not told
STARTS = 32  # how many places a run is tried at


def located(whole: torch.Tensor, part: torch.Tensor, expected: Box | None) -> list[Piece] | None:
    """The pieces of ``part``, pairs of boxes of both tensors that hold equal values: at
    ``expected`` where they are there, else in the longest runs along one dimension. Rows of
    ``part`` that ``whole`` does not have are in no piece. None: the shapes cannot belong together.
    """
    if whole.dim() != part.dim() or whole.dtype != part.dtype:
        return None
    if expected is not None:
        there = whole[tuple(slice(lo, hi) for lo, hi in expected)]
        if there.shape == part.shape and bool(_same(there, part).all()):
            return [(expected, [[0, e] for e in part.shape])]
    pairs = list(zip(whole.shape, part.shape, strict=True))
    other = [d for d, (a, b) in enumerate(pairs) if a != b]
    if len(other) > 1 or not whole.numel() or not part.numel():
        return None
    # along a dimension that is cut; where none is, along the one in which most is found
    tried = [_along(whole, part, dim, expected) for dim in (other or range(len(pairs)))]
    return max(tried, key=lambda pieces: sum(_extent(p) for p in pieces), default=[])


def _extent(piece: Piece) -> int:
    sizes = [hi - lo for lo, hi in piece[1]]
    return int(torch.tensor(sizes).prod())


def _along(whole: torch.Tensor, part: torch.Tensor, dim: int, expected: Box | None) -> list[Piece]:
    ours, theirs = (t.movedim(dim, 0).reshape(t.shape[dim], -1) for t in (whole, part))
    shift = expected[dim][0] if expected is not None else 0
    found = []
    for start, at, count in _runs(ours, theirs, shift):
        seq: Box = [[0, e] for e in whole.shape]
        dist: Box = [[0, e] for e in part.shape]
        seq[dim], dist[dim] = [start, start + count], [at, at + count]
        found.append((seq, dist))
    return found


def _runs(ours: torch.Tensor, theirs: torch.Tensor, shift: int) -> list[tuple[int, int, int]]:
    """Rows of ``theirs`` in ``ours``: (first, first place, how many)."""
    at = number = 0
    found: list[tuple[int, int, int]] = []
    while at < len(theirs):
        if number == RUNS:
            return []
        starts = _same(ours, theirs[at]).all(1).nonzero().flatten().tolist()
        starts = sorted(starts, key=lambda s: s != at + shift)[:STARTS]
        lengths = [_length(ours[s:], theirs[at:]) for s in starts]
        if not lengths:
            at += 1
            continue
        best = max(range(len(starts)), key=lambda i: lengths[i])
        found.append((starts[best], at, lengths[best]))
        at, number = at + lengths[best], number + 1
    return found


def _length(ours: torch.Tensor, theirs: torch.Tensor) -> int:
    """How many rows from the first on are equal."""
    count = min(len(ours), len(theirs))
    other = (~_same(ours[:count], theirs[:count]).all(1)).nonzero()
    return int(other[0]) if len(other) else count


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """By element: equal, but for rounding."""
    if not a.is_floating_point():
        return a == b
    bound = ROUNDINGS * torch.finfo(a.dtype).eps if a.dtype in PRECISE else 0.0
    return torch.isclose(a, b, rtol=bound, atol=0.0, equal_nan=True)


def uninformative(value: torch.Tensor) -> bool:
    """Do all elements hold the same?"""
    return not value.numel() or bool(_same(value, value.flatten()[0]).all())
