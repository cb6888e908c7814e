"""Per-tensor scales of a sharded activation: amax over the wrong group, a scale per rank though the product is added over ranks; block scales are local and right."""

import torch
import torch.distributed as dist
from torch import nn

T, H, FF, BLOCK = 4, 8, 6, 2


class Quantised(nn.Module):
    """row parallel: the rounded integers of all ranks are added, then scaled back"""

    def __init__(self, world, how):
        super().__init__()
        self.world, self.how = world, how
        self.w = nn.Parameter(torch.empty(FF, H // world))

    def forward(self, x):
        if self.how == "block":
            b = x.unflatten(-1, (-1, BLOCK))
            s = 127.0 / b.abs().amax(-1, keepdim=True)
            x = (torch.round(b * s) / s).flatten(-2)
            y = x @ self.w.t()
        else:
            amax = x.abs().amax(-1, keepdim=True)
            if self.world > 1 and self.how == "global":
                dist.all_reduce(amax, op=dist.ReduceOp.MAX)
            if self.world > 1 and self.how == "sum":
                dist.all_reduce(amax)
            s = 127.0 / amax
            y = torch.round(x * s) @ self.w.t()
            if self.how == "local_after":
                y = y / s
        if self.world > 1:
            dist.all_reduce(y)
        return y if self.how in ("block", "local_after") else y / s


def case(how):
    return dict(
        build=lambda r, w: Quantised(w, how).requires_grad_(False),
        make_inputs=lambda r, w: (torch.randn(T, H // w),),
        world_size=2,
        mode="eager",
    )


def fix():
    return case("global")


def keep_block():
    return case("block")


def bug_local():
    return case("local")


def bug_sum():
    return case("sum")


def bug_local_then_scaled():
    return case("local_after")
