"""What the ranks return against what the sequential program returns, in numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce as fold
from itertools import permutations, product
from math import prod
from typing import Any, NamedTuple

import torch

from gg_datalog.extract.view import View
from gg_datalog.replay.derived import APART, OPEN, START, Numbers, difference, positions
from gg_datalog.replay.documents import Json
from gg_datalog.replay.evaluate import JOIN, Evaluator, NotEvaluated, based, viewed
from gg_datalog.replay.tensor import Tensor
from gg_datalog.result.records import Returned


@dataclass(repr=False)
class Shown:
    """What a node shows of its base: the base as the node has it (factor included), which of its
    elements the node shows, and which of these a relation accounts for."""

    base: Tensor
    shown: Tensor
    covered: Tensor

    @property
    def complete(self) -> bool:
        """Is every element accounted for?"""
        return bool((self.covered | ~self.shown).all())


def _shown(view: Any, value: Any) -> Shown | None:
    """None where the node does not compute what it was lowered to."""
    if not isinstance(view, View) or not isinstance(value, torch.Tensor):
        return None
    if value.shape != torch.Size(view.shape):
        return None
    base, shown = based(view, value)
    again = viewed(View(view.base, view.dims), base)
    if difference(again, value).fits is False:
        return None
    return Shown(base, shown, torch.zeros_like(shown))


class Zeros(NamedTuple):
    """The base of what a rank returns is 0 from position ``first`` of dimension ``dim`` on."""

    rank: int
    dim: int
    first: int


@dataclass(repr=False)
class _Parts:
    """The parts of one sum (or maximum) that the ranks hold of the same elements."""

    kind: str
    extent: int
    at: Any
    rows: dict[tuple[int, int], list[tuple[Shown, Any]]] = field(default_factory=dict)

    def whole(self) -> Tensor | None:
        """All parts together; None where some are missing, or meet."""
        upto = 0
        for lo, n in sorted(self.rows):
            meets = lo < upto or len(self.rows[lo, n]) > 1
            if lo > upto or (meets and self.kind == "sum"):
                return None
            upto = max(upto, lo + n)
        if upto < self.extent:
            return None
        pieces = [piece.base[there] for held in self.rows.values() for piece, there in held]
        total = pieces[0]
        for piece in pieces[1:]:
            total = JOIN[self.kind](total, piece)
        return total


def related(
    seq: Evaluator,
    dist: Evaluator,
    wanted: Json,
    rows: Sequence[Returned],
    zeros: Sequence[Zeros] = (),
) -> Numbers | None:
    """An output by the derived relations of what the ranks return for it, parts added up; None
    where these, and ``zeros``, do not account for every element of it, and of what each rank
    returns."""
    whole = _shown(seq.contexts[0].values.get(wanted["seq"]), seq.nodes[0].get(wanted["seq"]))
    if whole is None or not rows:
        return None
    pieces = {}
    for rank, name in wanted["dist"].items():
        views, values = dist.contexts[int(rank)].values, dist.nodes[int(rank)]
        found = _shown(views.get(name), values.get(name))
        if found is None:
            return None
        pieces[int(rank)] = found
    worst = START
    for rank, dim, first in zeros:
        piece, behind = pieces[rank], (slice(None),) * dim + (slice(first, None),)
        nothing = torch.zeros_like(piece.base[behind])
        worst = worst.beside(difference(piece.base[behind], nothing))
        piece.covered[behind] = True
    parts: dict[Any, _Parts] = {}
    for row in rows:
        piece = pieces[row.rank]
        try:
            at, there = positions(row.block, whole.base.shape, piece.base.shape)
        except (IndexError, NotEvaluated):
            return None
        if not row.parts:
            both = whole.shown[at] & piece.shown[there]
            ours, theirs = (x.expand(both.shape)[both] for x in (whole.base[at], piece.base[there]))
            worst = worst.beside(difference(theirs, ours))
            whole.covered[at], piece.covered[there] = True, True
        elif len(row.parts) == 1:
            along, kind, lo, n, extent = row.parts[0]
            one = parts.setdefault((along, row.block), _Parts(kind, extent, at))
            one.rows.setdefault((lo, n), []).append((piece, there))
    for one in parts.values():
        total = one.whole()
        if total is None:
            continue
        worst = worst.beside(difference(*torch.broadcast_tensors(total, whole.base[one.at])))
        whole.covered[one.at] = True
        for held in one.rows.values():
            for piece, there in held:
                piece.covered[there] = True
    return worst if whole.complete and all(p.complete for p in pieces.values()) else None


class Meant(NamedTuple):
    """What a piece should be: ``part``, which begins at ``at`` of the whole tensor; ``place`` is
    which of the pieces it is, -1 for all of them added up. Where it is no range, ``order`` has the
    dimension and the positions of the whole."""

    place: int
    piece: Tensor
    part: Tensor
    at: tuple[int, ...]
    order: tuple[int, tuple[int, ...]] | None = None


Layout = tuple[int, tuple[tuple[int, ...], ...]]  # an extent, and which positions each rank has
Arrangement = list[Meant]
TOGETHER = -1


def by_shape(
    whole: Tensor,
    pieces: Sequence[Tensor],
    partial: bool = False,
    layouts: Collection[Layout] = (),
) -> Numbers:
    """The difference where pieces are replicas, or shares along some dimensions, in some order of
    the ranks that their program may have meant (of a partial output: where they add up to it): the
    closest one counts. ``layouts`` are orders in which inputs are cut. Of other shapes nothing can
    be told, unless there are too few elements."""
    if not pieces or sum(p.numel() for p in pieces) < whole.numel():
        return APART
    every = (*_arrangements(whole, pieces, partial), *_laid_out(whole, pieces, layouts))
    found = [_numbers(meant) for meant in every]
    return closest(found) if found else OPEN


def most_likely(
    whole: Tensor,
    pieces: Sequence[Tensor],
    partial: bool = False,
    layouts: Collection[Layout] = (),
) -> Arrangement | None:
    """The arrangement whose numbers :func:`by_shape` gives; None where there is none."""
    if not pieces or sum(p.numel() for p in pieces) < whole.numel():
        return None
    every = [*_arrangements(whole, pieces, partial), *_laid_out(whole, pieces, layouts)]
    found = [_numbers(meant) for meant in every]
    return every[found.index(closest(found))] if found else None


def _laid_out(
    whole: Tensor, pieces: Sequence[Tensor], layouts: Collection[Layout]
) -> Iterator[Arrangement]:
    """Pieces that are cut along one dimension as some input is."""
    for extent, ranks in layouts:
        for dim in (d for d, e in enumerate(whole.shape) if e == extent):
            shapes = [(*whole.shape[:dim], len(at), *whole.shape[dim + 1 :]) for at in ranks]
            if shapes != [tuple(p.shape) for p in pieces]:
                continue
            yield [
                Meant(i, p, whole[(slice(None),) * dim + (list(at),)], (0,) * dim, (dim, at))
                for i, (p, at) in enumerate(zip(pieces, ranks, strict=True))
            ]


def _numbers(meant: Arrangement) -> Numbers:
    worst = START
    for one in meant:
        worst = worst.beside(difference(one.piece, one.part))
    return worst


def _arrangements(whole: Tensor, pieces: Sequence[Tensor], partial: bool) -> Iterator[Arrangement]:
    origin = (0,) * whole.dim()
    if all(p.shape == whole.shape for p in pieces):
        yield [Meant(i, piece, whole, origin) for i, piece in enumerate(pieces)]
        if partial:
            yield [Meant(TOGETHER, fold(JOIN["sum"], pieces), whole, origin)]
        return
    for dim in range(whole.dim()):
        rest = [(*p.shape[:dim], *p.shape[dim + 1 :]) for p in pieces if p.dim() == whole.dim()]
        if len(rest) < len(pieces) or set(rest) != {(*whole.shape[:dim], *whole.shape[dim + 1 :])}:
            continue
        yield from _along(whole, pieces, dim)
    yield from _grids(whole, pieces)


def _grids(whole: Tensor, pieces: Sequence[Tensor]) -> Iterator[Arrangement]:
    """Equal shares along several dimensions, some of them on several ranks: ranks run through the
    dimensions (and the copies) in some order, the last one fastest."""
    shape = pieces[0].shape
    if any(p.shape != shape for p in pieces) or len(shape) != whole.dim() or 0 in shape:
        return
    if any(e % own for e, own in zip(whole.shape, shape, strict=True)):
        return
    cuts = {dim: e // own for dim, (e, own) in enumerate(zip(whole.shape, shape, strict=True))}
    cuts = {dim: count for dim, count in cuts.items() if count > 1}
    copies, rest = divmod(len(pieces), prod(cuts.values()))
    if rest or len(cuts) > 3:
        return
    if copies > 1:
        cuts[COPIES] = copies
    for order in permutations(cuts):
        places = product(*(range(cuts[dim]) for dim in order))
        yield [
            _share(i, whole, piece, dict(zip(order, place, strict=True)))
            for i, (piece, place) in enumerate(zip(pieces, places, strict=True))
        ]


COPIES = -1


def _share(place: int, whole: Tensor, piece: Tensor, which: Mapping[int, int]) -> Meant:
    """A piece as the given share along each of some dimensions."""
    at = [which.get(dim, 0) * piece.shape[dim] for dim in range(whole.dim())]
    part = whole
    for dim in (dim for dim in which if dim != COPIES):
        part = part.narrow(dim, at[dim], piece.shape[dim])
    return Meant(place, piece, part, tuple(at))


def _along(whole: Tensor, pieces: Sequence[Tensor], dim: int) -> Iterator[Arrangement]:
    """Shares in rank order; of several ranks that hold the same share each one has to."""
    total = sum(p.shape[dim] for p in pieces)
    extent = whole.shape[dim]
    if not extent or not total or total % extent:
        return
    copies = total // extent
    if len(pieces) % copies:
        return
    orders = [list(range(len(pieces)))]
    if copies > 1:  # ranks of one share are side by side, or far apart
        size = len(pieces) // copies
        orders = [[i // copies for i in range(len(pieces))], [i % size for i in range(len(pieces))]]
    for order in orders:  # per piece, which of the shares it is
        widths = {place: p.shape[dim] for place, p in zip(order, pieces, strict=True)}
        fits = all(widths[i] == p.shape[dim] for i, p in zip(order, pieces, strict=True))
        if not fits or sum(widths.values()) != extent:
            continue
        made = []
        for number, (place, piece) in enumerate(zip(order, pieces, strict=True)):
            start = sum(width for i, width in widths.items() if i < place)
            part = whole.narrow(dim, start, piece.shape[dim])
            at = tuple(start if d == dim else 0 for d in range(whole.dim()))
            made.append(Meant(number, piece, part, at))
        yield made


def closest(numbers: Sequence[Numbers]) -> Numbers:
    """What fits best."""
    order = {True: 0, None: 1, False: 2}
    return min(
        numbers, key=lambda n: (order[n.fits], float("inf") if n.max_rel is None else n.max_rel)
    )


__all__ = ["TOGETHER", "Layout", "Meant", "NotEvaluated", "Numbers", "Zeros", "by_shape", "closest",
           "most_likely", "related"]  # fmt: skip
