"""Sequence parallelism for linear attention / state-space models: states passed along (LASP), forward."""

import torch
import torch.distributed as dist
from torch import nn

S, D = 8, 4


class Lin(nn.Module):
    """Causal linear attention without decay: o_t = q_t sum_{s<=t} k_s v_s^T."""

    def __init__(self, rank, world, bug=None, how="ring"):
        super().__init__()
        self.rank, self.world, self.bug, self.how = rank, world, bug, how
        self.q, self.k, self.v = (nn.Linear(D, D, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        n = x.shape[0]
        mask = torch.ones(n, n).tril()
        intra = (q @ k.t() * mask) @ v
        if self.world == 1:
            return intra
        state = k.t() @ v
        if self.how == "ring":
            before = torch.zeros(D, D)
            if self.rank:
                dist.recv(before, self.rank - 1)
            if self.rank < self.world - 1:
                dist.send(before + state, self.rank + 1)
        else:
            every = [torch.empty_like(state) for _ in range(self.world)]
            dist.all_gather(every, state)
            before = sum(
                every[: self.rank if self.bug != "self" else self.rank + 1], torch.zeros(D, D)
            )
        return intra + q @ before


def args(w=2, **kw):
    return dict(
        build=lambda r, w: Lin(r, w, **kw),
        make_inputs=lambda r, w: (torch.randn(S // w, D),),
        world_size=w,
        mode="eager",
        backward=False,
    )


def fix():
    return args()


def keep_gather():
    return args(how="gather")


def keep_4():
    return args(4)


def bug():
    return args(bug="self", how="gather")


class Cumsum(nn.Module):
    """A running sum over the sequence: a rank adds what all before it have."""

    def __init__(self, rank, world, bug=False):
        super().__init__()
        self.rank, self.world, self.bug = rank, world, bug
        self.w = nn.Linear(D, D)

    def forward(self, x):
        y = self.w(x)
        out = y.cumsum(0)
        if self.world > 1:
            total = y.sum(0)
            every = torch.empty(self.world, D)
            dist.all_gather_into_tensor(every, total[None])
            out = out + every[: self.rank + self.bug].sum(0)
        return out


def keep_cumsum():
    return dict(args(), build=lambda r, w: Cumsum(r, w))


def bug_cumsum():
    return dict(args(), build=lambda r, w: Cumsum(r, w, True))
