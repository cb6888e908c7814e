"""Gradient norm under tensor parallelism: replicated parameters counted once; squares (not norms) added; inf norm by max."""

import torch
import torch.distributed as dist
from torch import nn

T, H, FF = 6, 4, 8


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous().clone()
        dist.all_reduce(g)
        return g


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class Net(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.rank, self.world, self.how = rank, world, how
        self.norm = nn.LayerNorm(H)
        self.up, self.down = nn.Linear(H, FF // world), nn.Linear(FF // world, H, bias=False)

    def shared(self, name):
        return name.startswith("norm")

    def forward(self, x):
        h = self.norm(x)
        h = Copy.apply(h) if self.world > 1 else h
        y = self.down(torch.tanh(self.up(h)))
        y = Sum.apply(y) if self.world > 1 else y
        (x + y).square().mean().backward()
        return (x + y).detach()


@torch.no_grad()
def clip(m):
    grads = {n: p.grad for n, p in m.named_parameters()}
    if m.how == "inf":
        total = torch.stack([g.abs().max() for g in grads.values()]).max()
        if m.world > 1:
            dist.all_reduce(total, op=dist.ReduceOp.MAX)
    elif (
        m.how == "scaled"
    ):  # replicated ones are divided by the number of ranks, then all are added
        total = sum(g.square().sum() / (m.world if m.shared(n) else 1) for n, g in grads.items())
        if m.world > 1:
            dist.all_reduce(total)
        total = total.sqrt()
    elif m.how == "norms":  # planted: norms are added, not squares
        total = sum(
            g.norm() ** 2
            for n, g in grads.items()
            if m.world == 1 or m.rank == 0 or not m.shared(n)
        ).sqrt()
        if m.world > 1:
            dist.all_reduce(total)
    else:
        mine = [
            g.norm(2)
            for n, g in grads.items()
            if m.world == 1 or m.rank == 0 or not m.shared(n) or m.how == "all"
        ]
        total = torch.stack(mine).norm(2).pow(2)
        if m.world > 1:
            dist.all_reduce(total)
        total = total.sqrt()
    c = (1.0 / (total + 1e-6)).clamp(max=1.0)
    for p in m.parameters():
        p.grad.mul_(c)
        p.sub_(p.grad, alpha=0.1)


def case(how):
    return dict(
        build=lambda r, w: Net(r, w, how),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=2,
        mode="eager",
        backward=True,
        step=clip,
    )


def fix():
    return case("once")


def fix_scaled():
    return case("scaled")


def fix_inf():
    return case("inf")


def bug_all_counted():
    return case("all")


def bug_norms_added():
    return case("norms")
