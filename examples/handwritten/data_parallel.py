"""Data parallelism and micro-batches by hand: gradients add up, and are averaged over the ranks.

    verify(capture(**arguments()))          # refines
    verify(capture(**arguments(bug=True)))  # the sum over the ranks is not divided by their number

A rank has its share of the batch and goes through it in micro-batches, forward and backward. The
sequential program takes the mean over the whole batch at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

BATCH, HIDDEN, FFN, MICRO_BATCHES = 8, 6, 10, 2


class Model(nn.Module):
    """Two layers; forward gives the loss of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, FFN)
        self.down = nn.Linear(FFN, HIDDEN)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (self.down(torch.tanh(self.up(x))) - target).square().mean()


class Accumulating(Model):
    """The same model; forward runs backward, too, for every micro-batch of a share of the batch.

    It returns the loss that is reported: the mean over all ranks.
    """

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        report = torch.zeros(())
        for piece in zip(x.chunk(MICRO_BATCHES), target.chunk(MICRO_BATCHES), strict=True):
            loss = super().forward(*piece) / MICRO_BATCHES
            loss.backward()
            report += loss.detach()
        dist.all_reduce(report, dist.ReduceOp.AVG)
        return report


def average(gradient: torch.Tensor, bug: bool) -> None:
    """The mean over the ranks, in place."""
    if bug:
        dist.all_reduce(gradient)  # planted: not divided by the number of ranks
    else:
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()


def average_gradients(module: nn.Module, bug: bool = False) -> None:
    """What a data-parallel wrapper does after backward."""
    for parameter in module.parameters():
        assert parameter.grad is not None
        average(parameter.grad, bug)


def build(rank: int, world_size: int) -> nn.Module:
    """The program of one rank."""
    return Accumulating()


def sequential(rank: int, world_size: int) -> nn.Module:
    """The program that has the whole batch."""
    return Model()


def make_inputs(rank: int, world_size: int) -> tuple[torch.Tensor, ...]:
    """A share of the batch."""
    share = BATCH // world_size
    return torch.randn(share, HIDDEN), torch.randn(share, HIDDEN)


def arguments(bug: bool = False) -> dict[str, Any]:
    """What to call `gg_datalog.capture` with."""
    return {
        "build": build,
        "make_inputs": make_inputs,
        "world_size": 2,
        "mode": "eager",
        "backward": True,
        "sequential": sequential,
        "step": partial(average_gradients, bug=bug),
    }
