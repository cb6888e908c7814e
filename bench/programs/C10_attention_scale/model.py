"""Attention scale from the local hidden size / local number of heads, ALiBi slopes from the local number of heads (bloom, mpt under TP)."""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, S, HEADS, D = 2, 5, 4, 6
H = HEADS * D


def get_slopes(n):
    start = 2 ** (-(2 ** -(math.log2(n) - 3)))
    return [start * start**i for i in range(n)]


class Attention(nn.Module):
    def __init__(self, rank, tp, how):
        super().__init__()
        self.tp, self.how = tp, how
        self.heads = HEADS // tp
        self.hidden = H // tp
        self.q, self.k, self.v = (nn.Linear(H, self.hidden) for _ in range(3))
        self.o = nn.Linear(self.hidden, H, bias=False)
        if how == "slopes_local":
            slopes = get_slopes(self.heads)
        elif how == "slopes_first":
            slopes = get_slopes(HEADS)[: self.heads]
        else:
            slopes = get_slopes(HEADS)[rank * self.heads : (rank + 1) * self.heads]
        self.register_buffer("slopes", torch.tensor(slopes), persistent=False)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (
            m(x).view(b, s, self.heads, -1).transpose(1, 2) for m in (self.q, self.k, self.v)
        )
        if self.how == "scale":
            norm = math.sqrt(self.hidden / HEADS)
        else:
            norm = math.sqrt(q.shape[-1])
        scores = torch.matmul(q, k.transpose(-1, -2)) / norm
        pos = torch.arange(s)
        bias = -(pos[:, None] - pos[None, :]).abs().to(x.dtype)
        scores = scores + self.slopes.view(1, -1, 1, 1).to(x.dtype) * bias
        causal = torch.full((s, s), float("-inf")).triu(1)
        p = F.softmax(scores + causal, dim=-1)
        y = self.o(torch.matmul(p, v).transpose(1, 2).reshape(b, s, -1))
        if self.tp > 1:
            dist.all_reduce(y)
        return y


FIXED = ("slopes",)


def case(how, world=2):
    return dict(
        build=lambda r, w: Attention(r if w > 1 else 0, w, how if w > 1 else "ok").requires_grad_(
            False
        ),
        make_inputs=lambda: (torch.randn(B, S, H),),
        world_size=world,
        mode="eager",
    )


def fix():
    return case("ok")


def fix_tp4():
    return case("ok", 4)


def bug_scale():
    return case("scale")


def bug_slopes_local():
    return case("slopes_local")


def bug_slopes_first():
    return case("slopes_first")
