"""Split-KV decoding: the cache is cut along the sequence; a new token's key goes to the last rank; merged by log-sum-exp (vLLM DCP, FlashDecoding)."""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, NH, D, C = 2, 4, 4, 8
H = NH * D


class Decode(nn.Module):
    def __init__(self, rank, world, how="gather", bug=None, seq="softmax"):
        super().__init__()
        self.rank, self.world, self.how, self.bug, self.seq = rank, world, how, bug, seq
        self.qkv = nn.Linear(H, 3 * H, bias=False)
        self.o = nn.Linear(H, H, bias=False)
        self.register_buffer("k_cache", torch.zeros(B, NH, C // world, D))
        self.register_buffer("v_cache", torch.zeros(B, NH, C // world, D))

    def forward(self, x):  # [B, H], the cache is full up to its last place
        q, k, v = (t.view(B, NH, 1, D) for t in self.qkv(x).chunk(3, -1))
        n = C // self.world
        ks, vs = self.k_cache, self.v_cache
        if self.rank == self.world - 1:
            ks[:, :, n - 1 :] = k
            vs[:, :, n - 1 :] = v
        if self.world == 1:
            if self.seq == "sdpa":
                a = F.scaled_dot_product_attention(q, ks, vs)
            else:
                a = (q @ ks.transpose(-1, -2) / math.sqrt(D)).softmax(-1) @ vs
            return self.o(a.reshape(B, H))
        s = q @ ks.transpose(-1, -2) / math.sqrt(D)
        lse = s.logsumexp(-1, keepdim=True)
        a = torch.exp(s - lse) @ vs
        if self.how == "gather":
            ls = torch.empty(self.world, *lse.shape)
            os_ = torch.empty(self.world, *a.shape)
            dist.all_gather_into_tensor(ls.view(-1, NH, 1, 1), lse.contiguous())
            dist.all_gather_into_tensor(os_.view(-1, NH, 1, D), a.contiguous())
            if self.bug == "mean":
                a = os_.mean(0)
            else:
                weight = torch.exp(ls - ls.logsumexp(0, keepdim=True))
                a = (weight * os_).sum(0)
        elif self.how == "reduce":
            m = lse.clone()
            dist.all_reduce(m, op=dist.ReduceOp.MAX)
            weight = torch.exp(lse - m)
            num = a * weight
            dist.all_reduce(num)
            dist.all_reduce(weight)
            a = num / weight
        elif (
            self.how == "correct"
        ):  # vLLM: correct_attn_out, then reduce-scatter over heads and all-gather
            ls = [torch.empty_like(lse) for _ in range(self.world)]
            dist.all_gather(ls, lse)
            ls = torch.stack(ls)
            m = ls.max(0).values
            total = (ls - m).exp().sum(0).log() + m
            a = a * (lse - total).exp()
            dist.all_reduce(a)
        return self.o(a.reshape(B, H))


def args(w=2, **kw):
    return dict(
        build=lambda r, w: Decode(r, w, **kw),
        make_inputs=lambda r, w: (torch.randn(B, H),),
        world_size=w,
        mode="eager",
        backward=False,
    )


def place(name, full, rank, world):
    if name.endswith("cache"):
        return full.chunk(world, 2)[rank]
    return NotImplemented


def fix():
    return args()


def keep_reduce():
    return args(how="reduce")


def keep_correct():
    return args(how="correct")


def keep_sdpa():
    return args(how="correct", seq="sdpa")


def keep_4():
    return args(4)


def bug():
    return args(bug="mean")


class Masked(Decode):
    """Paged: the step's position is an argument, the cache is masked by length, each rank masks its own range."""

    def forward(self, x, length):
        q, k, v = (t.view(B, NH, 1, D) for t in self.qkv(x).chunk(3, -1))
        n = C // self.world
        at = torch.arange(self.rank * n, self.rank * n + n)
        seen = at[None, :] < length[:, None]  # b n
        s = (q @ self.k_cache.transpose(-1, -2) / math.sqrt(D)).masked_fill(
            ~seen[:, None, None], -1e9
        )
        if self.world == 1:
            return self.o((s.softmax(-1) @ self.v_cache).reshape(B, H))
        m = s.amax(-1, keepdim=True)
        dist.all_reduce(m, op=dist.ReduceOp.MAX)
        p = torch.exp(s - m)
        num = torch.cat([p @ self.v_cache, p.sum(-1, keepdim=True)], -1)
        dist.all_reduce(num)
        return self.o((num[..., :D] / num[..., D:]).reshape(B, H))


INT_HIGH = C + 1


def keep_masked():
    return dict(
        args(),
        build=lambda r, w: Masked(r, w),
        make_inputs=lambda r, w: (torch.randn(B, H), torch.zeros(B, dtype=torch.long)),
    )


class Unshifted(Masked):
    def __init__(self, rank, world):
        super().__init__(rank, world)
        self.rank = 0


def bug_masked():
    return dict(
        args(),
        build=lambda r, w: Unshifted(r, w),
        make_inputs=lambda r, w: (torch.randn(B, H), torch.zeros(B, dtype=torch.long)),
    )


class Interleaved(Decode):
    """vLLM's interleaved decode context parallelism: token i is on rank i % world."""

    def forward(self, x):
        q = self.qkv(x)[:, :H].view(B, NH, 1, D)
        s = q @ self.k_cache.transpose(-1, -2) / math.sqrt(D)
        if self.world == 1:
            return self.o((s.softmax(-1) @ self.v_cache).reshape(B, H))
        m = s.amax(-1, keepdim=True)
        dist.all_reduce(m, op=dist.ReduceOp.MAX)
        p = torch.exp(s - m)
        num, den = p @ self.v_cache, p.sum(-1, keepdim=True)
        dist.all_reduce(num)
        dist.all_reduce(den)
        return self.o((num / den).reshape(B, H))


def interleaved_relations(w):
    rows = [
        {
            "rank": r,
            "sequential": [[0, B], [0, NH], [r + i * w, r + i * w + 1], [0, D]],
            "distributed": [[0, B], [0, NH], [i, i + 1], [0, D]],
        }
        for r in range(w)
        for i in range(C // w)
    ]
    return {"relation": [{"name": n, "pieces": rows} for n in ("k_cache", "v_cache")]}


def keep_interleaved():
    return dict(args(), build=lambda r, w: Interleaved(r, w), relations=interleaved_relations(2))
