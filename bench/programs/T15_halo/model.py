"""Spatial parallelism: convolution with halo exchange along one dimension (send/recv of borders), 1d and 2d, padding same."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, C, S, W = 2, 3, 8, 5


def halo(x, dim, n, bug=None):
    """Borders of neighbours, zeros at the ends."""
    r, w = dist.get_rank(), dist.get_world_size()
    first, last = x.narrow(dim, 0, n).contiguous(), x.narrow(dim, x.shape[dim] - n, n).contiguous()
    left, right = torch.zeros_like(first), torch.zeros_like(last)
    ops = []
    if r > 0:
        ops += [
            dist.P2POp(dist.isend, first if bug != "swap" else last, r - 1),
            dist.P2POp(dist.irecv, left, r - 1),
        ]
    if r < w - 1:
        ops += [dist.P2POp(dist.isend, last, r + 1), dist.P2POp(dist.irecv, right, r + 1)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return torch.cat([left, x, right], dim)


def halo_gather(x, dim, n, bug=None):
    """Borders of all by all-gather."""
    r, w = dist.get_rank(), dist.get_world_size()
    edge = torch.stack([x.narrow(dim, 0, n), x.narrow(dim, x.shape[dim] - n, n)]).contiguous()
    every = [torch.empty_like(edge) for _ in range(w)]
    dist.all_gather(every, edge)
    zero = torch.zeros_like(edge[0])
    left = every[r - 1][1] if r else zero
    right = every[r + 1][0] if r < w - 1 else zero
    return torch.cat([left, x, right], dim)


class Exchange(torch.autograd.Function):
    """Halo exchange with its gradient: what belongs to neighbours goes back and is added."""

    @staticmethod
    def forward(ctx, x, dim, n, bug):
        ctx.a = dim, n, bug
        return halo(x, dim, n, bug)

    @staticmethod
    def backward(ctx, g):
        dim, n, bug = ctx.a
        r, w = dist.get_rank(), dist.get_world_size()
        size = g.shape[dim]
        mine = g.narrow(dim, n, size - 2 * n).clone()
        left, right = g.narrow(dim, 0, n).contiguous(), g.narrow(dim, size - n, n).contiguous()
        a, b = torch.zeros_like(left), torch.zeros_like(right)
        ops = []
        if r > 0:
            ops += [dist.P2POp(dist.isend, left, r - 1), dist.P2POp(dist.irecv, a, r - 1)]
        if r < w - 1:
            ops += [dist.P2POp(dist.isend, right, r + 1), dist.P2POp(dist.irecv, b, r + 1)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        if bug != "grad":
            mine.narrow(dim, 0, n).add_(a)
            mine.narrow(dim, mine.shape[dim] - n, n).add_(b)
        return mine, None, None, None


class Net(nn.Module):
    def __init__(self, world, d=1, how=halo, bug=None, k=3):
        super().__init__()
        self.world, self.d, self.how, self.bug, self.k = world, d, how, bug, k
        conv = nn.Conv1d if d == 1 else nn.Conv2d
        self.c1 = conv(C, 4, k, padding=k // 2)
        self.c2 = conv(4, C, k, padding=k // 2)

    def conv(self, m, x):
        if self.world == 1:
            return m(x)
        n = self.k // 2
        x = self.how(x, 2, n, self.bug)
        if self.d == 1:
            return F.conv1d(x, m.weight, m.bias)
        return F.conv2d(x, m.weight, m.bias, padding=(0, n))

    def forward(self, x):
        return self.conv(self.c2, torch.relu(self.conv(self.c1, x)))


class Grad(Net):
    def conv(self, m, x):
        if self.world == 1:
            return m(x)
        return F.conv1d(Exchange.apply(x, 2, self.k // 2, self.bug), m.weight, m.bias)


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


def args(w=2, d=1, kind=Net, **kw):
    shape = (lambda w: (B, C, S // w)) if d == 1 else (lambda w: (B, C, S // w, W))
    return dict(
        build=lambda r, w: kind(w, d, **kw),
        make_inputs=lambda r, w: (torch.randn(*shape(w)),),
        world_size=w,
        mode="eager",
        backward=False,
    )


def fix():
    return args()


def keep_4():
    return args(4)


def keep_2d():
    return args(d=2)


def keep_gather():
    return args(how=halo_gather)


def keep_k5():
    return args(k=5)


def keep_backward():
    return dict(args(kind=Grad), backward=True, loss=total, step=step)


def bug():
    return args(bug="swap")


def bug_backward():
    return dict(args(kind=Grad, bug="grad"), backward=True, loss=total, step=step)


def zeros(x, dim, n, bug=None):
    return F.pad(x, (n, n))


def bug_zero_halo():
    return args(how=zeros)


class Causal(nn.Module):
    """Mamba's causal depthwise convolution: only the previous rank's last k-1 positions."""

    def __init__(self, rank, world, bug=False):
        super().__init__()
        self.rank, self.world, self.bug = rank, world, bug
        self.w = nn.Parameter(torch.empty(C, 1, 4))
        self.b = nn.Parameter(torch.empty(C))

    def forward(self, x):
        if self.world == 1:
            return F.silu(F.conv1d(x, self.w, self.b, padding=3, groups=C)[..., :S])
        before = torch.zeros(B, C, 3)
        tail = x[..., -3:].contiguous()
        todo = []
        if self.rank < self.world - 1:
            todo.append(dist.isend(tail, self.rank + 1))
        if self.rank and not self.bug:
            todo.append(dist.irecv(before, self.rank - 1))
        elif self.rank:
            todo.append(dist.irecv(torch.empty_like(before), self.rank - 1))
        for t in todo:
            t.wait()
        return F.silu(F.conv1d(torch.cat([before, x], -1), self.w, self.b, groups=C))


def keep_causal():
    return dict(args(), build=lambda r, w: Causal(r, w))


def bug_causal():
    return dict(args(), build=lambda r, w: Causal(r, w, True))
