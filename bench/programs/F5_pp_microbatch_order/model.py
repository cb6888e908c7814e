"""Pipeline: targets and micro-batches get out of step (1F1B stash by index), the last micro-batch of gradients is dropped, or received activations are not leaves."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, H, M = 6, 4, 3


class Full(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(H, H), nn.Linear(H, H)

    def forward(self, x, y):
        loss = F.mse_loss(self.b(torch.sigmoid(self.a(x))), y)
        loss.backward()
        return loss.detach()


class Stage(nn.Module):
    def __init__(self, rank, how):
        super().__init__()
        self.rank, self.how = rank, how
        if rank == 0:
            self.a = nn.Linear(H, H)
        else:
            self.b = nn.Linear(H, H)

    def forward(self, x, y):
        if self.rank == 0:
            for i, p in enumerate(x.chunk(M)):
                out = torch.sigmoid(self.a(p))
                dist.send(out.detach(), 1)
                if self.how != "dropped" or i < M - 1:
                    self.pull(out)
            return None
        total = 0
        ys = y.chunk(M)
        for i in range(M):
            h = torch.empty(B // M, H)
            dist.recv(h, 0)
            h.requires_grad_()
            loss = F.mse_loss(self.b(h), ys[(i + 1) % M if self.how == "shifted" else i]) / (
                1 if self.how == "unscaled" else M
            )
            loss.backward()
            if not (self.how == "dropped" and i == M - 1):
                dist.send(h.grad, 0)
            total = total + loss.detach()
        return total / M if self.how == "unscaled" else total

    def pull(self, out):
        g = torch.empty_like(out)
        dist.recv(g, 1)
        out.backward(g)


def case(how):
    return dict(
        build=lambda r, w: Stage(r, how),
        sequential=lambda r, w: Full(),
        make_inputs=lambda: (torch.randn(B, H), torch.randn(B, H)),
        world_size=2,
        mode="eager",
        backward=True,
    )


def fix():
    return case("ok")


def bug_shifted():
    return case("shifted")


def bug_dropped():
    return case("dropped")


def bug_unscaled():
    return case("unscaled")
