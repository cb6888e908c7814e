"""Rotary tables cut by rank along the wrong dimension; partial rotary of a local head size; interleaved against half style (ChatGLM, GPT-NeoX under TP)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

S, HEADS, D, ROT = 6, 4, 8, 4
H = HEADS * D


def tables(n):
    inv = 1.0 / (10000 ** (torch.arange(0, n, 2).float() / n))
    f = torch.outer(torch.arange(S).float(), inv)
    return torch.cat([f, f], -1)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def rotate_pairs(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


class Attn(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.world, self.how, self.n = world, how, HEADS // world
        self.qkv = nn.ModuleList(nn.Linear(H, H // world) for _ in range(3))
        self.o = nn.Linear(H // world, H, bias=False)
        rot = ROT // world if how == "local_rot" else ROT
        f = tables(rot)
        self.register_buffer("cos", f.cos(), persistent=False)
        self.register_buffer("sin", f.sin(), persistent=False)
        self.rot = rot

    def rope(self, x):
        r, p = x[..., : self.rot], x[..., self.rot :]
        turn = rotate_pairs if self.how == "pairs" else rotate_half
        return torch.cat([r * self.cos.to(x.dtype) + turn(r) * self.sin.to(x.dtype), p], -1)

    def forward(self, x):
        q, k, v = (m(x).view(S, self.n, D).transpose(0, 1) for m in self.qkv)
        y = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True)
        y = self.o(y.transpose(0, 1).reshape(S, -1))
        if self.world > 1:
            dist.all_reduce(y)
        return y


FIXED = ("cos", "sin")


def case(how):
    return dict(
        build=lambda r, w: Attn(r, w, how if w > 1 else "ok").requires_grad_(False),
        make_inputs=lambda: (torch.randn(S, H),),
        world_size=2,
        mode="eager",
    )


def fix():
    return case("ok")


def bug_local_rotary():
    return case("local_rot")


def bug_pairs():
    return case("pairs")
