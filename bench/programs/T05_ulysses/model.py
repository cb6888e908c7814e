"""DeepSpeed-Ulysses: all-to-all from sequence to heads and back, with gradients."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, S, NH, D = 2, 8, 4, 2
H = NH * D


def single_all_to_all(x, scatter, gather):
    w = dist.get_world_size()
    parts = [t.contiguous() for t in torch.tensor_split(x, w, scatter)]
    out = [torch.empty_like(parts[0]) for _ in range(w)]
    dist.all_to_all(out, parts)
    return torch.cat(out, dim=gather).contiguous()


class SeqAllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scatter, gather):
        ctx.dims = scatter, gather
        return single_all_to_all(x, scatter, gather)

    @staticmethod
    def backward(ctx, g):
        s, t = ctx.dims
        return SeqAllToAll.apply(g, t, s), None, None


class A2ASingle(torch.autograd.Function):
    """all_to_all_single, as in DeepSpeed's later releases; b s h d."""

    @staticmethod
    def forward(ctx, x, to_heads, bug):
        ctx.args = to_heads, bug
        return a2a(x, to_heads, bug)

    @staticmethod
    def backward(ctx, g):
        to_heads, bug = ctx.args
        return a2a(g, not to_heads, bug), None, None


def a2a(x, to_heads, bug):
    w = dist.get_world_size()
    b, s, h, d = x.shape
    if to_heads:
        t = x.reshape(b, s, w, h // w, d).permute(2, 0, 1, 3, 4).contiguous()  # w b s h/w d
        out = torch.empty_like(t)
        dist.all_to_all_single(out, t)
        if bug:
            return out.permute(1, 2, 0, 3, 4).reshape(b, s * w, h // w, d)
        return out.permute(1, 0, 2, 3, 4).reshape(b, w * s, h // w, d)
    t = x.reshape(b, w, s // w, h, d).permute(1, 0, 2, 3, 4).contiguous()
    out = torch.empty_like(t)
    dist.all_to_all_single(out, t)
    return out.permute(1, 2, 0, 3, 4).reshape(b, s // w, w * h, d)


class Attention(nn.Module):
    def __init__(self, world, how="list", bug=None):
        super().__init__()
        self.world, self.how, self.bug = world, how, bug
        self.qkv = nn.Linear(H, 3 * H)
        self.o = nn.Linear(H, H)

    def to(self, x, heads):
        if self.world == 1:
            return x
        if self.how == "list":
            return (
                SeqAllToAll.apply(x, 2, 1)
                if heads or self.bug == "home"
                else SeqAllToAll.apply(x, 1, 2)
            )
        return A2ASingle.apply(x, heads, self.bug == "order")

    def forward(self, x, target):
        q, k, v = (self.to(t.unflatten(-1, (NH, D)), True) for t in self.qkv(x).split(H, -1))
        a = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        ).transpose(1, 2)
        y = self.o(self.to(a, False).flatten(2))
        return (y - target).square().sum()


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def loss(out, *_):
    return Sum.apply(out) if dist.get_world_size() > 1 else out


def step(module):
    if dist.get_world_size() > 1:
        for p in module.parameters():
            dist.all_reduce(p.grad)


def make_inputs(rank, w):
    return torch.randn(B, S // w, H), torch.randn(B, S // w, H)


def args(w=2, how="list", bug=None):
    return dict(
        build=lambda r, w: Attention(w, how, bug),
        make_inputs=make_inputs,
        world_size=w,
        mode="eager",
        backward=True,
        loss=loss,
        step=step,
    )


def fix():
    return args()


def keep_4():
    return args(4)


def keep_single():
    return args(how="single")


def keep_single_4():
    return args(4, how="single")


def bug():
    return args(how="single", bug="order")


def no_reduce(module):
    pass


def bug_no_reduce():
    return dict(args(), step=no_reduce)
