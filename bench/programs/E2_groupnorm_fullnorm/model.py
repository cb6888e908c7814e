"""OLMo-2 / MiniMax: RMSNorm over all heads of q and k under TP; GroupNorm over channels; a local mean of squares instead of the global one."""

import torch
import torch.distributed as dist
from torch import nn

T, H = 5, 8
EPS = 1e-6


class RMSNormTP(nn.Module):
    def __init__(self, size, how):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.how = how

    def forward(self, x):
        world = dist.get_world_size()
        var = x.pow(2).mean(-1, keepdim=True)
        if world > 1 and self.how == "mean":
            dist.all_reduce(var)
            var = var / world
        if world > 1 and self.how == "sum":
            dist.all_reduce(var)
        if self.how == "gather" and world > 1:
            parts = [torch.empty_like(x) for _ in range(world)]
            dist.all_gather(parts, x)
            var = torch.cat(parts, -1).pow(2).mean(-1, keepdim=True)
        if self.how == "eps_each" and world > 1:
            var = var + EPS
            dist.all_reduce(var)
            return x * torch.rsqrt(var / world + EPS) * self.weight
        return x * torch.rsqrt(var + EPS) * self.weight


class Attn(nn.Module):
    def __init__(self, world, how):
        super().__init__()
        self.q, self.k = nn.Linear(H, H // world, bias=False), nn.Linear(H, H // world, bias=False)
        self.qn, self.kn = RMSNormTP(H // world, how), RMSNormTP(H // world, how)
        self.o = nn.Linear(H // world, H, bias=False)

    def forward(self, x):
        y = self.o(self.qn(self.q(x)) * torch.tanh(self.kn(self.k(x))))
        if dist.get_world_size() > 1:
            dist.all_reduce(y)
        return y


def case(how, world=2):
    return dict(
        build=lambda r, w: Attn(w, how).requires_grad_(False),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=world,
        mode="eager",
    )


def fix():
    return case("mean")


def fix_tp4():
    return case("mean", 4)


def keep_gather():
    return case("gather")


def bug_local():
    return case("local")


def bug_sum():
    return case("sum")


def bug_eps():
    return case("eps_each")
