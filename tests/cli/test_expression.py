"""Blocks as expressions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gg_datalog.foundation.errors import GGError
from gg_datalog.result.blocks import parse_view
from gg_datalog.result.expression import relation_of
from gg_datalog.result.terms import (
    Block,
    Part,
    Run,
    parse_record,
    read_block,
    read_coefficient,
    read_parts,
)

Runs = tuple[Run, ...]


def runs(*found: tuple[int, int, int, int, int, int]) -> Runs:
    """The runs of one dimension."""
    return tuple(Run(*run) for run in found)


def block(*dims: Runs) -> Block:
    """The block of these dimensions."""
    return dims


def whole(extent: int, dim: int) -> Runs:
    """All positions of a dimension, as they are."""
    return runs((1, 0, extent, dim, 1, 0))


def text_of(seq: str, dist: str, *blocks: Block) -> str:
    """The expression where rank i holds block i, all views alike."""
    rows = [(rank, f"r{rank}.y", (), found) for rank, found in enumerate(blocks)]
    views = {rank: parse_view(dist) for rank in range(len(blocks))}
    return relation_of(rows, parse_view(seq), views).text


def test_a_replica_is_named_once() -> None:
    full = block(whole(4, 0), whole(6, 1))
    assert text_of("0/4/1 1/6/1", "0/4/1 1/6/1", full, full) == "r0.y"


def test_scalars() -> None:
    assert text_of("", "", (), ()) == "r0.y"


def test_shards_along_a_dimension() -> None:
    parts = [block(whole(4, 0), runs((1, 3 * r, 3, 1, 1, 0))) for r in range(2)]
    assert text_of("0/4/1 1/6/1", "0/4/1 1/3/1", *parts) == "concat(dim=1, [r0.y, r1.y])"


def test_a_grid_of_shards() -> None:
    parts = [
        block(runs((1, 2 * a, 2, 0, 1, 0)), runs((1, 3 * b, 3, 1, 1, 0)))
        for a in range(2)
        for b in range(2)
    ]
    assert text_of("0/4/1 1/6/1", "0/2/1 1/3/1", *parts) == (
        "concat(dim=0, [concat(dim=1, [r0.y, r1.y]), concat(dim=1, [r2.y, r3.y])])"
    )


def test_dimensions_of_one_position_count() -> None:
    parts = [block(runs((1, 2 * r, 2, 0, 1, 0)), whole(6, 1)) for r in range(2)]
    assert text_of("- 0/4/1 1/6/1", "- 0/2/1 1/6/1", *parts) == "concat(dim=1, [r0.y, r1.y])"


def test_a_view_of_the_base_is_seen_through() -> None:
    # The output is the transposed base on both sides: rows of the base are columns of the output.
    parts = [block(runs((1, 2 * r, 2, 0, 1, 0)), whole(6, 1)) for r in range(2)]
    assert text_of("1/6/1 0/4/1", "1/6/1 0/2/1", *parts) == "concat(dim=1, [r0.y, r1.y])"


def test_a_permutation() -> None:
    full = block(whole(4, 1), whole(6, 0))
    assert text_of("0/4/1 1/6/1", "0/6/1 1/4/1", full) == "permute(r0.y, [1, 0])"


def test_a_slice_of_what_is_returned() -> None:
    assert text_of("0/4/1", "0/9/1", block(runs((1, 0, 4, 0, 1, 5)))) == "slice(r0.y, dim=0, 5, 9)"


def test_a_reshape() -> None:
    full = block(runs((3, 0, 2, 0, 1, 0), (1, 0, 3, 1, 1, 0)))
    assert text_of("0/6/1", "0/2/1 1/3/1", full) == "reshape(r0.y, [6])"


def test_heads_that_are_flattened_into_a_dimension() -> None:
    # 4 heads of 3, two per rank, beside each other in every one of 2 groups.
    parts = [block(runs((6, 0, 2, 0, 3, 0), (1, 3 * r, 3, 0, 1, 0))) for r in range(2)]
    assert text_of("0/2/6 0/6/1", "0/2/3 0/3/1", *parts) == "concat(dim=1, [r0.y, r1.y])"


def test_what_cannot_be_written_is_named() -> None:
    parts = [block(runs((2, 0, 3, 0, 1, 0), (1, r, 1, -1, 0, 0))) for r in range(2)]
    assert text_of("0/6/1", "0/3/1", *parts) == "rearranged(r0.y, r1.y)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 1, , ]", "1"),
        ("[-1, 2, , ]", "-1/2"),
        ("[1, 1, 0.1, ]", "0.1"),
        ("[2, 1, 0.1, 0.3*0.3]", "2 * 0.1 / (0.3*0.3)"),
        ("[1, 1, , 0.3]", "1 / (0.3)"),
    ],
)
def test_coefficients(text: str, expected: str) -> None:
    assert read_coefficient(text).text == expected


def test_records() -> None:
    assert parse_record("[1, [a, nil], , -2]") == (1, ("a", None), "", -2)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_block, "[[1, 0, 3, 0, 1, nil], nil]"),
        (read_block, "4"),
        (read_parts, "[[mm, 0, nil], sum, 0, 2, nil]"),
        (read_parts, "mm"),
        (read_coefficient, "[1, 1, ]"),
        (read_coefficient, "nil"),
    ],
)
def test_a_record_of_another_type_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(GGError, match="is no "):
        read(text)


def test_open_reductions_inside_of_each_other() -> None:
    assert read_parts(
        "[[add, 1, [mm, 0, nil]], sum, 0, 2, 4, [[max, 0, nil], amax, 2, 2, 4, nil]]"
    ) == (
        Part((("add", 1), ("mm", 0)), "sum", 0, 2, 4),
        Part((("max", 0),), "amax", 2, 2, 4),
    )
