"""A hand-written pipeline: GPipe and 1F1B with send and recv, stages of one layer, micro-batches, activations kept."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, H, M = 8, 4, 4


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(H, H), nn.LayerNorm(H)

    def forward(self, x):
        return x + torch.tanh(self.fc(self.norm(x)))


class Sequential(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.stages = nn.ModuleDict({str(i): Stage() for i in range(n)})

    def forward(self, x, target):
        for s in self.stages.values():
            x = s(x)
        loss = F.mse_loss(x, target)
        loss.backward()
        return loss.detach()


class Pipe(nn.Module):
    def __init__(self, rank, world, kind, bug=None):
        super().__init__()
        self.rank, self.world, self.kind, self.bug = rank, world, kind, bug
        self.stages = nn.ModuleDict({str(rank): Stage()})

    def recv(self, src):
        t = torch.empty(B // M, H)
        dist.recv(t, src)
        return t

    def fwd(self, i):
        first, last = self.rank == 0, self.rank == self.world - 1
        x = self.xs[i] if first else self.recv(self.rank - 1).requires_grad_()
        y = self.stages[str(self.rank)](x)
        if last:
            y = F.mse_loss(y, self.ts[i]) / (M if self.bug != "scale" else 1)
            self.total = self.total + y.detach()
        else:
            self.send(y.detach(), self.rank + 1)
        self.saved.append((x, y))

    def bwd(self, i):
        first, last = self.rank == 0, self.rank == self.world - 1
        x, y = self.saved.pop(-1 if self.bug == "lifo" and first else 0)
        if last:
            y.backward()
        else:
            y.backward(self.recv(self.rank + 1))
        if not first:
            self.send(x.grad, self.rank - 1)

    def send(self, t, to):
        if self.kind == "gpipe":
            dist.send(t, to)
        else:
            self.pending.append(dist.isend(t, to))

    def forward(self, x, target):
        self.xs, self.ts, self.saved, self.total = x.chunk(M), target.chunk(M), [], torch.zeros(())
        self.pending = []
        if self.kind == "gpipe":
            for i in range(M):
                self.fwd(i)
            for i in range(M):
                self.bwd(i)
        else:
            warm = min(self.world - self.rank - 1, M)
            for i in range(warm):
                self.fwd(i)
            for i in range(M - warm):
                self.fwd(warm + i)
                self.bwd(i)
            for i in range(M - warm, M):
                self.bwd(i)
        for work in self.pending:
            work.wait()
        return self.total if self.rank == self.world - 1 else None


def make_inputs(rank, world):
    return torch.randn(B, H), torch.randn(B, H)


def args(w=2, kind="gpipe", bug=None):
    return dict(
        build=lambda r, w: Pipe(r, w, kind, bug),
        sequential=lambda r, _: Sequential(w),
        make_inputs=make_inputs,
        world_size=w,
        mode="eager",
        backward=True,
    )


def fix():
    return args()


def keep_4():
    return args(4)


def keep_1f1b():
    return args(kind="1f1b")


def keep_1f1b_4():
    return args(4, "1f1b")


def bug():
    return args(bug="lifo")


def bug_scale():
    return args(4, "1f1b", "scale")
