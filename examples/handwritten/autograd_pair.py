"""Column- and row-parallel layers in the manner of Megatron-LM, forward and backward.

    verify(capture(**arguments()))          # refines
    verify(capture(**arguments(bug=True)))  # the gradient of a layer's input is not added up

What goes into a column-parallel layer is the same on all ranks, and its gradient is a sum over
them: `CopyToRegion` is the identity, and an all-reduce backward. `ReduceFromRegion` is the
opposite. In-place collectives inside of an autograd function have no backward of their own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

BATCH, HIDDEN, FFN = 6, 8, 16


class CopyToRegion(torch.autograd.Function):
    """The input of a column-parallel layer."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class ReduceFromRegion(torch.autograd.Function):
    """The result of a row-parallel layer."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class ColumnParallelLinear(nn.Module):
    """Each rank has some of the outputs."""

    def __init__(self, inputs: int, outputs: int, ranks: int, bug: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs // ranks, inputs))
        self.bias = nn.Parameter(torch.empty(outputs // ranks))
        self.bug = bug

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.bug:
            return F.linear(x, self.weight, self.bias)  # planted: no all-reduce backward
        return F.linear(CopyToRegion.apply(x), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """Each rank has some of the inputs; the bias is added once, to the sum."""

    def __init__(self, inputs: int, outputs: int, ranks: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs // ranks))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ReduceFromRegion.apply(F.linear(x, self.weight)) + self.bias


class Model(nn.Module):
    """A layer that every rank has, and an MLP of two parallel layers with norm and residual."""

    def __init__(self, ranks: int, bug: bool) -> None:
        super().__init__()
        self.first = nn.Linear(HIDDEN, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.up = ColumnParallelLinear(HIDDEN, FFN, ranks, bug)
        self.down = RowParallelLinear(FFN, HIDDEN, ranks)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return x + self.down(F.gelu(self.up(self.norm(x))))


def loss(output: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean squared error."""
    return (output - target).square().mean()


def build(rank: int, world_size: int, bug: bool = False) -> nn.Module:
    """The program of one rank; with one rank, the sequential one."""
    return Model(world_size, bug and world_size > 1)


def make_inputs(rank: int, world_size: int) -> tuple[torch.Tensor, ...]:
    """Every rank has the whole batch."""
    return torch.randn(BATCH, HIDDEN), torch.randn(BATCH, HIDDEN)


def arguments(bug: bool = False) -> dict[str, Any]:
    """What to call `gg_datalog.capture` with."""
    return {
        "build": partial(build, bug=bug),
        "make_inputs": make_inputs,
        "world_size": 2,
        "mode": "eager",
        "backward": True,
        "loss": loss,
    }
