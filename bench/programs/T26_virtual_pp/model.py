"""Interleaved pipeline: two ranks with two chunks each (virtual stages), F-then-B; last stage's loss; tied weights none. And pipeline x data parallel."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, H, M = 4, 4, 2


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(H, H)

    def forward(self, x):
        return x + torch.tanh(self.fc(x))


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


class Interleaved(nn.Module):
    """Chunks rank and rank + world: micro-batch by micro-batch, forward through all chunks, then backward."""

    def __init__(self, rank, world, bug=None):
        super().__init__()
        self.rank, self.world, self.bug = rank, world, bug
        self.mine = [rank, rank + world]
        self.stages = nn.ModuleDict({str(i): Stage() for i in self.mine})

    def forward(self, x, target):
        r, w, last = self.rank, self.world, 2 * self.world - 1
        kept, total, sends = {}, torch.zeros(()), []
        for i in range(M):
            for s in self.mine:
                if s == 0:
                    h = x.chunk(M)[i]
                else:
                    h = torch.empty(B // M, H)
                    dist.recv(h, (r - 1) % w)
                    h.requires_grad_()
                y = self.stages[str(s if self.bug != "chunk" else self.mine[0])](h)
                if s == last:
                    y = F.mse_loss(y, target.chunk(M)[i]) / M
                    total = total + y.detach()
                else:
                    sends.append(dist.isend(y.detach().contiguous(), (r + 1) % w))
                kept[i, s] = h, y
        for i in range(M):
            for s in reversed(self.mine):
                h, y = kept[i, s]
                if s == last:
                    y.backward()
                else:
                    g = torch.empty_like(y)
                    dist.recv(g, (r + 1) % w)
                    y.backward(g)
                if s:
                    sends.append(dist.isend(h.grad, (r - 1) % w))
        for work in sends:
            work.wait()
        return total if r == w - 1 else None


def args(bug=None):
    return dict(
        build=lambda r, w: Interleaved(r, w, bug),
        sequential=lambda r, w: Sequential(4),
        make_inputs=lambda r, w: (torch.randn(B, H), torch.randn(B, H)),
        world_size=2,
        mode="eager",
        backward=True,
    )


def fix():
    return args()


def bug():
    return args("chunk")


class PPDP(nn.Module):
    """2 stages x 2 replicas: ranks (d, s) = divmod(rank, 2)."""

    def __init__(self, rank, world, bug=None):
        super().__init__()
        self.d, self.s, self.bug = rank // 2, rank % 2, bug
        self.stages = nn.ModuleDict({str(self.s): Stage()})
        self.groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]

    def forward(self, x, target):
        peer = self.d * 2 + 1 - self.s
        stage = self.stages[str(self.s)]
        n = B // 2
        if self.s == 0:
            y = stage(x)
            dist.send(y.detach(), peer)
            g = torch.empty_like(y)
            dist.recv(g, peer)
            y.backward(g)
            out = None
        else:
            h = torch.empty(n, H)
            dist.recv(h, peer)
            h.requires_grad_()
            loss = F.mse_loss(stage(h), target)
            loss.backward()
            dist.send(h.grad, peer)
            out = loss.detach()
            dist.all_reduce(out, group=self.groups[1])
            out = out / 2
        for p in self.parameters():
            dist.all_reduce(p.grad, group=self.groups[self.s])
            if self.bug != "avg":
                p.grad /= 2
        return out


def ppdp_inputs(r, w):
    n = B // 2 if w > 1 else B
    return torch.randn(n, H), torch.randn(n, H)


def keep_dp():
    return dict(
        build=lambda r, w: PPDP(r, w),
        sequential=lambda r, w: Sequential(2),
        make_inputs=ppdp_inputs,
        world_size=4,
        mode="eager",
        backward=True,
    )


def bug_dp():
    return dict(keep_dp(), build=lambda r, w: PPDP(r, w, "avg"))
