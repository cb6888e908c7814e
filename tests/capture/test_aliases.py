"""Names of one memory that schemas do not tell of, parts of a buffer in flight, what is no number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as funcol

from gg_datalog import capture, verify
from gg_datalog.foundation.errors import InputError

X = torch.zeros(4, 4)
Function = Callable[["Program", torch.Tensor], torch.Tensor]


class Program(nn.Module):
    """A function as a module; ``ranks`` tells which program it is."""

    def __init__(self, function: Function, rank: int, ranks: int) -> None:
        super().__init__()
        self.function, self.rank, self.ranks = function, rank, ranks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def verdict(function: Function, shards: bool = False) -> str:
    """What is said of a function; with ``shards`` every rank has half of the rows."""

    def inputs(rank: int, ranks: int) -> tuple[torch.Tensor, ...]:
        return (torch.zeros(4 // ranks if shards else 4, 4),)

    build = lambda rank, ranks: Program(function, rank, ranks)  # noqa: E731
    return verify(capture(build, inputs, world_size=2, mode="eager", jobs=0)).verdict


# ---- chunks that are called unsafe are views
CHUNKS: dict[str, Callable[[torch.Tensor], Any]] = {
    "chunk": lambda y: y.unsafe_chunk(2, 1),
    "split": lambda y: y.unsafe_split(2, 1),
    "sizes": lambda y: y.unsafe_split_with_sizes([1, 3], 1),
}


@pytest.mark.parametrize("name", CHUNKS)
@pytest.mark.parametrize("write", ["sigmoid_", "out="])
def test_a_write_into_an_unsafe_chunk(name: str, write: str) -> None:
    def changed(y: torch.Tensor) -> torch.Tensor:
        a = CHUNKS[name](y)[0]
        return a.sigmoid_() if write == "sigmoid_" else torch.sigmoid(a, out=a)

    def on_the_ranks(self: Program, x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        if self.ranks > 1:
            changed(y)
        return y * 1.0

    def on_both(self: Program, x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        changed(y)
        return y * 1.0

    assert verdict(on_the_ranks) != "refines"
    assert verdict(on_both) == "refines"


# ---- what is waited for is the operand itself
@pytest.mark.parametrize("factor", [1.0, 2.0])
@pytest.mark.parametrize("started", [True, False])
def test_waiting_gives_no_copy(factor: float, started: bool) -> None:
    def twice(self: Program, x: torch.Tensor) -> torch.Tensor:
        if self.ranks == 1:
            return x.sum(0) * 1.0 if started else x.clone() * 1.0
        a = x.clone()
        if started:
            work = torch.ops._c10d_functional.all_reduce(
                x.sum(0), "sum", dist.group.WORLD.group_name
            )
            a = torch.ops._c10d_functional.wait_tensor(work)
        b = torch.ops._c10d_functional.wait_tensor(a)
        b.mul_(factor)
        return a * 1.0

    expected = verdict(twice, shards=started) == "refines"
    assert expected == (factor == 1.0)


def test_a_name_of_what_a_collective_gives() -> None:
    def written(factor: float) -> Function:
        def function(self: Program, x: torch.Tensor) -> torch.Tensor:
            if self.ranks == 1:
                return x.sum(0) * 1.0
            a = torch.ops._c10d_functional.all_reduce(x.sum(0), "sum", dist.group.WORLD.group_name)
            b = torch.ops._c10d_functional.wait_tensor(a)
            a.mul_(factor)
            return b * 1.0

        return function

    assert verdict(written(2.0), shards=True) != "refines"


@pytest.mark.parametrize("early", [False, True])
def test_one_of_several_results_is_read_before_it_is_there(early: bool) -> None:
    """The results of one coalesced collective are items of it, each waited for by itself."""

    def function(self: Program, x: torch.Tensor) -> torch.Tensor:
        a, b = x.sum(0), (x * x).sum(0)
        if self.ranks > 1:
            ops, group = torch.ops._c10d_functional, dist.group.WORLD.group_name
            a, b = ops.all_reduce_coalesced([a, b], "sum", group)
            if early:
                seen = a * 1.0
                return seen + ops.wait_tensor(b) + 0 * ops.wait_tensor(a).abs()
            a, b = ops.wait_tensor(a), ops.wait_tensor(b)
        return a * 1.0 + b

    assert (verdict(function, shards=True) == "refines") is not early


def test_functional_collectives_stay_as_they_are() -> None:
    def function(self: Program, x: torch.Tensor) -> torch.Tensor:
        y = x.sum(0)
        return y if self.ranks == 1 else funcol.all_reduce(y, "sum", dist.group.WORLD) * 1.0

    assert verdict(function, shards=True) == "refines"


# ---- what a trace does not follow
def _other_memory(x: torch.Tensor) -> None:
    x.data = x * 2.0


def _other_class(x: torch.Tensor) -> None:
    x.as_subclass(torch.Tensor).mul_(3.0)


def _other_object(x: torch.Tensor) -> None:
    torch.Tensor._make_subclass(torch.Tensor, x).mul_(3.0)


@pytest.mark.parametrize("change", [_other_memory, _other_class, _other_object])
def test_what_a_trace_does_not_follow_is_refused(change: Callable[[torch.Tensor], None]) -> None:
    def function(self: Program, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        if self.ranks > 1:
            change(y)
        return y * 1.0

    with pytest.raises(InputError, match=r"`\.data = \.\.\.`|under another class"):
        verdict(function)


# ---- parts of one buffer in flight
def _both_halves(b: torch.Tensor) -> None:
    for work in [dist.all_reduce(v, async_op=True) for v in (b[:4], b[4:])]:
        work.wait()


def _other_half_read(b: torch.Tensor) -> None:
    work = dist.all_reduce(b[:4], async_op=True)
    z = b[4:] * 1.0
    work.wait()
    dist.all_reduce(z)
    b[4:].copy_(z)


def _same_half_read(b: torch.Tensor) -> None:
    work = dist.all_reduce(b[:4], async_op=True)
    z = b[2:6] * 1.0
    work.wait()
    dist.all_reduce(b[4:])
    b[2:4].copy_(z[:2])


def _same_half_written(b: torch.Tensor) -> None:
    work = dist.all_reduce(b[:4], async_op=True)
    b[3:4].mul_(1.5)
    work.wait()
    dist.all_reduce(b[4:])


@pytest.mark.parametrize(
    ("reduced", "right"),
    [(_both_halves, True), (_other_half_read, True), (_same_half_read, False),
     (_same_half_written, False)],
)  # fmt: skip
def test_halves_of_a_buffer(reduced: Callable[[torch.Tensor], None], right: bool) -> None:
    def function(self: Program, x: torch.Tensor) -> torch.Tensor:
        b = torch.cat([x.sum(0), (x * x).sum(0)])
        if self.ranks > 1:
            reduced(b)
        return b

    assert (verdict(function, shards=True) == "refines") == right


# ---- zero times what is no number
@pytest.mark.parametrize("through", ["tanh", "sigmoid", "erf", "sign"])
def test_zero_times_what_is_no_number(through: str) -> None:
    """The logarithm of a negative number is none, and its tanh is none either."""

    def function(self: Program, x: torch.Tensor) -> torch.Tensor:
        y = getattr(torch, through)(x.log())
        return x if self.ranks == 1 else x + 0 * y

    assert verdict(function) != "refines"
