"""What the numbers of integer inputs say that a program is tried with: no assumption against them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from gg_datalog import capture, verify

ROWS, WIDTH, CLASSES = 6, 4, 8


class Loss(nn.Module):
    """A loss over classes; the ranks have some of them each and look the target up themselves."""

    def __init__(self, rank: int, world: int, ignore: int) -> None:
        super().__init__()
        self.mine = CLASSES // world
        self.low, self.world, self.ignore = rank * self.mine, world, ignore
        self.head = nn.Linear(WIDTH, self.mine, bias=False)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        scores = self.head(x)
        if self.world == 1:
            return F.cross_entropy(scores, target, ignore_index=self.ignore)
        high = scores.amax(-1)
        dist.all_reduce(high, op=dist.ReduceOp.MAX)
        scores = scores - high.unsqueeze(-1)
        total = scores.exp().sum(-1)
        dist.all_reduce(total)
        there = (target >= self.low) & (target < self.low + self.mine)
        ids = (target - self.low).masked_fill(~there, 0)
        found = scores.gather(-1, ids.unsqueeze(-1)).squeeze(-1).masked_fill(~there, 0.0)
        dist.all_reduce(found)
        return (total.log() - found).mean()


def targets(first: int) -> Callable[[int, int], tuple[Tensor, Tensor]]:
    def make(rank: int, world: int) -> tuple[Tensor, Tensor]:
        given = torch.arange(ROWS) % CLASSES
        given[0] = first
        return torch.randn(ROWS, WIDTH), given

    return make


def verdict(first: int, ignore: int = -100) -> str:
    pair = capture(
        lambda rank, world: Loss(rank, world, ignore),
        targets(first),
        world_size=2,
        mode="eager",
        relations={
            "relation": [
                {"name": "head.weight", "placement": "shard(0)"},
                {"name": "x", "placement": "replicate"},
                {"name": "target", "placement": "replicate"},
            ]
        },
    )
    return verify(pair, confirm=0, repairs=False).verdict


def test_a_loss_that_need_not_ignore_what_does_not_occur() -> None:
    assert verdict(first=3) == "refines"


@pytest.mark.parametrize(("first", "ignore"), [(-100, -100), (-1, -1)])
def test_a_loss_that_forgets_what_it_ignores(first: int, ignore: int) -> None:
    assert verdict(first, ignore) != "refines"
