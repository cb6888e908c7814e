"""Gradient accumulation into fp32 main_grad with data parallelism; token-weighted loss; overlapped async all-reduce in the last micro-batch."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, H, V, M = 8, 4, 6, 2


class Net(nn.Module):
    def __init__(self, world, bug=None):
        super().__init__()
        self.world, self.bug = world, bug
        self.fc, self.head = nn.Linear(H, H), nn.Linear(H, V)

    def losses(self, x, y):
        return F.cross_entropy(self.head(torch.tanh(self.fc(x))), y, reduction="none")

    def forward(self, x, y, mask):
        if self.world == 1:
            loss = (self.losses(x, y) * mask).sum() / mask.sum()
            loss.backward()
            return loss.detach()
        count = mask.sum()
        if self.bug != "local":
            dist.all_reduce(count)
        total = torch.zeros(())
        for i, (a, b, m) in enumerate(zip(x.chunk(M), y.chunk(M), mask.chunk(M))):
            loss = (self.losses(a, b) * m).sum() / count
            loss.backward()
            total += loss.detach()
            for p in self.parameters():
                if not hasattr(p, "main"):
                    p.main = torch.zeros_like(p, dtype=torch.float32)
                p.main.add_(p.grad)
                p.grad = None
        dist.all_reduce(total)
        works = [dist.all_reduce(p.main, async_op=True) for p in self.parameters()]
        for work, p in zip(works, self.parameters()):
            if self.bug != "early":
                work.wait()
            p.grad = p.main
            if self.bug == "early":
                work.wait()
        return total


INT_HIGH = V


def inputs(r, w):
    return torch.randn(B // w, H), torch.zeros(B // w, dtype=torch.long), torch.rand(B // w)


def args(w=2, bug=None):
    return dict(
        build=lambda r, w: Net(w, bug),
        make_inputs=inputs,
        world_size=w,
        mode="eager",
        backward=True,
    )


def fix():
    return args()


def keep_4():
    return args(4)


def bug():
    return args(bug="local")
