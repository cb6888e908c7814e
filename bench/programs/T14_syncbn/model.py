"""Synchronised batch norm: torch.nn.SyncBatchNorm's arithmetic by hand (all-reduce of sums, of means, gather of statistics), forward and backward."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

N, C, L = 8, 4, 6


class Stat(torch.autograd.Function):
    """All-reduce whose gradient is all-reduced as well."""

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


class SyncBN(nn.Module):
    def __init__(self, world, how, bug=None):
        super().__init__()
        self.world, self.how, self.bug, self.eps, self.momentum = world, how, bug, 1e-5, 0.1
        self.weight, self.bias = nn.Parameter(torch.empty(C)), nn.Parameter(torch.empty(C))
        self.register_buffer("running_mean", torch.zeros(C))
        self.register_buffer("running_var", torch.ones(C))

    def forward(self, x):  # n c l
        if self.world == 1:
            return F.batch_norm(
                x,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                True,
                self.momentum,
                self.eps,
            )
        n = x.numel() // C
        total = n * self.world
        if self.how == "square":  # E[x^2] - E[x]^2
            stat = Stat.apply(torch.cat([x.sum((0, 2)), x.square().sum((0, 2))]))
            mean = stat[:C] / total
            var = stat[C:] / total - mean * mean
        elif self.how == "mean":  # two passes
            mean = Stat.apply(x.mean((0, 2))) / self.world
            var = Stat.apply((x - mean[:, None]).square().mean((0, 2))) / self.world
        elif self.how == "local":
            mean, var = x.mean((0, 2)), x.var((0, 2), unbiased=False)
        if self.bug == "var":
            var = x.var((0, 2), unbiased=False)
        with torch.no_grad():
            self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(
                var, alpha=self.momentum * total / (total - (1 if self.bug != "unbiased" else 0))
            )
        y = (x - mean[:, None]) * torch.rsqrt(var + self.eps)[:, None]
        return y * self.weight[:, None] + self.bias[:, None]


class Plain(SyncBN):
    """Sequential program without batch_norm's kernel."""

    def forward(self, x):
        if self.world > 1:
            return super().forward(x)
        mean, var = x.mean((0, 2)), x.var((0, 2), unbiased=False)
        with torch.no_grad():
            n = x.numel() // C
            self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(var, alpha=self.momentum * n / (n - 1))
        return (x - mean[:, None]) * torch.rsqrt(var + self.eps)[:, None] * self.weight[
            :, None
        ] + self.bias[:, None]


class Net(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.bn = make()
        self.lin = nn.Linear(L, L)

    def forward(self, x):
        return self.lin(torch.relu(self.bn(self.lin(x))))


def loss(out, x):
    return out.square().sum()


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


def step(module):
    if dist.get_world_size() > 1:
        for p in module.parameters():
            dist.all_reduce(p.grad)


def args(how="square", backward=False, bug=None, w=2, kind=SyncBN):
    out = dict(
        build=lambda r, w: Net(lambda: kind(w, how, bug)),
        make_inputs=lambda r, w: (torch.randn(N // w, C, L),),
        world_size=w,
        mode="eager",
        backward=backward,
    )
    return dict(out, loss=total, step=step) if backward else out


def fix():
    return args()


def keep_mean():
    return args("mean")


def keep_plain():
    return args("mean", kind=Plain)


def keep_backward():
    return args(backward=True)


def keep_backward_mean():
    return args("mean", True)


def keep_plain_backward():
    return args("mean", True, kind=Plain)


def keep_torch():
    """torch.nn.SyncBatchNorm itself does not run on the CPU before it is patched; so Megatron-like convert is skipped."""
    return args("square", w=4)


def bug():
    return args("local")


def bug_unbiased():
    return args(bug="unbiased")


def bug_var():
    return args("mean", bug="var")
