"""Fused QKV cut as one matrix (Falcon / ChatGLM / StarCoder in vLLM, HF TP plans), grouped queries, interleaved by head."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, HEADS, KV, D = 5, 8, 4, 2, 2


class Attention(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.world, self.how = world, how
        self.rank = rank
        self.h, self.kv = HEADS // world, KV // world
        self.wqkv = nn.Linear(H, (HEADS + 2 * KV) * D)
        self.wo = nn.Linear(HEADS * D // world, H, bias=False)

    def cut(self, t):
        if self.world == 1:
            return t
        r, q, k = self.rank, HEADS * D, KV * D
        if self.how == "chunk":
            return t.chunk(self.world, 0)[r]
        parts = t.split([q, k, k], 0)
        if self.how == "values_first":
            return torch.cat(
                [
                    parts[0].chunk(self.world)[r],
                    parts[2].chunk(self.world)[r],
                    parts[1].chunk(self.world)[r],
                ]
            )
        if self.how == "stride":
            return torch.cat(
                [
                    p.view(-1, D, *p.shape[1:])[r :: self.world].reshape(-1, *p.shape[1:])
                    for p in parts
                ]
            )
        if self.how == "stride_q":
            a = parts[0].view(-1, D, *t.shape[1:])[r :: self.world].reshape(-1, *t.shape[1:])
            return torch.cat([a, parts[1].chunk(self.world)[r], parts[2].chunk(self.world)[r]])
        return torch.cat([p.chunk(self.world)[r] for p in parts])

    def forward(self, x):
        qkv = F.linear(x, self.cut(self.wqkv.weight), self.cut(self.wqkv.bias))
        q, k, v = qkv.split([self.h * D, self.kv * D, self.kv * D], -1)
        q = q.view(T, self.h, D).transpose(0, 1)
        k = k.view(T, self.kv, D).transpose(0, 1).repeat_interleave(self.h // self.kv, 0)
        v = v.view(T, self.kv, D).transpose(0, 1).repeat_interleave(self.h // self.kv, 0)
        p = torch.softmax(q @ k.transpose(1, 2) * D**-0.5, -1)
        y = self.wo((p @ v).transpose(0, 1).reshape(T, -1))
        if self.world > 1:
            dist.all_reduce(y)
        return y


def case(how):
    return dict(
        build=lambda r, w: Attention(r, w, how).requires_grad_(False),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=2,
        mode="eager",
    )


def fix():
    return case("parts")


def bug_chunk():
    return case("chunk")


def bug_values_first():
    return case("values_first")


def bug_stride_queries():
    """queries of every second head, keys of the first half: other groups"""
    return case("stride_q")
