"""MoE: expert parallel x tensor parallel (2x2), token-choice top-1 dense dispatch; Mixtral-like; gradients over data parallel."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, FF, E = 8, 4, 8, 4


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x = x.contiguous().clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, g):
        return g, None


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous().clone()
        dist.all_reduce(g, group=ctx.group)
        return g, None


class MoE(nn.Module):
    def __init__(self, rank, world, bug=None):
        super().__init__()
        self.world, self.bug = world, bug
        self.ep, self.tp = (2, world // 2) if world > 1 else (1, 1)
        self.ei, self.ti = rank // self.tp, rank % self.tp
        self.group = None
        if world > 1:
            self.groups = [
                dist.new_group(list(range(i * self.tp, i * self.tp + self.tp))) for i in range(2)
            ]
            self.across = [dist.new_group([i, i + self.tp]) for i in range(self.tp)]
        self.gate = nn.Linear(H, E, bias=False)
        self.w1 = nn.Parameter(torch.empty(E // self.ep, H, FF // self.tp))
        self.w2 = nn.Parameter(torch.empty(E // self.ep, FF // self.tp, H))

    def forward(self, x, target):
        x0 = x
        if self.world > 1:
            x = Copy.apply(x, dist.group.WORLD if self.bug != "copy" else self.groups[self.ei])
        p = self.gate(x).softmax(-1)
        top, idx = p.topk(2, -1)
        w = torch.zeros_like(p).scatter(1, idx, top)
        n = E // self.ep
        mine = w[:, self.ei * n : (self.ei + 1) * n]
        h = F.silu(torch.einsum("th,ehf->etf", x, self.w1))
        y = torch.einsum("etf,efh,te->th", h, self.w2, mine)
        if self.world > 1:
            y = Reduce.apply(y, dist.group.WORLD)
        return (x0 + y - target).square().mean()


def place(name, full, rank, world):
    ei, ti = rank // 2, rank % 2
    if name == "w1":
        return full.chunk(2, 0)[ei].chunk(2, 2)[ti]
    if name == "w2":
        return full.chunk(2, 0)[ei].chunk(2, 1)[ti]
    return NotImplemented


REL = {
    "mesh": {"ep": 2, "tp": 2},
    "relation": [
        {"name": "w1", "placement": ["shard(0, ep)", "shard(2, tp)"]},
        {"name": "w2", "placement": ["shard(0, ep)", "shard(1, tp)"]},
    ],
}


def step(module):
    if dist.get_world_size() > 1:
        dist.all_reduce(module.gate.weight.grad)


def bad_step(module):
    if dist.get_world_size() > 1:
        dist.all_reduce(module.gate.weight.grad, group=module.groups[module.ei])


def args(bug=None):
    return dict(
        build=lambda r, w: MoE(r, w, bug),
        make_inputs=lambda r, w: (torch.randn(T, H), torch.randn(T, H)),
        world_size=4,
        mode="eager",
        backward=True,
        relations=REL,
        step=step,
    )


def fix():
    return args()


def bug():
    return dict(args(), step=bad_step)
