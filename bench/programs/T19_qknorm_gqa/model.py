"""Qwen3-like attention under tensor parallelism where a kv head is held by two ranks each: QK-norm per head, rope; gradients of kv summed over replicas."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, S, NH, KV, D, H = 2, 4, 4, 2, 4, 8


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class Attention(nn.Module):
    def __init__(self, rank, world, norm=True, bug=None):
        super().__init__()
        self.rank, self.world, self.norm, self.bug = rank, world, norm, bug
        self.nh, self.kv = NH // world, max(1, KV // world)
        self.q = nn.Linear(H, self.nh * D, bias=False)
        self.k = nn.Linear(H, self.kv * D, bias=False)
        self.v = nn.Linear(H, self.kv * D, bias=False)
        self.o = nn.Linear(self.nh * D, H, bias=False)
        self.qn, self.kn = nn.RMSNorm(D), nn.RMSNorm(D)

    def forward(self, x, target):
        y = Copy.apply(x) if self.world > 1 else x
        q, k, v = (m(y).view(B, S, -1, D) for m in (self.q, self.k, self.v))
        if self.norm:
            q, k = self.qn(q), self.kn(k)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        n = self.nh // self.kv
        k, v = (
            t[:, :, None].expand(B, self.kv, n, S, D).reshape(B, self.kv * n, S, D) for t in (k, v)
        )
        a = (
            F.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .reshape(B, S, -1)
        )
        a = self.o(a)
        a = Reduce.apply(a) if self.world > 1 else a
        return (x + a - target).square().mean()


def step(module, bug=None):
    w = dist.get_world_size()
    if w == 1:
        return
    groups = [dist.new_group([i * 2, i * 2 + 1]) for i in range(w // 2)]
    mine = groups[dist.get_rank() // 2]
    if w > KV:
        for p in (module.k.weight, module.v.weight) if module.bug != "kv" else (module.k.weight,):
            dist.all_reduce(p.grad, group=mine)
    if module.norm:
        for p in (
            (module.qn.weight, module.kn.weight) if module.bug != "norm" else (module.qn.weight,)
        ):
            dist.all_reduce(p.grad)


def place(name, full, rank, world):
    if name in ("k.weight", "v.weight") and world == 4:
        return full.chunk(2)[rank // 2]
    return NotImplemented


def args(w=4, backward=True, **kw):
    out = dict(
        build=lambda r, w: Attention(r, w, **kw),
        make_inputs=lambda r, w: (torch.randn(B, S, H), torch.randn(B, S, H)),
        world_size=w,
        mode="eager",
        backward=backward,
    )
    return dict(out, step=step) if backward else out


def fix():
    return args()


def keep_forward():
    return args(backward=False)


def keep_2():
    return args(2)


def keep_no_norm():
    return args(norm=False)


def bug():
    return args(bug="kv")


def bug_norm():
    return args(bug="norm")
