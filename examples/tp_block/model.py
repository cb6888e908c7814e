"""A pre-norm transformer block, sequential and tensor parallel, in plain PyTorch.

`Block` is the program as it would be written for one device. `ParallelBlock` is the same block for
one rank of a tensor-parallel group: the qkv and the first MLP layer are column parallel, the two
layers that follow them are row parallel and end in an all-reduce, and what is replicated (norms,
biases of the row-parallel layers) is applied as on one device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import ProcessGroup
from torch.distributed._functional_collectives import all_reduce

Box = list[list[int]]
"""A half-open range `[lo, hi]` per dimension."""

BUGS = ("missing-all-reduce",)


@dataclass(frozen=True)
class Config:
    """Sizes of the block; the defaults are those of the cases that ship with it.

    No two extents of the captured graphs coincide by accident (batch and heads of a rank, tokens
    and hidden size of a rank, ...), so that shapes can be read.
    """

    hidden: int = 64
    heads: int = 4
    ffn: int = 256
    batch: int = 3
    seq: int = 10


def attention(qkv: torch.Tensor, heads: int) -> torch.Tensor:
    """Attention of `heads` heads over fused projections `[batch, seq, q | k | v]`."""
    batch, seq, width = qkv.shape
    head_dim = width // (3 * heads)
    q, k, v = qkv.chunk(3, dim=-1)
    q = q.view(batch, seq, heads, head_dim).transpose(1, 2)
    k = k.view(batch, seq, heads, head_dim).transpose(1, 2)
    v = v.view(batch, seq, heads, head_dim).transpose(1, 2)
    scores = torch.matmul(q, k.transpose(2, 3)) * head_dim**-0.5
    probs = torch.softmax(scores, dim=-1)
    context = torch.matmul(probs, v)
    return context.transpose(1, 2).reshape(batch, seq, heads * head_dim)


class Block(nn.Module):
    """The sequential program."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(config.hidden)
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden)
        self.proj = nn.Linear(config.hidden, config.hidden)
        self.norm2 = nn.LayerNorm(config.hidden)
        self.fc1 = nn.Linear(config.hidden, config.ffn)
        self.fc2 = nn.Linear(config.ffn, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        context = attention(self.qkv(self.norm1(x)), self.heads)
        x = x + self.proj(context)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class RowParallelLinear(nn.Module):
    """A linear layer of which each rank holds some of the input columns.

    The products of the ranks are parts of a sum; the bias is added once, to the reduced sum.
    """

    def __init__(self, inputs: int, outputs: int, group: ProcessGroup, reduce: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs // group.size()))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.group = group
        self.reduce = reduce

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.weight)
        if self.reduce:
            y = all_reduce(y, "sum", self.group)
        return y + self.bias


class ParallelBlock(nn.Module):
    """The program of one rank.

    `bug="missing-all-reduce"` leaves out the all-reduce after the attention projection, so that
    every rank goes on with its own part of the sum.
    """

    def __init__(self, config: Config, group: ProcessGroup, bug: str | None = None) -> None:
        super().__init__()
        ranks = group.size()
        self.heads = config.heads // ranks
        self.norm1 = nn.LayerNorm(config.hidden)
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden // ranks)
        reduce = bug != "missing-all-reduce"
        self.proj = RowParallelLinear(config.hidden, config.hidden, group, reduce)
        self.norm2 = nn.LayerNorm(config.hidden)
        self.fc1 = nn.Linear(config.hidden, config.ffn // ranks)
        self.fc2 = RowParallelLinear(config.ffn, config.hidden, group)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        context = attention(self.qkv(self.norm1(x)), self.heads)
        x = x + self.proj(context)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


SHARDED = {
    "qkv.weight": (0, 3),
    "qkv.bias": (0, 3),
    "proj.weight": (1, 1),
    "fc1.weight": (0, 1),
    "fc1.bias": (0, 1),
    "fc2.weight": (1, 1),
}
"""Parameter -> (dimension it is sharded along, number of fused pieces sharded one by one)."""


def placement(name: str, shape: list[int], rank: int, ranks: int) -> list[tuple[Box, Box]] | None:
    """Pairs of equal boxes of a parameter's sequential tensor and the tensor of one rank.

    None stands for a replicated parameter: the tensors are equal as a whole.
    """
    if name not in SHARDED:
        return None
    dim, pieces = SHARDED[name]
    full = shape[dim] // pieces
    part = full // ranks
    pairs = []
    for piece in range(pieces):
        seq_box = [[0, size] for size in shape]
        dist_box = [[0, size] for size in shape]
        start = piece * full + rank * part
        seq_box[dim] = [start, start + part]
        dist_box[dim] = [piece * part, (piece + 1) * part]
        pairs.append((seq_box, dist_box))
    return pairs
