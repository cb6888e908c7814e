"""Embedding cut along its width and gathered; output of column-parallel linear gathered; rooted collectives (scatter inputs, gather outputs)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

V, H, T, C = 8, 8, 6, 4


class GatherLast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, -1)

    @staticmethod
    def backward(ctx, g):
        return g.chunk(dist.get_world_size(), -1)[dist.get_rank()].contiguous()


class GatherSum(GatherLast):
    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g.chunk(dist.get_world_size(), -1)[dist.get_rank()].contiguous()


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g


class Net(nn.Module):
    def __init__(self, world, bug=False):
        super().__init__()
        self.world, self.bug = world, bug
        self.emb = nn.Embedding(V, H // world)
        self.norm = nn.LayerNorm(H)
        self.out = nn.Linear(H, C // world)

    def forward(self, tokens, target):
        x = self.emb(tokens)
        if self.world > 1:
            x = GatherLast.apply(x) if not self.bug else GatherSum.apply(x)
        x = self.norm(x)
        if self.world > 1:
            y = GatherLast.apply(self.out(Copy.apply(x)))
        else:
            y = self.out(x)
        return F.cross_entropy(y, target)


INT_HIGH = 4


def args(w=2, bug=False):
    return dict(
        build=lambda r, w: Net(w, bug),
        make_inputs=lambda r, w: (
            torch.zeros(T, dtype=torch.long),
            torch.zeros(T, dtype=torch.long),
        ),
        world_size=w,
        mode="eager",
        backward=True,
    )


def fix():
    return args()


def keep_4():
    return args(4)


def bug():
    return args(bug=True)


class Rooted(nn.Module):
    """Rank 0 has everything: it scatters rows, everybody computes, rank 0 gathers."""

    def __init__(self, rank, world, bug=False):
        super().__init__()
        self.rank, self.world, self.bug = rank, world, bug
        self.fc = nn.Linear(H, H)

    def forward(self, x):
        if self.world == 1:
            return torch.relu(self.fc(x))
        mine = torch.empty(T // self.world, H)
        dist.scatter(
            mine, [t.contiguous() for t in x.chunk(self.world)] if self.rank == 0 else None, src=0
        )
        y = torch.relu(self.fc(mine))
        parts = [torch.empty_like(y) for _ in range(self.world)] if self.rank == 0 else None
        dist.gather(y, parts, dst=0)
        if self.rank == 0:
            return torch.cat(parts[::-1] if self.bug else parts)


def keep_rooted():
    return dict(
        build=lambda r, w: Rooted(r, w),
        make_inputs=lambda r, w: (torch.randn(T, H),),
        world_size=2,
        mode="eager",
        backward=False,
    )


def bug_rooted():
    return dict(
        build=lambda r, w: Rooted(r, w, True),
        make_inputs=lambda r, w: (torch.randn(T, H),),
        world_size=2,
        mode="eager",
        backward=False,
    )
