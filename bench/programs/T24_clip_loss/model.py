"""Contrastive loss over features gathered from all ranks (OpenCLIP): gather with gradient, local loss, and its averaging by DDP; SigLIP ring."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, H = 8, 4


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous().clone()
        out = g.new_empty(g.shape[0] // dist.get_world_size(), g.shape[1])
        dist.reduce_scatter_tensor(out, g)
        return out


class Avg(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x / dist.get_world_size()

    @staticmethod
    def backward(ctx, g):
        return g


class Clip(nn.Module):
    def __init__(self, rank, world, local=True, bug=None):
        super().__init__()
        self.rank, self.world, self.local, self.bug = rank, world, local, bug
        self.image, self.text = nn.Linear(H, H), nn.Linear(H, H)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, a, b):
        a, b = F.normalize(self.image(a), dim=-1), F.normalize(self.text(b), dim=-1)
        if self.world == 1:
            s = self.scale * a @ b.t()
            y = torch.arange(B)
            return (F.cross_entropy(s, y) + F.cross_entropy(s.t(), y)) / 2
        ga, gb = Gather.apply(a), Gather.apply(b)
        n = B // self.world
        if self.local:
            s, t = self.scale * a @ gb.t(), self.scale * b @ ga.t()
            y = torch.arange(n) + (n * self.rank if self.bug != "labels" else 0)
            return (F.cross_entropy(s, y) + F.cross_entropy(t, y)) / 2
        s = self.scale * ga @ gb.t()
        y = torch.arange(B)
        return (F.cross_entropy(s, y) + F.cross_entropy(s.t(), y)) / 2


def loss(out, *_):
    return Avg.apply(out) if dist.get_world_size() > 1 else out


def step(module):
    w = dist.get_world_size()
    if w > 1:
        for p in module.parameters():
            dist.all_reduce(p.grad)
            p.grad /= w


def args(backward=True, w=2, **kw):
    out = dict(
        build=lambda r, w: Clip(r, w, **kw),
        make_inputs=lambda r, w: (torch.randn(B // w, H), torch.randn(B // w, H)),
        world_size=w,
        mode="eager",
        backward=backward,
        loss=loss,
    )
    return dict(out, step=step) if backward else out


def fix():
    return args()


def keep_forward():
    return args(False)


def keep_global():
    return args(local=False)


def bug():
    return args(bug="labels")


class SigLip(nn.Module):
    """Texts go round; each block has its own part of the loss."""

    def __init__(self, rank, world, bug=False):
        super().__init__()
        self.rank, self.world, self.bug = rank, world, bug
        self.image, self.text = nn.Linear(H, H), nn.Linear(H, H)
        self.scale, self.shift = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))

    def block(self, a, b, diagonal):
        s = self.scale * a @ b.t() + self.shift
        y = 2 * torch.eye(a.shape[0], b.shape[0]) - 1 if diagonal else -torch.ones_like(s)
        return -F.logsigmoid(y * s).sum()

    def forward(self, a, b):
        a, b = F.normalize(self.image(a), dim=-1), F.normalize(self.text(b), dim=-1)
        total = self.block(a, b, True)
        for step in range(1, self.world):
            got = torch.empty_like(b)
            ops = [
                dist.P2POp(dist.isend, b.contiguous(), (self.rank + 1) % self.world),
                dist.P2POp(dist.irecv, got, (self.rank - 1) % self.world),
            ]
            for work in dist.batch_isend_irecv(ops):
                work.wait()
            b = got
            total = total + self.block(a, b, self.bug)
        if self.world > 1:
            dist.all_reduce(total)
        return total / B


def keep_siglip():
    return dict(args(False), build=lambda r, w: SigLip(r, w), loss=None)


def bug_siglip():
    return dict(args(False), build=lambda r, w: SigLip(r, w, True), loss=None)
