"""LoRA on column- and row-parallel linears; frozen base, A replicated for columns, cut for rows."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, FF, R = 6, 4, 8, 2


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


class Net(nn.Module):
    def __init__(self, world, bug=None):
        super().__init__()
        self.world, self.bug = world, bug
        self.up = nn.Parameter(torch.empty(FF // world, H), requires_grad=False)
        self.down = nn.Parameter(torch.empty(H, FF // world), requires_grad=False)
        self.up_a, self.up_b = (
            nn.Parameter(torch.empty(R, H)),
            nn.Parameter(torch.empty(FF // world, R)),
        )
        self.down_a, self.down_b = (
            nn.Parameter(torch.empty(R, FF // world)),
            nn.Parameter(torch.empty(H, R)),
        )

    def forward(self, x, target):
        f = Copy.apply if self.world > 1 else (lambda t: t)
        g = Reduce.apply if self.world > 1 else (lambda t: t)
        y = f(x) @ self.up.t() + 2.0 * f(x @ self.up_a.t()) @ self.up_b.t()
        h = F.silu(y)
        low = g(h @ self.down_a.t())
        if self.bug == "twice":
            out = g(h @ self.down.t() + 2.0 * low @ self.down_b.t())
        else:
            out = g(h @ self.down.t()) + 2.0 * low @ self.down_b.t()
        return (x + out - target).square().mean()


def args(w=2, bug=None):
    return dict(
        build=lambda r, w: Net(w, bug),
        make_inputs=lambda r, w: (torch.randn(T, H), torch.randn(T, H)),
        world_size=w,
        mode="eager",
        backward=True,
    )


def fix():
    return args()


def keep_4():
    return args(4)


def bug():
    return args(bug="twice")


class Merged(Net):
    """Low-rank products inside one reduction: (h down^T + h a^T b^T) summed over ranks."""

    def forward(self, x, target):
        if self.world == 1:
            return super().forward(x, target)
        f, g = Copy.apply, Reduce.apply
        x1 = f(x)
        h = F.silu(x1 @ self.up.t() + 2.0 * f(x @ self.up_a.t()) @ self.up_b.t())
        b = self.down_b if self.bug != "b" else self.down_b
        out = g(h @ self.down.t() + 2.0 * (h @ self.down_a.t()) @ b.t())
        return (x + out - target).square().mean()


def step(module):
    if dist.get_world_size() > 1:
        dist.all_reduce(module.down_b.grad)


def keep_merged():
    return dict(args(), build=lambda r, w: Merged(w), step=step)


def bug_merged():
    return dict(args(), build=lambda r, w: Merged(w))
