"""Uneven last batch under DP: mean of means (PyTorch Lightning / HF Trainer eval loss)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

SIZES, H = (5, 3), 4


class Net(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.f = how, nn.Linear(H, 1)

    def forward(self, x, y):
        world = dist.get_world_size()
        out = self.f(x).squeeze(-1)
        if world == 1:
            loss = F.mse_loss(out, y)
            loss.backward()
            return loss.detach()
        if self.how == "mean":
            loss = F.mse_loss(out, y) / world
        elif self.how == "weighted":
            loss = F.mse_loss(out, y) * (len(x) / sum(SIZES))
        else:
            loss = F.mse_loss(out, y, reduction="sum") / sum(SIZES)
        loss.backward()
        loss = loss.detach()
        dist.all_reduce(loss)
        for p in self.parameters():
            dist.all_reduce(p.grad)
        return loss


RELATIONS = {
    "relation": [
        {
            "name": n,
            "pieces": [
                {
                    "rank": r,
                    "distributed": [[0, SIZES[r]]] + ([[0, H]] if n == "x" else []),
                    "sequential": [[sum(SIZES[:r]), sum(SIZES[: r + 1])]]
                    + ([[0, H]] if n == "x" else []),
                }
                for r in (0, 1)
            ],
        }
        for n in ("x", "y")
    ]
}


def place(name, full, rank, world):
    if name in ("x", "y"):
        return full.split(SIZES)[rank]
    return NotImplemented


def case(how):
    return dict(
        build=lambda r, w: Net(how),
        make_inputs=lambda r, w: (
            torch.randn(8 if w == 1 else SIZES[r], H),
            torch.randn(8 if w == 1 else SIZES[r]),
        ),
        world_size=2,
        mode="eager",
        backward=True,
        relations=RELATIONS,
    )


def fix():
    return case("sum")


def fix_weighted():
    return case("weighted")


def bug():
    return case("mean")
