"""Where chains of operands end."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from gg_datalog.result.chains import chain_ends

Operands = Mapping[str, Sequence[str]]


def walked(start: str, operands: Operands) -> set[str]:
    """The ends, by a walk for this one start."""
    seen, todo = {start}, [start]
    while todo:
        more = set(operands.get(todo.pop(), ())) - seen
        seen |= more
        todo += more
    return {tensor for tensor in seen if not operands.get(tensor)}


@pytest.mark.parametrize("seed", range(40))
def test_as_a_walk_from_each_start(seed: int) -> None:
    """Also where a tensor is computed from itself, over any number of others."""
    draw = random.Random(seed)
    names = [f"t{n}" for n in range(draw.randint(1, 30))]
    last = len(names) - 1
    operands = {
        name: [draw.choice(names[: last if seed % 2 else at]) for _ in range(draw.randint(0, 3))]
        for at, name in enumerate(names)
        if at and last
    }
    starts = [draw.choice(names) for _ in range(5)]
    found = chain_ends(starts, operands)
    assert {start: set(ends) for start, ends in found.items()} == {
        start: walked(start, operands) for start in starts
    }
    assert all(len(set(ends)) == len(ends) for ends in found.values())


def test_a_start_without_operands_is_its_own_end() -> None:
    assert chain_ends(["a", "b"], {"b": ["a"]}) == {"a": ("a",), "b": ("a",)}
    assert chain_ends([], {"b": ["a"]}) == {}


def test_many_layers() -> None:
    """Neither the depth of Python's stack nor the square of the depth."""
    deep = 20_000
    operands = {f"t{n}": [f"t{n - 1}", f"t{max(n - 2, 0)}"] for n in range(1, deep)}
    starts = [f"t{n}" for n in range(deep)]
    assert set(chain_ends(starts, operands).values()) == {("t0",)}
