"""Fused gate/up: gpt-oss interleaves them, Llama4 experts stack them; a shard of one read as the other (transformers #41 ... tp of gate_up_proj)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, FF = 6, 4, 8


class MLP(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.rank, self.world, self.how = rank, world, how
        self.gate_up = nn.Parameter(torch.empty(2 * FF, H))
        self.bias = nn.Parameter(torch.empty(2 * FF))
        self.down = nn.Parameter(torch.empty(H, FF // world))

    def local(self, t):
        n, r = self.world, self.rank
        if n == 1:
            return t
        if self.how in ("interleaved", "interleaved_read_stacked", "chunk"):
            return t.chunk(n, 0)[r]
        a, b = t.chunk(2, 0)
        if self.how == "swapped":
            a, b = b, a
        return torch.cat([a.chunk(n, 0)[r], b.chunk(n, 0)[r]])

    def forward(self, x):
        y = F.linear(x, self.local(self.gate_up), self.local(self.bias))
        inter = self.how == "interleaved" or (
            self.how == "interleaved_read_stacked" and self.world == 1
        )
        if inter:
            gate, up = y[..., ::2], y[..., 1::2]
        else:
            gate, up = y.chunk(2, -1)
        h = (up + 1) * (gate * torch.sigmoid(1.702 * gate))
        out = F.linear(h, self.down)
        if self.world > 1:
            dist.all_reduce(out)
        return out


def case(how):
    return dict(
        build=lambda r, w: MLP(r, w, how).requires_grad_(False),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=2,
        mode="eager",
    )


def fix_interleaved():
    return case("interleaved")


def fix_stacked():
    return case("stacked")


def bug_chunk():
    return case("chunk")


def bug_read_stacked():
    return case("interleaved_read_stacked")


def bug_swapped():
    return case("swapped")
