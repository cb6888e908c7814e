"""Norms whose features are cut: RMSNorm and LayerNorm over a sharded hidden dimension with all-reduced statistics, GroupNorm over ranks, forward and backward."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H = 6, 8


class Stat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g


class RMS(nn.Module):
    def __init__(self, world, bug=None, kernel=True):
        super().__init__()
        self.world, self.bug, self.kernel = world, bug, kernel
        self.weight = nn.Parameter(torch.empty(H // world))
        self.fc = nn.Linear(H, H // world)

    def forward(self, x):
        x = self.fc(x)
        if self.world == 1 and self.kernel:
            return F.rms_norm(x, (H,), self.weight, 1e-6)
        sq = x.square().sum(-1, keepdim=True)
        if self.world > 1 and self.bug != "local":
            sq = Stat.apply(sq)
        n = H if self.bug != "local" else H // self.world
        return x * torch.rsqrt(sq / n + 1e-6) * self.weight


class Layer(RMS):
    def forward(self, x):
        x = self.fc(x)
        if self.world == 1:
            return F.layer_norm(x, (H,), self.weight, None, 1e-5)
        mean = Stat.apply(x.sum(-1, keepdim=True)) / H
        var = Stat.apply((x - mean).square().sum(-1, keepdim=True)) / H
        return (x - mean) / torch.sqrt(var + 1e-5) * self.weight


class LayerOne(RMS):
    """One reduction of both moments."""

    def forward(self, x):
        x = self.fc(x)
        if self.world == 1:
            return F.layer_norm(x, (H,), self.weight, None, 1e-5)
        s = Stat.apply(torch.stack([x.sum(-1), x.square().sum(-1)], -1))
        mean = s[..., :1] / H
        var = s[..., 1:] / H - mean**2
        return (x - mean) * torch.rsqrt(var + 1e-5) * self.weight


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def total(out, x):
    s = out.square().sum()
    return Sum.apply(s) if dist.get_world_size() > 1 else s


def args(kind=RMS, backward=False, w=2, **kw):
    out = dict(
        build=lambda r, w: kind(w, **kw),
        make_inputs=lambda r, w: (torch.randn(T, H),),
        world_size=w,
        mode="eager",
        backward=backward,
    )
    return dict(out, loss=total) if backward else out


def fix():
    return args()


def keep_backward():
    return args(backward=True)


def keep_backward_plain():
    return args(backward=True, kernel=False)


def keep_layer():
    return args(Layer)


def keep_layer_one():
    return args(LayerOne)


def keep_layer_backward():
    return args(Layer, True)


def bug():
    return args(bug="local")
