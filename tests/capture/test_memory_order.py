"""Collectives that go through memory in order, whatever the strides: what gloo does, and what is said
of a program that gives them a tensor whose memory is in another order."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
from torch import nn

from gg_datalog import capture, verify
from gg_datalog.extract.table import load_table
from gg_datalog.replay.execute import run_ranks
from gg_datalog.tracing import Pair


def turned(x: torch.Tensor) -> torch.Tensor:
    """The same values, in memory column by column."""
    return x.t().contiguous().t()


def exchange(x: torch.Tensor, out: torch.Tensor, rank: int) -> torch.Tensor:
    """There and back: with equal parts that is what was there before."""
    back = torch.empty_like(x, memory_format=torch.contiguous_format)
    dist.all_to_all_single(out, x)
    dist.all_to_all_single(back, out.contiguous())
    return back


def scatter(x: torch.Tensor, out: torch.Tensor, rank: int) -> torch.Tensor:
    """All of it to everybody."""
    dist.scatter(out, [x, x] if rank == 0 else None, 0)
    return out


def gather(x: torch.Tensor, out: torch.Tensor, rank: int) -> torch.Tensor:
    """The own share of what all have."""
    outs = [out, torch.empty_like(out)]
    dist.all_gather(outs, x)
    return outs[0]


def broadcast(x: torch.Tensor, out: torch.Tensor, rank: int) -> torch.Tensor:
    """From the first rank."""
    out.copy_(x)
    dist.broadcast(out, 0)
    return out


CALLS: dict[str, Callable[..., torch.Tensor]] = {
    f.__name__: f for f in (exchange, scatter, gather, broadcast)
}
KEEP = {"gather", "broadcast"}  # these copy what is not contiguous
SHAPE = (4, 6)
ORDERS = ("straight", "turned", "both")  # memory of what is received, and of what is sent
SAME = ("scatter", "both")  # read and filled in one order: right with gloo, and yet not relied on
# torch refuses to send what is not contiguous with all_to_all_single.
DONE = [
    (name, order) for name in CALLS for order in ORDERS if (name, order) != ("exchange", "both")
]


class Call(nn.Module):
    """A collective that changes nothing, where it does what it should."""

    def __init__(self, name: str, rank: int, world_size: int, order: str) -> None:
        super().__init__()
        self.name, self.rank, self.alone = name, rank, world_size == 1
        self.order = order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.alone:
            return torch.relu(x)
        out = torch.empty_like(x)
        if self.order == "both":
            x = turned(x)
        out = out if self.order == "straight" else turned(out)
        return torch.relu(CALLS[self.name](x, out, self.rank))


def gloo(rank: int, port: str) -> dict[str, list[float]]:
    """What each call gives, in a process of its own."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    found = {
        f"{name} {order}": Call(name, rank, 2, order)(given(rank)).flatten().tolist()
        for name, order in DONE
    }
    dist.destroy_process_group()
    return found


def given(rank: int) -> torch.Tensor:
    """Other numbers on each rank."""
    return torch.arange(24.0).reshape(SHAPE) + 100 * rank


@pytest.fixture(scope="module")
def told() -> list[dict[str, list[float]]]:
    """What gloo gives on each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, __file__]
    ranks = [
        subprocess.Popen([*command, rank, port], stdout=subprocess.PIPE, text=True)
        for rank in ("0", "1")
    ]
    return [json.loads(process.communicate(timeout=120)[0]) for process in ranks]


def test_what_gloo_does(told: list[dict[str, list[float]]]) -> None:
    for rank, values in enumerate(told):
        for name, order in DONE:
            right = given(rank if name == "exchange" else 0).flatten().tolist()
            kept = order == "straight" or name in KEEP or (name, order) == SAME
            assert (values[f"{name} {order}"] == right) == kept, (rank, name, order)


def captured(name: str, order: str) -> Pair:
    """The program that makes a call, on two ranks."""
    return capture(
        lambda rank, ranks: Call(name, rank, ranks, order),
        lambda rank, ranks: (torch.empty(SHAPE),),
        world_size=2,
        mode="eager",
        jobs=0,
    )


@pytest.mark.parametrize(("name", "order"), DONE)
def test_replay_does_what_gloo_does(
    name: str, order: str, told: list[dict[str, list[float]]]
) -> None:
    documents = captured(name, order).documents
    graphs = {rank: documents.dist[rank] for rank in (0, 1)}
    inputs = {rank: {"x": given(rank)} for rank in (0, 1)}
    groups = documents.groups["dist"]
    every = run_ranks(graphs, groups, load_table(), inputs, lambda *_: torch.ones(1))
    for rank, values in every.items():
        (last,) = graphs[rank]["nodes"][-1]["args"][0]
        assert values[last["node"]].flatten().tolist() == told[rank][f"{name} {order}"]


@pytest.mark.parametrize(("name", "order"), DONE)
def test_what_is_said_of_it(name: str, order: str) -> None:
    pair = captured(name, order)
    result = verify(pair, confirm=0, repairs=False)
    if order == "straight" or name in KEEP:
        assert result.refines, str(result)
        return
    assert result.verdict == "does-not-refine"
    first = result.findings[0]
    assert first.code == "GG110" and "not contiguous" in first.message
    assert "test_memory_order.py" in (first.dist_source or "")


if __name__ == "__main__":
    print(json.dumps(gloo(int(sys.argv[1]), sys.argv[2])))
