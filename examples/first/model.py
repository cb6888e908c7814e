"""Two linear layers; on several ranks each has a part of the hidden features."""

import torch
import torch.distributed as dist
from torch import nn


class MLP(nn.Module):
    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.up = nn.Linear(256, 1024 // ranks, bias=False)
        self.down = nn.Linear(1024 // ranks, 256, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(torch.relu(self.up(x)))
        dist.all_reduce(y)
        return x + y


def tensor_parallel():
    return lambda rank, ranks: MLP(ranks), lambda rank, ranks: (torch.empty(8, 256),)
