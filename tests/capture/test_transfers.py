"""Send and receive in captured programs: what completes, and what waits for ever. Each is as gloo
has it (torch 2.13, two processes): a send is done when the other rank receives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

from gg_datalog import capture, verify  # noqa: E402
from gg_datalog.foundation.errors import InputError  # noqa: E402

Exchange = Callable[[Any, Any, int], None]  # what is sent, where it is received, the peer


class Net(nn.Module):  # type: ignore[misc]
    """Each rank has half of the rows, and gets the other half."""

    def __init__(self, exchange: Exchange, rank: int, ranks: int) -> None:
        super().__init__()
        self.exchange, self.rank, self.ranks = exchange, rank, ranks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.ranks == 1:
            return torch.relu(x)
        other = torch.empty_like(x)
        self.exchange(x, other, 1 - self.rank)
        return torch.relu(torch.cat([x, other] if self.rank == 0 else [other, x]))


def receive_first(x: Any, other: Any, peer: int) -> None:
    coming = dist.irecv(other, peer)
    going = dist.isend(x, peer)
    coming.wait()
    going.wait()


def send_first(x: Any, other: Any, peer: int) -> None:
    going = dist.isend(x, peer)
    coming = dist.irecv(other, peer)
    coming.wait()
    going.wait()


def batch(x: Any, other: Any, peer: int) -> None:
    pair = [dist.P2POp(dist.irecv, other, peer), dist.P2POp(dist.isend, x, peer)]
    for one in dist.batch_isend_irecv(pair):
        one.wait()


def by_rank(x: Any, other: Any, peer: int) -> None:
    for sends in (peer == 1, peer == 0):
        dist.send(x, peer) if sends else dist.recv(other, peer)


def receive_posted(x: Any, other: Any, peer: int) -> None:
    coming = dist.irecv(other, peer)
    dist.send(x, peer)
    coming.wait()


def halves_out_of_order(x: Any, other: Any, peer: int) -> None:
    """Messages come in the order in which they are sent and received, whenever they are waited for."""
    coming = [dist.irecv(part, peer) for part in other.chunk(2)]
    going = [dist.isend(part, peer) for part in x.chunk(2)]
    for one in [*coming[::-1], *going]:
        one.wait()


def all_meet(x: Any, other: Any, peer: int) -> None:
    dist.barrier()
    receive_first(x, other, peer)
    dist.barrier()


RIGHT = [receive_first, send_first, batch, by_rank, receive_posted, all_meet,
         halves_out_of_order]  # fmt: skip


@pytest.mark.parametrize("exchange", RIGHT, ids=lambda f: f.__name__)
def test_what_completes(exchange: Exchange) -> None:
    assert judged(exchange).verdict == "refines"


def judged(exchange: Exchange, confirm: float = 0) -> Any:
    def inputs(rank: int, ranks: int) -> tuple[torch.Tensor, ...]:
        return (torch.zeros(4 // ranks, 4),)

    pair = capture(lambda r, n: Net(exchange, r, n), inputs, world_size=2, mode="eager", jobs=0)
    return verify(pair, confirm=confirm)


def both_send(x: Any, other: Any, peer: int) -> None:
    dist.send(x, peer)
    dist.recv(other, peer)


def both_receive(x: Any, other: Any, peer: int) -> None:
    dist.recv(other, peer)
    dist.send(x, peer)


def waits_too_early(x: Any, other: Any, peer: int) -> None:
    dist.isend(x, peer).wait()
    dist.irecv(other, peer).wait()


def a_collective_between(x: Any, other: Any, peer: int) -> None:
    """One sends, then reduces; the other reduces, then receives."""
    count = torch.zeros(1)
    if peer == 1:
        dist.send(x, peer)
        dist.all_reduce(count)
        dist.recv(other, peer)
    else:
        dist.all_reduce(count)
        dist.recv(other, peer)
        dist.send(x, peer)


def a_barrier_between(x: Any, other: Any, peer: int) -> None:
    if peer == 1:
        dist.send(x, peer)
        dist.barrier()
        dist.recv(other, peer)
    else:
        dist.barrier()
        dist.recv(other, peer)
        dist.send(x, peer)


HANGS = [both_send, both_receive, waits_too_early, a_collective_between, a_barrier_between]


@pytest.mark.parametrize("exchange", HANGS, ids=lambda f: f.__name__)
def test_what_waits_for_ever(exchange: Exchange) -> None:
    result = judged(exchange)
    assert result.verdict == "does-not-refine"
    found = result.findings[0]
    assert found.code == "GG110" and "they wait for each other: rank 0 at `" in found.message
    assert "test_transfers.py" in (found.dist_source or "")


def halves_exchanged(x: Any, other: Any, peer: int) -> None:
    """They are received in the other order."""
    coming = [dist.irecv(part, peer) for part in other.chunk(2)[::-1]]
    going = [dist.isend(part, peer) for part in x.chunk(2)]
    for one in [*coming, *going]:
        one.wait()


def read_before(x: Any, other: Any, peer: int) -> None:
    coming = dist.irecv(other, peer)
    going = dist.isend(x, peer)
    other.mul_(1)
    coming.wait()
    going.wait()


def written_before(x: Any, other: Any, peer: int) -> None:
    going = dist.isend(x, peer)
    x.mul_(2)
    dist.recv(other, peer)
    going.wait()


def never_waits_for_the_send(x: Any, other: Any, peer: int) -> None:
    """gloo takes it back when the handle goes: the other rank waits for ever, or loses it."""
    dist.isend(x, peer)
    dist.recv(other, peer)


def written_and_left(x: Any, other: Any, peer: int) -> None:
    kept = x.clone()
    dist.isend(x, peer)
    x.mul_(2)
    dist.recv(other, peer)
    x.copy_(kept)


def in_place(x: Any, other: Any, peer: int) -> None:
    """What comes may come before what goes has gone."""
    kept = x.clone()
    going = dist.isend(x, peer)
    coming = dist.irecv(x, peer)
    going.wait()
    coming.wait()
    other.copy_(x)
    x.copy_(kept)


def in_place_batch(x: Any, other: Any, peer: int) -> None:
    kept = x.clone()
    pair = [dist.P2POp(dist.irecv, x, peer), dist.P2POp(dist.isend, x, peer)]
    for one in dist.batch_isend_irecv(pair):
        one.wait()
    other.copy_(x)
    x.copy_(kept)


def overwritten(x: Any, other: Any, peer: int) -> None:
    coming = dist.irecv(other, peer)
    dist.send(x, peer)
    other.copy_(x)
    coming.wait()


def one_meets_alone(x: Any, other: Any, peer: int) -> None:
    receive_first(x, other, peer)
    if peer == 1:
        dist.barrier()


WRONG = [halves_exchanged, read_before, written_before, never_waits_for_the_send, written_and_left,
         in_place, in_place_batch, overwritten, one_meets_alone]  # fmt: skip


@pytest.mark.parametrize("exchange", WRONG, ids=lambda f: f.__name__)
def test_wrong_values(exchange: Exchange) -> None:
    assert judged(exchange).verdict != "refines"


def test_whether_it_is_completed() -> None:
    """Nobody can say, of a program that does not run."""

    def polls(x: Any, other: Any, peer: int) -> None:
        coming = dist.irecv(other, peer)
        while not coming.is_completed():
            pass

    with pytest.raises(InputError, match="asks whether a collective is completed"):
        judged(polls)


@pytest.mark.parametrize("exchange", [receive_first, halves_out_of_order, halves_exchanged],
                         ids=lambda f: f.__name__)  # fmt: skip
def test_numbers(exchange: Exchange) -> None:
    """Executed, they come to the same."""

    def shifted(x: Any, other: Any, peer: int) -> None:
        exchange(x, other, peer)
        other.add_(1)

    (output,) = judged(shifted, confirm=60).report.outputs
    assert output.numbers is not None and output.numbers.agrees is False
