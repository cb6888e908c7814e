"""LoRA on tensor-parallel layers: A of a row-parallel layer is sharded, its product must be reduced with (or like) the base; B of a column-parallel one is sharded (vLLM, PEFT)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, FF, R, ALPHA = 5, 6, 8, 2, 4


class LoRAMLP(nn.Module):
    def __init__(self, world, how):
        super().__init__()
        self.world, self.how = world, how
        n = FF // world
        self.up = nn.Linear(H, n)
        self.up_a = nn.Parameter(torch.empty(R, H))
        self.up_b = nn.Parameter(torch.empty(n, R))
        self.down = nn.Linear(n, H, bias=False)
        self.down_a = nn.Parameter(torch.empty(R, n))
        self.down_b = nn.Parameter(torch.empty(H, R))
        self.scaling = ALPHA / R

    def reduce(self, x):
        if self.world > 1:
            dist.all_reduce(x)
        return x

    def forward(self, x):
        h = self.up(x) + F.linear(F.linear(x, self.up_a), self.up_b) * self.scaling
        h = F.gelu(h)
        base = self.down(h)
        low = F.linear(h, self.down_a)
        if self.how == "late":
            return self.reduce(base) + F.linear(low, self.down_b) * self.scaling
        if self.how == "low":
            return self.reduce(base) + F.linear(self.reduce(low), self.down_b) * self.scaling
        if self.how == "twice":
            low = self.reduce(low)
        return self.reduce(base + F.linear(low, self.down_b) * self.scaling)


def case(how):
    return dict(
        build=lambda r, w: LoRAMLP(w, how).requires_grad_(False),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=2,
        mode="eager",
    )


def fix():
    return case("once")


def keep_low_rank_reduced():
    return case("low")


def bug_not_reduced():
    return case("late")


def bug_reduced_twice():
    return case("twice")


class Trained(LoRAMLP):
    """gradients of the replicated low-rank halves: partial on each rank"""

    def forward(self, x):
        h = F.gelu(self.up(x) + F.linear(F.linear(x, self.up_a), self.up_b) * self.scaling)
        y = self.down(h) + F.linear(F.linear(h, self.down_a), self.down_b) * self.scaling
        if self.world > 1:
            y = Add.apply(y)
        loss = y.square().mean()
        loss.backward()
        return loss.detach()


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def reduce(names):
    def step(m):
        if m.world > 1:
            for n in names:
                dist.all_reduce(getattr(m, n).grad)

    return step


def fix_trained():
    return dict(
        case("-"),
        build=lambda r, w: Trained(w, "-"),
        backward=True,
        step=reduce(["up_a", "down_b"]),
    )


def bug_trained_a():
    return dict(
        case("-"), build=lambda r, w: Trained(w, "-"), backward=True, step=reduce(["down_b"])
    )


def bug_trained_b():
    return dict(case("-"), build=lambda r, w: Trained(w, "-"), backward=True, step=reduce(["up_a"]))
