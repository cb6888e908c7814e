"""Row-parallel bias with sequence parallelism: added before the reduce-scatter, so N times (LLaMA-Factory/Megatron-Bridge adapters)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

S, H, FF = 8, 4, 6


class Row(nn.Module):
    def __init__(self, world, how):
        super().__init__()
        self.world, self.how = world, how
        self.weight = nn.Parameter(torch.empty(H, FF // world))
        self.bias = nn.Parameter(torch.empty(H))

    def forward(self, x):
        if self.world == 1:
            return F.linear(x, self.weight, self.bias)
        y = F.linear(x, self.weight, self.bias if self.how == "before" else None)
        if self.how == "share":
            y = y + self.bias / self.world
        out = torch.empty(S // self.world, H)
        dist.reduce_scatter_tensor(out, y)
        return out + self.bias if self.how == "after" else out


class Block(nn.Module):
    def __init__(self, world, how):
        super().__init__()
        self.world = world
        self.up, self.row = nn.Linear(H, FF // world), Row(world, how)

    def forward(self, x):
        h = x
        if self.world > 1:
            h = torch.empty(S, H)
            dist.all_gather_into_tensor(h, x.contiguous())
        return x + self.row(F.silu(self.up(h)))


def case(how):
    return dict(
        build=lambda r, w: Block(w, how).requires_grad_(False),
        make_inputs=lambda r, w: (torch.randn(S // w, H),),
        world_size=2,
        mode="eager",
    )


def fix():
    return case("after")


def keep_share():
    return case("share")


def bug():
    return case("before")
