"""Tensor parallelism by hand, forward: attention and MLP, a share of heads and of columns per rank.

    verify(capture(**arguments()))          # refines
    verify(capture(**arguments(bug=True)))  # the parts of the MLP's result are not added up

The first layer of a pair is split by columns (its results), the second one by rows (its inputs), so
that one all-reduce per pair adds up the parts of the ranks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._functional_collectives import all_reduce

BATCH, SEQ, HIDDEN, HEADS, FFN = 2, 6, 16, 4, 32


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A layer whose bias, where it has one, would be counted once per rank: it has none."""
    return nn.Linear(inputs, outputs, bias=False)


class Attention(nn.Module):
    """Attention over the heads of one rank."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.size = HIDDEN // HEADS
        self.query = linear(HIDDEN, HIDDEN // ranks)
        self.key = linear(HIDDEN, HIDDEN // ranks)
        self.value = linear(HIDDEN, HIDDEN // ranks)
        self.proj = linear(HIDDEN // ranks, HIDDEN)

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """`[batch, heads, seq, size]`."""
        return x.unflatten(-1, (-1, self.size)).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.heads(layer(x)) for layer in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) * self.size**-0.5
        context = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return all_reduce(self.proj(context), "sum", dist.group.WORLD)


class Mlp(nn.Module):
    """Two layers, the hidden one split over the ranks."""

    def __init__(self, ranks: int, bug: bool) -> None:
        super().__init__()
        self.up = linear(HIDDEN, FFN // ranks)
        self.down = linear(FFN // ranks, HIDDEN)
        self.bug = bug

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.gelu(self.up(x))
        if self.bug:
            return F.linear(inner, self.down.weight)  # planted: the all-reduce is missing
        return all_reduce(self.down(inner), "sum", dist.group.WORLD)


class Block(nn.Module):
    """A transformer block; with one rank it is the sequential program."""

    def __init__(self, ranks: int, bug: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.attention = Attention(ranks)
        self.mlp = Mlp(ranks, bug)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def build(rank: int, world_size: int, bug: bool = False) -> nn.Module:
    """The program of one rank."""
    return Block(world_size, bug and world_size > 1)


def make_inputs(rank: int, world_size: int) -> tuple[torch.Tensor, ...]:
    """Every rank has the whole input."""
    return (torch.randn(BATCH, SEQ, HIDDEN),)


def arguments(bug: bool = False) -> dict[str, Any]:
    """What to call `gg_datalog.capture` with."""
    return {
        "build": partial(build, bug=bug),
        "make_inputs": make_inputs,
        "world_size": 2,
        "mode": "dynamo",
        "backward": False,
    }
