"""Attention in the manner of DeepSpeed-Ulysses, forward and backward.

    verify(capture(**arguments()))          # refines
    verify(capture(**arguments(bug=True)))  # heads in another order after the second exchange

A rank has a share of the sequence. All-to-all gives it the whole sequence for a share of the heads,
and after attention its share of the sequence for all heads. All parameters are on every rank, their
gradients are sums over the shares.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

SEQ, BATCH, HEADS, SIZE = 8, 2, 4, 4
HIDDEN = HEADS * SIZE


class Exchange(torch.autograd.Function):
    """Part i of dimension 0 goes to rank i; backward, it comes back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        dist.all_to_all_single(result, x)
        return result

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        grad = grad.contiguous()  # the result fills memory in order, and so must lie like that
        result = torch.empty_like(grad)
        dist.all_to_all_single(result, grad)
        return result


class AddUp(torch.autograd.Function):
    """The sum over the ranks; each one's part has the gradient of the sum."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class Attention(nn.Module):
    """Over `[seq, batch, hidden]`, of which a rank has some of the sequence."""

    def __init__(self, ranks: int, bug: bool) -> None:
        super().__init__()
        self.ranks, self.bug = ranks, bug
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)

    def to_heads(self, x: torch.Tensor) -> torch.Tensor:
        """`[seq / ranks, batch, hidden]` to `[batch, heads / ranks, seq, size]`."""
        parts = x.unflatten(-1, (self.ranks, -1, SIZE)).movedim(2, 0)
        return Exchange.apply(parts.flatten(0, 1).contiguous()).permute(1, 2, 0, 3)

    def to_sequence(self, x: torch.Tensor) -> torch.Tensor:
        """`[batch, heads / ranks, seq, size]` to `[heads, seq / ranks, batch, size]`."""
        parts = x.unflatten(2, (self.ranks, -1)).permute(2, 1, 3, 0, 4)
        return Exchange.apply(parts.flatten(0, 1).contiguous())

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.to_heads(part) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) * SIZE**-0.5
        context = self.to_sequence(scores.softmax(-1) @ v)
        if self.bug:
            heads = context.unflatten(0, (-1, self.ranks)).transpose(0, 1).flatten(0, 1)
            return self.proj(heads.permute(1, 2, 0, 3).flatten(2))  # planted: heads in wrong order
        return self.proj(context.permute(1, 2, 0, 3).flatten(2))


def loss(output: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The mean squared error over the tokens of all ranks."""
    return AddUp.apply((output - target).square().sum()) / (SEQ * BATCH * HIDDEN)


def add_up_gradients(module: nn.Module) -> None:
    """Every parameter is on all ranks, and each saw its own tokens."""
    for parameter in module.parameters():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)


def build(rank: int, world_size: int, bug: bool = False) -> nn.Module:
    """The program of one rank; with one rank, the sequential one."""
    return Attention(world_size, bug and world_size > 1)


def make_inputs(rank: int, world_size: int) -> tuple[torch.Tensor, ...]:
    """A share of the sequence."""
    shape = SEQ // world_size, BATCH, HIDDEN
    return torch.randn(shape), torch.randn(shape)


def arguments(bug: bool = False) -> dict[str, Any]:
    """What to call `gg_datalog.capture` with."""
    return {
        "build": partial(build, bug=bug),
        "make_inputs": make_inputs,
        "world_size": 2,
        "mode": "eager",
        "backward": True,
        "loss": loss,
        "step": add_up_gradients,
    }
