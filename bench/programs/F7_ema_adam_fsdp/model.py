"""Sharded Adam on flat shards with bias correction and global-norm clipping by shards; the EMA or the step counter is updated on one rank only."""

import torch
import torch.distributed as dist
from torch import nn

B, H, LR, B1, B2, EPS, MAX = 4, 4, 0.1, 0.9, 0.95, 1e-8, 1.0


class Net(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.rank, self.world, self.how = rank, world, how
        self.w = nn.Parameter(torch.empty(H // world, H))
        self.register_buffer("m", torch.empty(H // world, H))
        self.register_buffer("v", torch.empty(H // world, H))
        self.register_buffer("ema", torch.empty(H // world, H))

    def forward(self, x):
        w = Full.apply(self.w) if self.world > 1 else self.w
        loss = torch.sigmoid(x @ w).sum() / B
        loss.backward()
        out = loss.detach().clone()
        if self.world > 1:
            dist.all_reduce(out)
        return out


class Full(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        out = torch.empty(w.shape[0] * dist.get_world_size(), *w.shape[1:])
        dist.all_gather_into_tensor(out, w)
        return out

    @staticmethod
    def backward(ctx, g):
        out = torch.empty(g.shape[0] // dist.get_world_size(), *g.shape[1:])
        dist.reduce_scatter_tensor(out, g.contiguous())
        return out


@torch.no_grad()
def step(n):
    g = n.w.grad
    sq = g.square().sum()
    if n.world > 1 and n.how != "local_norm":
        dist.all_reduce(sq)
    g = g * torch.clamp(MAX / (sq.sqrt() + 1e-6), max=1.0)
    n.m.mul_(B1).add_(g, alpha=1 - B1)
    n.v.mul_(B2).addcmul_(g, g, value=1 - B2)
    n.w.addcdiv_(n.m / (1 - B1), (n.v / (1 - B2)).sqrt() + EPS, value=-LR)
    if n.how != "ema_rank0" or n.rank == 0:
        n.ema.lerp_(n.w, 0.1)


def case(how):
    return dict(
        build=lambda r, w: Net(r, w, how),
        make_inputs=lambda r, w: (torch.randn(B // w, H),),
        world_size=2,
        mode="eager",
        backward=True,
        step=step,
    )


def fix():
    return case("ok")


def bug_ema_rank0():
    return case("ema_rank0")
