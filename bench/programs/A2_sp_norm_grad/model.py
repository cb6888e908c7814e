"""Megatron-DeepSpeed / NeMo: gradients of layer norms under sequence parallelism are not reduced over tensor-parallel ranks (q/k norms are forgotten)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

S, B, H, FF = 8, 2, 6, 12


class GatherSeq(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty(x.shape[0] * dist.get_world_size(), *x.shape[1:])
        dist.all_gather_into_tensor(out, x.contiguous())
        return out

    @staticmethod
    def backward(ctx, g):
        out = torch.empty(g.shape[0] // dist.get_world_size(), *g.shape[1:])
        dist.reduce_scatter_tensor(out, g.contiguous())
        return out


class ScatterSeq(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty(x.shape[0] // dist.get_world_size(), *x.shape[1:])
        dist.reduce_scatter_tensor(out, x.contiguous())
        return out

    @staticmethod
    def backward(ctx, g):
        out = torch.empty(g.shape[0] * dist.get_world_size(), *g.shape[1:])
        dist.all_gather_into_tensor(out, g.contiguous())
        return out


class Block(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.world = world
        self.norm = nn.LayerNorm(H)
        self.up = nn.Linear(H, FF // world)
        self.down = nn.Linear(FF // world, H, bias=False)
        self.down_bias = nn.Parameter(torch.empty(H))
        self.final_norm = nn.RMSNorm(H, eps=1e-6)

    def forward(self, x):
        h = self.norm(x)
        if self.world > 1:
            h = GatherSeq.apply(h)
        h = self.down(F.silu(self.up(h)))
        if self.world > 1:
            h = ScatterSeq.apply(h)
        y = self.final_norm(x + h + self.down_bias)
        y.square().sum().backward()
        return y.detach()


def finalize(module, names):
    if module.world > 1:
        for n, p in module.named_parameters():
            if any(n.startswith(k) for k in names):
                dist.all_reduce(p.grad)


def case(*names):
    return dict(
        build=lambda r, w: Block(w),
        make_inputs=lambda r, w: (torch.randn(S // w, B, H),),
        world_size=2,
        mode="eager",
        backward=True,
        step=lambda m: finalize(m, names),
    )


def fix():
    return case("norm", "final_norm", "down_bias")


def bug_no_norm():
    return case("down_bias")


def bug_bias_forgotten():
    return case("norm", "final_norm")


def bug_reduces_sharded():
    """a prefix that is too wide: the sharded down projection is summed as well"""
    return case("norm", "final_norm", "down")
