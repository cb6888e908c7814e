"""Tensor-parallel decoding with a KV cache (index_copy_ at a position, GQA, rope), gpt-fast style; with all-reduce after wo."""

import torch
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch import nn

B, T, NH, KV, D, C = 1, 2, 4, 2, 4, 8
H = NH * D


def rope_table():
    t = torch.arange(C).float()
    freq = 1.0 / (10000 ** (torch.arange(0, D, 2).float() / D))
    a = torch.outer(t, freq)
    return torch.stack([a.cos(), a.sin()], -1)


def rope(x, table):
    p = x.float().reshape(*x.shape[:-1], -1, 2)
    table = table.view(1, x.shape[1], 1, p.shape[3], 2)
    return (
        torch.stack(
            [
                p[..., 0] * table[..., 0] - p[..., 1] * table[..., 1],
                p[..., 1] * table[..., 0] + p[..., 0] * table[..., 1],
            ],
            -1,
        )
        .flatten(3)
        .type_as(x)
    )


class Layer(nn.Module):
    def __init__(self, rank, world, bug=None):
        super().__init__()
        self.world, self.nh, self.kv, self.bug = world, NH // world, max(1, KV // world), bug
        self.wq, self.wk, self.wv = (
            nn.Linear(H, self.nh * D, bias=False),
            nn.Linear(H, self.kv * D, bias=False),
            nn.Linear(H, self.kv * D, bias=False),
        )
        self.wo = nn.Linear(self.nh * D, H, bias=False)
        self.w1, self.w2, self.w3 = (
            nn.Linear(H, 16 // world, bias=False),
            nn.Linear(16 // world, H, bias=False),
            nn.Linear(H, 16 // world, bias=False),
        )
        self.n1, self.n2 = nn.RMSNorm(H), nn.RMSNorm(H)
        self.register_buffer("k", torch.zeros(B, self.kv, C, D))
        self.register_buffer("v", torch.zeros(B, self.kv, C, D))

    def reduce(self, x):
        return x if self.world == 1 else funcol.all_reduce(x, "sum", list(range(self.world)))

    def forward(self, x, pos, mask, table):
        y = self.n1(x)
        q, k, v = (w(y).view(B, T, -1, D) for w in (self.wq, self.wk, self.wv))
        q, k = rope(q, table), rope(k, table)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        self.k.index_copy_(2, pos, k)
        self.v.index_copy_(2, pos, v)
        ks = self.k.repeat_interleave(self.nh // self.kv, 1)
        vs = self.v.repeat_interleave(self.nh // self.kv, 1)
        a = F.scaled_dot_product_attention(q, ks, vs, attn_mask=mask)
        a = self.wo(a.transpose(1, 2).reshape(B, T, -1))
        x = x + (a if self.bug else self.reduce(a))
        y = self.n2(x)
        return x + self.reduce(self.w2(F.silu(self.w1(y)) * self.w3(y)))


class Net(nn.Module):
    def __init__(self, rank, world, bug=None):
        super().__init__()
        self.layers = nn.ModuleList(Layer(rank, world, bug if i else None) for i in range(2))
        self.register_buffer("table", rope_table(), persistent=False)
        self.register_buffer(
            "mask", torch.tril(torch.ones(C, C, dtype=torch.bool)), persistent=False
        )

    def forward(self, x, pos):
        for layer in self.layers:
            x = layer(x, pos, self.mask[None, None, pos], self.table[pos])
        return x


INT_HIGH = 2
FIXED = ("table", "mask")


def place(name, full, rank, world):
    if name == "pos":
        return torch.arange(T)
    return NotImplemented


def truth_inputs():
    return torch.randn(B, T, H), torch.arange(T)


def args(w=2, bug=None):
    return dict(
        build=lambda r, w: Net(r, w, bug),
        make_inputs=lambda r, w: (torch.randn(B, T, H), torch.arange(T)),
        world_size=w,
        mode="eager",
        backward=False,
    )


def fix():
    return args()


def keep_dynamo():
    return dict(args(), mode="dynamo")


def keep_4_kv_replicated():
    return args(4)


def place_kv(full, rank, world):
    return full


def bug():
    return args(bug="wo")
