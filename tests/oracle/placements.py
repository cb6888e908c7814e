"""How an operand lies over the ranks: replicated, sharded (evenly, unevenly, in two pieces), or partial.

An input relation pairs boxes, so a partial operand is made inside of the graphs: the sequential
operand is the sum (maximum, ...) of an input over one more dimension, of which each rank has some
rows; what it makes of them is its part.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

CUTS = ("even", "uneven", "pieces")
REDUCTIONS = ("sum", "max", "min", "mean")
Box = tuple[int, int]


@dataclass(frozen=True)
class Placement:
    """`R`, `S0` (a dimension and how it is cut) or `Psum`."""

    kind: str
    dim: int = -1
    how: str = ""
    rows: int = 1  # of the added dimension, per rank

    def __str__(self) -> str:
        if self.kind == "S":
            return f"S({self.dim}{'' if self.how == 'even' else ' ' + self.how})"
        return f"P({self.how})" if self.kind == "P" else "R"


REPLICATED = Placement("R")


def shares(extent: int, how: str, ranks: int) -> list[list[Box]] | None:
    """Per rank the ranges of a dimension that it has; None where the cut is not possible."""
    if how == "even":
        if extent % ranks:
            return None
        size = extent // ranks
        return [[(r * size, (r + 1) * size)] for r in range(ranks)]
    if how == "pieces":
        if extent % (2 * ranks):
            return None
        size = extent // (2 * ranks)
        return [[(at, at + size) for at in (r * size, (r + ranks) * size)] for r in range(ranks)]
    if extent < ranks or (extent % ranks == 0 and extent == ranks):
        return None
    sizes = [extent // ranks + (r < extent % ranks) for r in range(ranks)]
    if extent % ranks == 0:  # one more for the first, one less for the last
        sizes[0], sizes[-1] = sizes[0] + 1, sizes[-1] - 1
    ends = [sum(sizes[: r + 1]) for r in range(ranks)]
    return [[(end - size, end)] for end, size in zip(ends, sizes, strict=True)]


def possible(shape: Sequence[int], ranks: int, floating: bool) -> list[Placement]:
    """All placements of a tensor."""
    found = [REPLICATED]
    for dim, extent in enumerate(shape):
        found += [Placement("S", dim, how) for how in CUTS if shares(extent, how, ranks)]
    kinds = REDUCTIONS if floating else REDUCTIONS[:3]
    return found + [Placement("P", -1, how, rows) for how in kinds for rows in (1, 2)]


def consistent(
    shapes: Sequence[Sequence[int]], ranks: int, rng: random.Random
) -> tuple[Placement, ...]:
    """One dimension cut, and with it those of equal extent in other operands; the rest whole."""
    dims = [(i, d) for i, shape in enumerate(shapes) for d in range(len(shape))]
    cuts = [(i, d, how) for i, d in dims for how in CUTS if shares(shapes[i][d], how, ranks)]
    if not cuts:
        return tuple(REPLICATED for _ in shapes)
    which, dim, how = rng.choice(cuts)
    extent = shapes[which][dim]
    found = []
    for i, shape in enumerate(shapes):
        fits = [d for d, e in enumerate(shape) if e == extent]
        # counted from the end, as broadcasting does, or from the start, as batches do
        same = [d for d in fits if len(shape) - d == len(shapes[which]) - dim or d == dim]
        if i == which:
            found.append(Placement("S", dim, how))
        elif fits and rng.random() < 0.85:
            choice = rng.choice(same if same and rng.random() < 0.7 else fits)
            found.append(Placement("S", choice, how))
        else:
            found.append(REPLICATED)
    return tuple(found)


def sampled(
    shapes: Sequence[Sequence[int]], floats: Sequence[bool], ranks: int, rng: random.Random
) -> tuple[Placement, ...]:
    """Placements of all operands: mostly ones that go together."""
    kind = rng.random()
    if kind < 0.5:
        return consistent(shapes, ranks, rng)
    if kind < 0.75:  # one operand is partial; others whole or partial alike
        which = rng.randrange(len(shapes)) if shapes else 0
        how, rows = rng.choice(REDUCTIONS), rng.choice((1, 2))
        part = Placement("P", -1, how, rows)
        alike = rng.random() < 0.4
        both = [i == which or (alike and rng.random() < 0.8) for i in range(len(shapes))]
        return tuple(
            part if p and (f or how != "mean") else REPLICATED
            for p, f in zip(both, floats, strict=True)
        )
    return tuple(
        rng.choice(possible(s, ranks, f)) if rng.random() < 0.7 else REPLICATED
        for s, f in zip(shapes, floats, strict=True)
    )


def rows_of(
    name: str, shape: Sequence[int], placement: Placement, ranks: int
) -> Iterator[dict[str, Any]]:
    """The input relation of a placeholder: of the operand, or of what it is reduced from."""
    whole = [[0, e] for e in shape]
    for rank in range(ranks):
        if placement.kind == "R":
            yield {"seq": name, "rank": rank, "dist": name}
            continue
        dim, pieces = cut_of(shape, placement, rank, ranks)
        at = 0
        for lo, hi in pieces:
            ours, theirs = list(whole), list(whole)
            ours[dim], theirs[dim] = [lo, hi], [at, at + hi - lo]
            at += hi - lo
            yield {"seq": name, "rank": rank, "dist": name, "seq_box": ours, "dist_box": theirs}


def cut_of(
    shape: Sequence[int], placement: Placement, rank: int, ranks: int
) -> tuple[int, list[Box]]:
    """The dimension that is cut, and the rank's ranges of it."""
    if placement.kind == "P":
        return 0, [(rank * placement.rows, (rank + 1) * placement.rows)]
    found = shares(shape[placement.dim], placement.how, ranks)
    if found is None:
        raise ValueError(f"{placement} of {list(shape)} on {ranks} ranks")
    return placement.dim, found[rank]
