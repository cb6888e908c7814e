"""Which random numbers ranks draw: by the seeds that a program gives to its generators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from gg_datalog import capture, verify  # noqa: E402
from gg_datalog.commands.verify import Result  # noqa: E402
from gg_datalog.tracing.draws import NOBODYS  # noqa: E402

ROWS, WIDTH = 8, 4
Forward = Callable[["Net", torch.Tensor], torch.Tensor]


class Net(nn.Module):  # type: ignore[misc]
    def __init__(self, seed: Any, forward: Forward, rank: int, ranks: int) -> None:
        super().__init__()
        self.rank, self.ranks, self.run = rank, ranks, forward
        if seed is not None:
            torch.manual_seed(seed(rank) if ranks > 1 else 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self, x)


def dropout(_: Net, x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, 0.5)


def run(seed: Any, forward: Forward = dropout, shards: bool = False, mode: str = "eager") -> Result:
    def inputs(rank: int, world: int) -> tuple[torch.Tensor, ...]:
        return (torch.zeros(ROWS // world if shards else ROWS, WIDTH),)

    return verify(capture(
        lambda r, n: Net(seed, forward, r, n), inputs, world_size=2, mode=mode, jobs=0
    ))  # fmt: skip


def codes(result: Result) -> list[str]:
    return [found.code for found in result.findings if found.level == "error"]


def one(_: int) -> int:
    return 11


def own(rank: int) -> int:
    return 11 + rank


@pytest.mark.parametrize("mode", ["eager", "dynamo"])
@pytest.mark.parametrize(
    ("seed", "shards", "wanted"),
    [
        (one, False, []),
        (own, True, []),
        (one, True, ["GG157"]),
        (own, False, ["GG158"]),
        (None, True, []),
        (None, False, []),
    ],
    ids=["replicas", "shards", "one mask", "two masks", "shards unseeded", "replicas unseeded"],
)
def test_the_seed_of_a_mask(seed: Any, shards: bool, wanted: list[str], mode: str) -> None:
    result = run(seed, shards=shards, mode=mode)
    assert codes(result) == wanted
    assert result.verdict == ("does-not-refine" if wanted else "refines")
    if wanted:
        assert "seed" in result.findings[0].message


@contextlib.contextmanager
def forked(seed: int) -> Iterator[None]:
    """A stream of its own, as Megatron's tracker keeps one for what is cut."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def tracked(net: Net, x: torch.Tensor) -> torch.Tensor:
    """Replicated, then cut, then replicated."""
    x = F.dropout(x, 0.5)
    half = x if net.ranks == 1 else x.chunk(2)[net.rank]
    with forked(100 + net.rank * SPREAD[net.ranks]):
        half = F.dropout(half, 0.5)
    if net.ranks > 1:
        parts = [torch.empty_like(half) for _ in range(2)]
        torch.distributed.all_gather(parts, half.contiguous())
        half = torch.cat(parts)
    return F.dropout(half, 0.5)


SPREAD = {1: 0, 2: 1}


@pytest.mark.parametrize("spread", [0, 1])
def test_a_stream_of_its_own(spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SPREAD, 2, spread)
    assert codes(run(one, tracked)) == ([] if spread else ["GG157"])


def uneven(net: Net, x: torch.Tensor) -> torch.Tensor:
    """One rank has drawn before."""
    if net.rank == 1:
        torch.rand(3)
    return F.dropout(x, 0.5)


def test_a_rank_that_has_drawn_before() -> None:
    assert codes(run(one, uneven)) == ["GG158"]


@pytest.mark.parametrize("drawn", [lambda: nn.Linear(4, 8), lambda: torch.rand(3)])
def test_a_rank_that_has_drawn_while_it_was_built(drawn: Callable[[], Any]) -> None:
    class Built(Net):
        def __init__(self, rank: int, ranks: int) -> None:
            super().__init__(one, dropout, rank, ranks)
            if ranks > 1 and rank == 0:
                drawn()

    result = verify(capture(
        Built, lambda r, n: (torch.zeros(ROWS, WIDTH),), world_size=2, mode="eager", jobs=0
    ))  # fmt: skip
    assert codes(result) == ["GG158"]


def lengths(net: Net, x: torch.Tensor) -> torch.Tensor:
    torch.rand(70_000 if net.rank else 80_000)
    return F.dropout(x, 0.5)


def types(net: Net, x: torch.Tensor) -> torch.Tensor:
    torch.rand(4, dtype=torch.double if net.rank else torch.float)
    return F.dropout(x, 0.5)


def memory(net: Net, x: torch.Tensor) -> torch.Tensor:
    """Drawn in the order of memory."""
    return F.dropout(x.t().contiguous().t() if net.rank else x * 1, 0.5)


@pytest.mark.parametrize("forward", [lengths, types, memory])
def test_what_was_drawn_differs(forward: Forward) -> None:
    assert codes(run(one, forward)) == ["GG158"]


def generated(net: Net, x: torch.Tensor) -> torch.Tensor:
    """With a generator of its own, which is made anew."""
    generator = torch.Generator().manual_seed(5 if net.ranks == 1 else 5 + OFFSET["by"] * net.rank)
    mask = torch.empty_like(x).bernoulli_(0.5, generator=generator)
    return x * mask


OFFSET = {"by": 0}


@pytest.mark.parametrize("by", [0, 1])
def test_a_generator(by: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OFFSET, "by", by)
    assert codes(run(None, generated)) == (["GG158"] if by else [])


def again(net: Net, x: torch.Tensor) -> torch.Tensor:
    """On the ranks the activation is computed once more for the backward pass."""
    weight = net.get_parameter("weight") if hasattr(net, "weight") else net.weights()

    def layer(y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(F.dropout(y @ weight, 0.5))

    return checkpoint(layer, x, use_reentrant=False) if net.ranks > 1 else layer(x)


def test_an_activation_that_is_computed_again() -> None:
    """It draws the same numbers, and what is drawn after it is paired as before."""

    class Again(Net):
        def __init__(self, rank: int, ranks: int) -> None:
            super().__init__(None, again, rank, ranks)
            self.weight = nn.Parameter(torch.empty(WIDTH, WIDTH))

    def loss(out: torch.Tensor, *_: Any) -> torch.Tensor:
        return out.square().sum()

    pair = capture(
        lambda r, n: Again(r, n), lambda r, n: (torch.zeros(ROWS, WIDTH),), world_size=2,
        mode="eager", backward=True, loss=loss, jobs=0,
    )  # fmt: skip
    draws = [
        [row["draw"] for row in graph["nodes"] if "draw" in row]
        for graph in (pair.documents.seq, *pair.documents.dist.values())
    ]
    assert [len(found) for found in draws] == [1, 2, 2]
    assert {draw for found in draws for draw in found} == set(draws[0])
    assert verify(pair).verdict == "refines"


def test_the_generator_is_left_as_it_was() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    run(one)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.initial_seed() == 3 != NOBODYS
