"""Sizes that change together: splitting, joining, cutting."""

from __future__ import annotations

from math import prod

import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from gg_datalog.replay.atoms import (
    Atom,
    cut,
    extent,
    fix,
    fixed,
    fresh,
    leaves,
    off_by,
    scaled,
    size,
    unify,
)


def choose(*dims: list[Atom], to: int = 2) -> None:
    """Gives every free atom a size."""
    for dim in dims:
        for atom in leaves(dim):
            atom.size = atom.extent if atom.fixed else to


def test_what_is_one_changes_together() -> None:
    a, b = fresh(12), fresh(12)
    unify(a, b)
    choose(a, to=5)
    assert (size(a), size(b)) == (5, 5)
    assert (extent(a), extent(b)) == (12, 12)


def test_a_dimension_splits_as_the_other_one_does() -> None:
    whole, parts = fresh(24), [*fresh(2), *fresh(3), *fresh(4)]
    unify(whole, parts)
    assert [a.extent for a in leaves(whole)] == [2, 3, 4]
    choose(parts, to=5)
    assert size(whole) == 5 * 5 * 5


def test_splits_meet_from_within() -> None:
    """6 x 4 and 3 x 8: 8 is 2 x 4, and 6 is 3 x 2."""
    a, b = [*fresh(6), *fresh(4)], [*fresh(3), *fresh(8)]
    unify(a, b)
    assert [x.extent for x in leaves(a)] == [3, 2, 4]
    assert leaves(a) == leaves(b)


def test_a_dimension_of_one_position_has_no_atoms() -> None:
    assert fresh(1) == fixed(1) == []
    unify(fresh(7), [*fresh(1), *fresh(7)])
    assert size([]) == extent([]) == 1


def test_other_totals_are_refused() -> None:
    with pytest.raises(ValueError, match="6 positions are not 8"):
        unify(fresh(6), fresh(8))


def test_what_does_not_nest_stays() -> None:
    a, b = [*fresh(4), *fresh(6)], [*fresh(8), *fresh(3)]
    unify(a, b)  # 6 is 2 x 3, but 4 x 2 is no part of 8 x 1 that stays free in every order
    choose(a, b)
    assert size(a) == size(b)
    c, d = fresh(6) + fresh(35), fresh(10) + fresh(21)
    unify(c, d)
    assert all(x.fixed for x in (*leaves(c), *leaves(d)))


def test_what_is_fixed_stays_after_it_is_joined_and_split() -> None:
    a, b = fixed(6), fresh(6)
    unify(b, a)
    choose(b)
    assert size(b) == 6
    whole, parts = fresh(6), [*fresh(2), *fresh(3)]
    fix(whole)
    unify(whole, parts)
    choose(parts)
    assert size(parts) == 6


def test_the_unit_of_a_cut_may_change_but_not_the_count() -> None:
    dim = fresh(96)
    unit = cut(dim, [24, 48])
    assert extent(unit) == 24
    choose(dim, unit, to=3)
    assert (size(dim), scaled(48, unit), scaled(96, unit)) == (12, 6, 12)


def test_cutting_twice_keeps_both_positions() -> None:
    dim = fresh(96)
    first, second = cut(dim, [32]), cut(dim, [48])
    choose(dim, first, second, to=5)
    assert scaled(32, first) * 3 == scaled(48, second) * 2 == size(dim)


@pytest.mark.parametrize(
    ("at", "by"),
    [([48], 0), ([49], 1), ([47], -1), ([1, 49], 1), ([47, 95], -1), ([1, 48], 0), ([13], 1)],
)
def test_positions_beside_a_good_cut(at: list[int], by: int) -> None:
    assert off_by(fresh(96), at) == by


def test_a_position_beside_a_cut_stays_beside_it() -> None:
    dim = fresh(96)
    by = off_by(dim, [1, 49])
    unit = cut(dim, [p - by for p in (1, 49)])
    choose(dim, unit, to=3)
    assert [scaled(p, unit, by) for p in (1, 49)] == [1, 4]
    assert size(dim) == 6


FACTORS = st.lists(st.integers(2, 6), min_size=1, max_size=5)


@given(FACTORS, st.randoms(use_true_random=False), st.integers(2, 9))
def test_lists_that_are_one_have_one_size(factors: list[int], rng: object, to: int) -> None:
    """However a total is written as two products, both have the same new size."""
    ways = []
    for _ in range(3):
        shuffled = list(factors)
        rng.shuffle(shuffled)  # type: ignore[attr-defined]
        at = rng.randint(0, len(shuffled))  # type: ignore[attr-defined]
        joined = [prod(shuffled[:at]), *shuffled[at:]]
        ways.append([a for e in joined for a in fresh(e)])
    unify(ways[0], ways[1])
    unify(ways[1], ways[2])
    choose(*ways, to=to)
    assert size(ways[0]) == size(ways[1]) == size(ways[2])
