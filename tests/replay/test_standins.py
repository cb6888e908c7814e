"""Stand-ins obey the sharding rule that the table declares: every row of it, and rows of our own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from gg_datalog.extract.sharding import read_rule
from gg_datalog.extract.table import Row, Table, load_table
from gg_datalog.replay.standins import each, opaque, stand_in

ROWS = [row for rows in load_table().rows.values() for row in rows]
every_row = pytest.mark.parametrize("of", ROWS, ids=[f"{r.target}-{r.results[0]}" for r in ROWS])


def row(rule: str, **keys: Any) -> Row:
    """A row of the table."""
    table = Table()
    table.merge({"operator": [{"target": "mylib.kernel", "rule": rule, **keys}]}, "here")
    return table.rows["mylib.kernel"][0]


def flat(dims: Sequence[tuple[str, ...]], rest: Sequence[str]) -> list[list[str]]:
    """The letters of every dimension, ``...`` being ``rest``."""
    found: list[list[str]] = []
    for dim in dims:
        if dim == ("...",):
            found += [[n] for n in rest]
        else:
            found.append([m for n in dim if n != "(" for m in (rest if n == "..." else [n])])
    return found


class Kernel:
    """A row with operands of small sizes, which may be cut along a letter."""

    def __init__(self, of: Row, seed: int = 0) -> None:
        self.row = of
        left, right = read_rule(of.rule)
        rest = ["a", "b"]
        self.left, self.right = ([flat(d, rest) for d in side] for side in (left, right))
        letters = {n for dims in (*self.left, *self.right) for dim in dims for n in dim}
        even = dict.fromkeys(sorted(letters), 4) | {"u": 1}
        self.sizes = even | {n: v for n, v in of.sizes.items() if isinstance(v, int)}
        generator = torch.Generator().manual_seed(seed)
        self.operands = [
            torch.randn([self.extent(d) for d in dims], generator=generator, dtype=torch.float64)
            for dims in self.left
        ]

    def extent(self, dim: Sequence[str]) -> int:
        """The size of a dimension."""
        total = 1
        for n in dim:
            total *= self.sizes[n]
        return total

    def run(self, operands: Sequence[Any], attributes: str = "", **sizes: int) -> list[Any]:
        """The results."""
        given = {n: (self.sizes | sizes)[n] for n in self.row.sizes}
        return stand_in(self.row, operands, attributes, given)

    def cut(self, x: Any, dims: Sequence[Sequence[str]], letter: str, half: slice) -> Any:
        """Half of the positions of a letter, wherever a tensor has it."""
        sizes = [self.sizes[n] for dim in dims for n in dim]
        letters = [n for dim in dims for n in dim]
        parts = x.reshape(sizes)[tuple(half if n == letter else slice(None) for n in letters)]
        shrunk = {n: parts.shape[i] for i, n in enumerate(letters)}
        shape = [prod(shrunk[n] for n in dim) for dim in dims]
        return parts.reshape(shape)

    @property
    def letters(self) -> list[str]:
        """Letters of the operands that stand for more than one position."""
        found = {n for dims in self.left for dim in dims for n in dim}
        return sorted(n for n in found if self.sizes[n] > 1)

    def is_in(self, letter: str, among: Sequence[str]) -> bool:
        """Is a letter, or the rest that it belongs to, listed?"""
        return letter in among or ("..." in among and letter in ("a", "b"))


def prod(values: Any) -> int:
    """The product."""
    total = 1
    for value in values:
        total *= value
    return total


HALVES = (slice(0, 2), slice(2, 4))


@every_row
def test_a_parallel_dimension_may_be_cut(of: Row) -> None:
    kernel = Kernel(of)
    whole = kernel.run(kernel.operands)
    for letter, half in product(kernel.letters, HALVES):
        if kernel.is_in(letter, of.whole) or kernel.is_in(letter, of.sums):
            continue
        cut = [
            kernel.cut(x, d, letter, half)
            for x, d in zip(kernel.operands, kernel.left, strict=True)
        ]
        parts = kernel.run(cut, **({letter: 2} if letter in of.sizes else {}))
        for found, full, dims in zip(parts, whole, kernel.right, strict=True):
            torch.testing.assert_close(found, kernel.cut(full, dims, letter, half))


@every_row
def test_a_whole_dimension_may_not_be_cut(of: Row) -> None:
    kernel = Kernel(of)
    whole = kernel.run(kernel.operands)
    for letter in kernel.letters:
        if letter not in of.whole or letter in of.sizes:
            continue
        for x, dims in zip(kernel.operands, kernel.left, strict=True):
            if letter not in [n for dim in dims for n in dim]:
                continue
            changed = x.clone()
            kernel.cut(changed, dims, letter, slice(0, 1)).add_(1)
            if torch.equal(changed, x):  # the cut of a grouped dimension is a copy
                continue
            operands = [changed if y is x else y for y in kernel.operands]
            for before, after, out in zip(whole, kernel.run(operands), kernel.right, strict=True):
                letters = [n for dim in out for n in dim]
                if letter in letters:  # what lies elsewhere changes, too
                    before, after = (
                        kernel.cut(v, out, letter, slice(1, 4)) for v in (before, after)
                    )
                assert not torch.allclose(before, after), f"{letter} of {of.rule}"


@every_row
def test_a_summed_dimension_adds_up(of: Row) -> None:
    kernel = Kernel(of)
    whole = kernel.run(kernel.operands)
    for letter in kernel.letters:
        if not kernel.is_in(letter, of.sums):
            continue
        parts = [
            kernel.run(
                [
                    kernel.cut(x, d, letter, h)
                    for x, d in zip(kernel.operands, kernel.left, strict=True)
                ]
            )
            for h in HALVES
        ]
        for first, second, full in zip(*parts, whole, strict=True):
            torch.testing.assert_close(first + second, full)


@every_row
def test_it_is_linear_where_the_row_says_so_and_nowhere_else(of: Row) -> None:
    kernel, other = Kernel(of), Kernel(of, seed=1)
    for place in range(len(kernel.operands)):

        def at(x: Any, place: int = place) -> list[Any]:
            return kernel.run([x if i == place else y for i, y in enumerate(kernel.operands)])

        a, b = kernel.operands[place], other.operands[place]
        for both, one, two in zip(at(2 * a - 3 * b), at(a), at(b), strict=True):
            assert torch.allclose(both, 2 * one - 3 * two) == (place in of.linear)


def test_operands_and_attributes_matter() -> None:
    kernel = Kernel(row("t f, t f -> t f"))
    (made,) = kernel.run(kernel.operands)
    (swapped,) = kernel.run(kernel.operands[::-1])
    (other,) = kernel.run(kernel.operands, "alpha=2")
    assert not torch.allclose(made, swapped)
    assert not torch.allclose(made, other)


def test_results_are_functions_of_their_own() -> None:
    kernel = Kernel(row("t h -> t h, t h", whole=["h"]))
    first, second = kernel.run(kernel.operands)
    assert not torch.allclose(first, second)


def test_a_split_dimension_keeps_its_order() -> None:
    """Of (k g) the outer part may be cut: head by head."""
    kernel = Kernel(row("t (k g), t k -> t (k g)", whole=["t"]))
    (whole,) = kernel.run(kernel.operands)
    (head,) = kernel.run([kernel.operands[0][:, 4:8], kernel.operands[1][:, 1:2]])
    torch.testing.assert_close(head, whole[:, 4:8])


def test_a_broadcast_operand_counts_once() -> None:
    kernel = Kernel(row("t f, t f -> t f"))
    x, y = kernel.operands
    (made,) = kernel.run([x, y[:1]])
    (wide,) = kernel.run([x, y[:1].expand(4, 4)])
    torch.testing.assert_close(made, wide)


def test_a_created_dimension_has_the_size_that_is_said() -> None:
    kernel = Kernel(row("t -> t r", sizes={"r": 3}))
    (made,) = kernel.run(kernel.operands)
    assert made.shape == (4, 3)


# ---- kernels that the table calls elementwise, or does not know
def tensor(seed: int = 0) -> Any:
    """Some numbers."""
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_an_elementwise_kernel_works_on_pieces() -> None:
    made = each("k(%, %)", [tensor(), tensor(1)], ())
    torch.testing.assert_close(each("k(%, %)", [tensor()[1:], tensor(1)[1:]], ()), made[1:])
    assert not torch.allclose(each("k(%, %)", [tensor(1), tensor()], ()), made)
    assert not torch.allclose(each("k(%, %, 2)", [tensor(), tensor(1)], ()), made)


def test_its_flags_are_kept() -> None:
    def linear(x: Any) -> Any:
        return each("k", [x, tensor(2)], ["linear"])

    torch.testing.assert_close(
        linear(tensor() + 2 * tensor(1)), linear(tensor()) + 2 * linear(tensor(1))
    )
    swapped = [
        each("k", pair, ["commutative"]) for pair in ([tensor(), tensor(1)], [tensor(1), tensor()])
    ]
    torch.testing.assert_close(*swapped)
    steps = torch.linspace(-5, 5, 100, dtype=torch.float64)
    assert bool((each("k", [steps], ["monotone"]).diff() > 0).all())


@pytest.mark.parametrize("place", [0, 1])
def test_an_unknown_kernel_depends_on_everything(place: int) -> None:
    operands = [tensor(), tensor(1)]
    made = opaque("k", operands, "%, %", [2, 3])
    assert made.shape == (2, 3)
    assert len(made.unique()) == 6
    operands[place] = operands[place].clone()
    operands[place][2, 1] += 1
    assert not torch.isclose(opaque("k", operands, "%, %", [2, 3]), made).any()
    assert not torch.isclose(opaque("k", operands[::-1], "%, %", [2, 3]), made).any()
    assert not torch.isclose(opaque("k", operands, "%, %, 1", [2, 3]), made).any()
    assert not torch.isclose(opaque("l", operands, "%, %", [2, 3]), made).any()
