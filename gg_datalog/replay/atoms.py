"""Sizes that have to change together: dimensions as products of atoms.

A dimension is a list of atoms, outermost first. Two dimensions that an operator lines up are
unified: atoms are split until both lists match, and then are one. An atom that no smaller size may
stand for (a number of ranks, of pieces, of whatever an attribute counts) is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod


@dataclass(eq=False)
class Atom:
    """A size; ``into`` are (outer, inner) once it was split, ``same`` the atom it is one with."""

    extent: int
    fixed: bool = False
    same: Atom | None = None
    into: tuple[Atom, Atom] | None = None
    size: int = 0


Dim = list[Atom]


def fresh(extent: int) -> Dim:
    """A dimension of which nothing is known yet."""
    return [Atom(extent)] if extent != 1 else []


def fixed(extent: int) -> Dim:
    """A dimension that keeps its size."""
    return [Atom(extent, fixed=True)] if extent != 1 else []


def root(atom: Atom) -> Atom:
    """The atom that stands for all that are one with it."""
    while atom.same is not None:
        atom = atom.same
    return atom


def leaves(dims: Sequence[Atom]) -> Dim:
    """Atoms that are not split, in order."""
    found: Dim = []
    for atom in dims:
        atom = root(atom)
        if atom.into is None:
            found.append(atom)
        else:
            found += leaves(atom.into)
    return found


def extent(dim: Sequence[Atom]) -> int:
    """The captured size."""
    return prod(root(a).extent for a in dim)


def size(dim: Sequence[Atom]) -> int:
    """The new size."""
    return prod(a.size or a.extent for a in leaves(dim))


def fix(dims: Sequence[Atom]) -> None:
    """These sizes stay."""
    for atom in leaves(dims):
        atom.fixed = True


def split(atom: Atom, inner: int) -> None:
    """Cuts an atom into an outer and an inner one."""
    assert atom.into is None and atom.extent % inner == 0
    atom.into = Atom(atom.extent // inner, atom.fixed), Atom(inner, atom.fixed)


def unify(a: Sequence[Atom], b: Sequence[Atom]) -> None:
    """Makes two lists of the same total size one; ValueError where the totals differ."""
    if extent(a) != extent(b):
        raise ValueError(f"{extent(a)} positions are not {extent(b)}")
    left, right = list(a), list(b)
    while True:
        left, right = leaves(left), leaves(right)
        if not left or not right:
            return
        x, y = left[-1], right[-1]
        if x is y:
            pass
        elif x.extent == y.extent:
            x.same = y
            y.fixed = y.fixed or x.fixed
        elif x.extent % y.extent == 0:
            split(x, y.extent)
            continue
        elif y.extent % x.extent == 0:
            split(y, x.extent)
            continue
        else:  # the two do not nest: nothing of them may change
            fix([*left, *right])
            return
        left, right = left[:-1], right[:-1]


def cut(dim: Sequence[Atom], at: Sequence[int]) -> Dim:
    """The unit in which positions ``at`` (and the dimension itself) are counted: how many units
    there are is fixed, how large one is may change."""
    unit = gcd(extent(dim), *at)
    inner = fresh(unit)
    unify(dim, [*fixed(extent(dim) // unit), *inner])
    return inner


def off_by(dim: Sequence[Atom], at: Sequence[int]) -> int:
    """-1, 0 or 1: how far positions ``at`` all lie beside those that divide the dimension well."""

    def unit(by: int) -> int:
        return gcd(extent(dim), *(p - by for p in at))

    best = max((0, -1, 1), key=unit)
    return best if unit(best) >= CLEARLY * unit(0) else 0


CLEARLY = 4


def scaled(value: int, unit: Sequence[Atom], by: int = 0) -> int:
    """A position counted in units (but for ``by``), in the new sizes."""
    return (value - by) // extent(unit) * size(unit) + by
