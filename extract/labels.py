"""Labels of an operator, from the views of its operands and a letter per dimension."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gg_datalog.extract.records import DigitMap, Label
from gg_datalog.extract.view import Digit, Dims, View, cut

Letters = Sequence[str]
FINE = ("parallel", "sum", "max", "min")  # kinds of dimensions that may be cut
# (letter, places of the operands that carry the label) -> (factor, kind)
Naming = Callable[[str, tuple[int, ...]], tuple[str, str]]


@dataclass(frozen=True)
class Space:
    """The labels of an operator. ``segments`` lists per letter, outer first, (label or -1, extent):
    -1 is a repetition, which no operand carries."""

    labels: tuple[Label, ...]
    maps: list[DigitMap]
    segments: Mapping[str, Sequence[tuple[int, int]]]

    def result(self, letters: Letters) -> tuple[tuple[int, ...], Dims]:
        """Labels of a result with these letters, and the dims of its view over its base."""
        labels: list[int] = []
        dims: list[tuple[Digit, ...]] = []
        for letter in letters:
            dim: list[Digit] = []
            for label, extent in self.segments[letter]:
                if label < 0:
                    dim.append(Digit(-1, extent, 1))
                    continue
                dim.append(Digit(len(labels), extent, 1))
                labels.append(label)
            dims.append(tuple(dim))
        return tuple(labels), tuple(dims)


def space(
    operands: Sequence[tuple[View, Letters]],
    naming: Naming,
    created: dict[str, int] | None = None,
    fine: Sequence[str] = FINE,
) -> Space | None:
    """The labels of an operator; None where digits of the operands do not fit together.

    ``created`` gives the extents of letters that only results have. A dimension of a kind
    in ``fine`` has a label per digit that some operand shows: tokens that were flattened from
    sequence and batch may be cut along either.
    """
    created = created or {}
    extents = _extents(operands)
    if extents is None:
        return None
    extents.update(created)
    if 0 in extents.values():
        return None
    shown = tuple((view.dims, tuple(letters), view.base.shape) for view, letters in operands)
    forms = tuple(
        (
            letter,
            extent,
            _kind(operands, naming, letter) in fine,
            letter not in created and _may_repeat(naming, letter),
        )
        for letter, extent in extents.items()
    )
    found = _structure(shown, forms)
    if found is None:
        return None
    labels = tuple(_label(naming, *cell) for cell in found.cells)
    return Space(labels, list(found.maps), found.segments)


def _label(naming: Naming, letter: str, extent: int, places: tuple[int, ...]) -> Label:
    factor, kind = naming(letter, places)
    return Label(extent, factor, "created" if not places and kind == "whole" else kind)


@dataclass(frozen=True)
class _Structure:
    """The labels of an operator before they have names: ``cells`` lists (letter, extent, places of
    the operands that carry it) per label."""

    cells: tuple[tuple[str, int, tuple[int, ...]], ...]
    maps: tuple[DigitMap, ...]
    segments: Mapping[str, tuple[tuple[int, int], ...]]


Shown = tuple[Dims, tuple[str, ...], tuple[int, ...]]  # dims, letters, shape of the base
Form = tuple[str, int, bool, bool]  # letter, extent, is it fine, may it be left out


# Layers and ranks repeat the same few forms.
@lru_cache(maxsize=1 << 14)
def _structure(shown: tuple[Shown, ...], forms: tuple[Form, ...]) -> _Structure | None:
    cells: list[tuple[str, int, tuple[int, ...]]] = []
    segments: dict[str, tuple[tuple[int, int], ...]] = {}
    rows: list[list[tuple[Digit, int, int]]] = [[] for _ in shown]
    for letter, whole, fine, repeats in forms:
        carried = tuple(_carried(dims, letters, letter) for dims, letters, _ in shown)
        borders = _borders(carried, whole, fine)
        if borders is None:
            return None
        mine: list[tuple[int, int]] = []
        for stride, extent in borders:
            found = [_segment(dims, stride, extent) for dims in carried]
            if any(f is None for f in found):
                return None
            places = tuple(i for i, f in enumerate(found) if f)
            if not places and repeats:
                mine.append((-1, extent))
                continue
            mine.append((len(cells), extent))
            for place in places:
                step = extent
                for digit in found[place] or ():
                    step //= digit.extent
                    rows[place].append((digit, len(cells), step))
            cells.append((letter, extent, places))
        segments[letter] = tuple(mine)
    maps = [_digit_map(shape, row) for (_, _, shape), row in zip(shown, rows, strict=True)]
    if any(m is None for m in maps):
        return None
    return _Structure(tuple(cells), tuple(m for m in maps if m is not None), segments)


def _kind(operands: Sequence[tuple[View, Letters]], naming: Naming, letter: str) -> str:
    places = tuple(i for i, (_, letters) in enumerate(operands) if letter in letters)
    return naming(letter, places)[1]


def _may_repeat(naming: Naming, letter: str) -> bool:
    """May a dimension that no operand carries be left out? Not where it has to be whole: the
    operator may tell its positions apart."""
    return naming(letter, ())[1] not in ("whole", "created")


def _extents(operands: Sequence[tuple[View, Letters]]) -> dict[str, int] | None:
    extents: dict[str, int] = {}
    for view, letters in operands:
        if len(letters) != len(view.dims):
            return None
        for letter, extent in zip(letters, view.shape, strict=True):
            known = extents.get(letter, 1)
            if known != 1 and extent not in (1, known):
                return None
            extents[letter] = max(known, extent)
    return extents


Carried = tuple[tuple[Digit, ...], ...]  # what one operand shows of a letter


def _carried(dims: Dims, letters: Letters, letter: str) -> Carried:
    """The dimensions of an operand that a letter names, without those of one position."""
    return tuple(d for n, d in zip(letters, dims, strict=True) if n == letter and d)


def _borders(
    operands: tuple[Carried, ...], extent: int, fine: bool
) -> tuple[tuple[int, int], ...] | None:
    """(stride, extent) per segment of a letter, outer first: cut where repetitions begin or end
    and, if it is ``fine`` and all operands allow it, between digits."""
    strides, digits = {1, extent}, {1, extent}
    for dim in (dim for dims in operands for dim in dims):
        inner = 1
        for digit, outer in zip(reversed(dim[1:]), reversed(dim[:-1]), strict=True):
            inner *= digit.extent
            digits.add(inner)
            if (digit.dim < 0) != (outer.dim < 0):
                strides.add(inner)
    for steps in (sorted(strides | digits), sorted(strides)) if fine else (sorted(strides),):
        if not any(b % a for a, b in itertools.pairwise(steps)):
            found = tuple((a, b // a) for a, b in itertools.pairwise(steps))[::-1]
            if len(steps) == len(strides) or _all_cut(operands, found):
                return found
    return None


def _all_cut(operands: tuple[Carried, ...], segments: tuple[tuple[int, int], ...]) -> bool:
    """Do all operands split into these segments?"""
    return all(
        _segment(dims, stride, extent) is not None
        for dims in operands
        for stride, extent in segments
    )


@lru_cache(maxsize=1 << 14)
def _segment(dims: Carried, stride: int, extent: int) -> tuple[Digit, ...] | None:
    """Digits that the operand has in a segment; empty where it broadcasts."""
    digits: list[Digit] = []
    for dim in dims:
        part = cut(dim, stride, extent)
        if part is None or digits:
            return None
        digits = part
    kinds = {d.dim < 0 for d in digits}
    if len(kinds) > 1:
        return None
    return () if kinds == {True} else tuple(digits)


def _digit_map(shape: Sequence[int], rows: Sequence[tuple[Digit, int, int]]) -> DigitMap | None:
    per_dim: list[tuple[tuple[int, int, int], ...]] = []
    for dim, extent in enumerate(shape):
        mine = sorted((r for r in rows if r[0].dim == dim), key=lambda r: r[0].stride)
        step = 1
        for digit, _, _ in mine:
            if digit.stride != step:
                return None
            step *= digit.extent
        if step != extent:
            return None
        per_dim.append(tuple((d.extent, label, stride) for d, label, stride in mine))
    return tuple(per_dim)
