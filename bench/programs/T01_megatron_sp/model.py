"""Megatron: column/row parallel linear with sequence parallelism, two layers, gradients of norms reduced over the tensor group."""

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

S, B, H, NH, FF, L = 8, 2, 8, 4, 16, 2


def world():
    return dist.get_world_size()


def gather0(x):
    out = x.new_empty(x.shape[0] * world(), *x.shape[1:])
    dist.all_gather_into_tensor(out, x.contiguous())
    return out


def scatter0(x):
    out = x.new_empty(x.shape[0] // world(), *x.shape[1:])
    dist.reduce_scatter_tensor(out, x.contiguous())
    return out


class GatherSeq(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return gather0(x)

    @staticmethod
    def backward(ctx, g):
        return scatter0(g)


class ScatterSeq(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return scatter0(x)

    @staticmethod
    def backward(ctx, g):
        return gather0(g)


class LinearWithGather(torch.autograd.Function):
    """LinearWithGradAccumulationAndAsyncCommunication with sequence_parallel."""

    @staticmethod
    def forward(ctx, x, w, bug):
        ctx.save_for_backward(x, w)
        ctx.bug = bug
        return torch.matmul(gather0(x), w.t())

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        total = x.new_empty(x.shape[0] * world(), *x.shape[1:])
        handle = dist.all_gather_into_tensor(total, x.contiguous(), async_op=True)
        gi = g.matmul(w)
        handle.wait()
        sub = x.new_empty(x.shape)
        handle = dist.reduce_scatter_tensor(sub, gi.contiguous(), async_op=True)
        gw = g.reshape(-1, g.shape[-1]).t().matmul(total.reshape(-1, x.shape[-1]))
        handle.wait()
        if ctx.bug:
            sub = gi[: x.shape[0]]
        return sub, gw, None


class Layer(nn.Module):
    def __init__(self, n, bug):
        super().__init__()
        self.n, self.bug = n, bug
        self.ln1, self.ln2 = nn.LayerNorm(H), nn.LayerNorm(H)
        self.q = nn.Parameter(torch.empty(H // n, H))
        self.k = nn.Parameter(torch.empty(H // n, H))
        self.v = nn.Parameter(torch.empty(H // n, H))
        self.o = nn.Parameter(torch.empty(H, H // n))
        self.up = nn.Parameter(torch.empty(FF // n, H))
        self.down = nn.Parameter(torch.empty(H, FF // n))
        self.bias = nn.Parameter(torch.empty(H))

    def lin(self, x, w):
        return (
            F.linear(x, w)
            if self.n == 1
            else LinearWithGather.apply(x, w, self.bug == "local_grad")
        )

    def out(self, x, w):
        y = F.linear(x, w)
        return y if self.n == 1 else ScatterSeq.apply(y)

    def heads(self, x):  # s b h -> b n s d
        return x.unflatten(-1, (NH // self.n, H // NH)).permute(1, 2, 0, 3)

    def forward(self, x):
        y = self.ln1(x)
        q, k, v = (self.heads(self.lin(y, w)) for w in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        a = a.permute(2, 0, 1, 3).flatten(2)
        x = x + self.out(a, self.o)
        h = F.gelu(self.lin(self.ln2(x), self.up), approximate="tanh")
        return x + self.out(h, self.down) + self.bias


class Net(nn.Module):
    def __init__(self, rank, n, bug=None):
        super().__init__()
        self.layers = nn.ModuleList(Layer(n, bug) for _ in range(L))
        self.norm = nn.LayerNorm(H)

    def forward(self, x, target):
        for layer in self.layers:
            x = layer(x)
        return (self.norm(x) - target).square().sum()


def loss(out, x, target):
    if world() == 1:
        return out

    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x = x.clone()
            dist.all_reduce(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    return Sum.apply(out)


def finalize(module, bug=None):
    if world() == 1:
        return
    shared = [p for n, p in module.named_parameters() if "ln" in n or "norm" in n or "bias" in n]
    if bug == "norms":
        shared = shared[:-2]
    flat = torch.cat([p.grad.view(-1) for p in shared])
    dist.all_reduce(flat)
    at = 0
    for p in shared:
        p.grad.copy_(flat[at : at + p.numel()].view_as(p))
        at += p.numel()


def make_inputs(rank, n):
    return torch.randn(S // n, B, H), torch.randn(S // n, B, H)


def args(n=2, bug=None):
    return dict(
        build=lambda r, w: Net(r, w, bug),
        make_inputs=make_inputs,
        world_size=n,
        mode="eager",
        backward=True,
        loss=loss,
        step=partial(finalize, bug=bug),
    )


def fix():
    return args()


def keep_4():
    return args(4)


def bug():
    return args(bug="norms")


def bug_local_grad():
    return args(bug="local_grad")
