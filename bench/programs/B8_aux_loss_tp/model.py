"""Auxiliary losses (z-loss, load balancing) computed on every tensor-parallel rank and added to a loss whose gradient is reduced: counted N times."""

import torch
import torch.distributed as dist
from torch import nn

T, H, E, FF = 8, 4, 2, 6
Z, LB = 0.01, 0.1


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous().clone()
        dist.all_reduce(g)
        return g


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class Net(nn.Module):
    def __init__(self, world, how):
        super().__init__()
        self.world, self.how = world, how
        self.pre = nn.Linear(H, H)
        self.gate = nn.Linear(H, E, bias=False)
        self.w1 = nn.Parameter(torch.empty(E, H, FF // world))
        self.w2 = nn.Parameter(torch.empty(E, FF // world, H))

    def forward(self, x):
        x = torch.tanh(self.pre(x))
        copied = Copy.apply(x) if self.world > 1 else x
        logits = self.gate(copied if self.how == "inside" else x)
        p = torch.softmax(logits, -1)
        y = torch.einsum(
            "te,teh->th",
            p if self.world == 1 or self.how != "ok" else Copy.apply(p),
            torch.einsum(
                "etf,efh->teh", torch.relu(torch.einsum("th,ehf->etf", copied, self.w1)), self.w2
            ),
        )
        y = Add.apply(y) if self.world > 1 else y
        z = torch.logsumexp(logits, -1).square().mean()
        lb = E * (p.mean(0) * p.detach().mean(0)).sum()
        loss = (y - x).square().mean() + Z * z + LB * lb
        loss.backward()
        return loss.detach()


def step(m):
    if m.how in ("inside", "late") and m.world > 1:
        dist.all_reduce(m.gate.weight.grad)


def case(how):
    return dict(
        build=lambda r, w: Net(w, how),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=2,
        mode="eager",
        backward=True,
        step=step,
    )


def fix():
    return case("ok")


def bug_inside():
    """router inside of the copied region: its auxiliary gradients are counted on each rank"""
    return case("inside")


def bug_missing():
    return case("none")
