"""KV heads fewer than ranks: kv head = rank // (tp / kv) ; the report took rank % kv (MiniMax, vLLM-Ascend)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, HEADS, KV, D = 4, 8, 4, 2, 3


class Attn(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.world = world
        self.nq = HEADS // world
        self.nkv = max(1, KV // world)
        self.q = nn.Parameter(torch.empty(self.nq * D, H))
        self.kv = nn.Parameter(torch.empty(2, KV * D, H))
        self.o = nn.Parameter(torch.empty(H, self.nq * D))
        copies = max(1, world // KV)
        self.head = (rank % KV if how == "modulo" else rank // copies) if world > KV else rank
        if how == "zero":
            self.head = 0

    def forward(self, x):
        lo = self.head * self.nkv * D if self.world > 1 else 0
        kv = self.kv.narrow(1, lo, self.nkv * D)
        q = F.linear(x, self.q).view(T, self.nq, D).transpose(0, 1)
        k = F.linear(x, kv[0]).view(T, self.nkv, D).transpose(0, 1)
        v = F.linear(x, kv[1]).view(T, self.nkv, D).transpose(0, 1)
        g = self.nq // self.nkv
        k = k[:, None].expand(-1, g, -1, -1).reshape(self.nq, T, D)
        v = v[:, None].expand(-1, g, -1, -1).reshape(self.nq, T, D)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).reshape(T, -1)
        y = F.linear(y, self.o)
        if self.world > 1:
            dist.all_reduce(y)
        return y


def case(how, world=4):
    return dict(
        build=lambda r, w: Attn(r, w, how).requires_grad_(False),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=world,
        mode="eager",
    )


def fix():
    return case("floor")


def fix_tp2():
    return case("floor", 2)


def bug_modulo():
    return case("modulo")


def bug_zero():
    return case("zero", 2)
