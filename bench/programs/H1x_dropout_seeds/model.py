"""Dropout under tensor parallelism: sharded activations need other seeds per rank, replicated ones the same (Megatron's model-parallel rng tracker)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, FF = 8, 6, 8


class MLP(nn.Module):
    def __init__(self, rank, world, inner, outer):
        super().__init__()
        self.rank, self.world, self.inner, self.outer = rank, world, inner, outer
        self.up, self.down = nn.Linear(H, FF // world), nn.Linear(FF // world, H, bias=False)

    def drop(self, x, seed):
        torch.manual_seed(seed)
        return F.dropout(x, 0.2, training=True)

    def forward(self, x):
        h = F.gelu(self.up(x))
        h = self.drop(h, 1234 + (self.rank * 100 if self.inner == "other" else 0))
        y = self.down(h)
        if self.world > 1:
            dist.all_reduce(y)
        return x + self.drop(y, 99 + (self.rank if self.outer == "other" else 0))


def case(inner, outer):
    return dict(
        build=lambda r, w: MLP(r, w, inner, outer).requires_grad_(False),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=2,
        mode="eager",
    )


def fix():
    return case("other", "same")


def bug_same_inside():
    return case("same", "same")


def bug_other_outside():
    return case("other", "other")
