"""GLU variants and normalisations under TP that people write: RMSNorm in fp32, residual scaling, softcap, sandwich norms, logit scaling, tied head gathered."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, HEADS, FF, V = 6, 8, 4, 8, 12


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        w = dist.get_world_size()
        parts = [torch.empty_like(x) for _ in range(w)]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, -1)

    @staticmethod
    def backward(ctx, g):
        return g.chunk(dist.get_world_size(), -1)[dist.get_rank()]


class Gemma(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.rank, self.world, self.how, self.n = rank, world, how, HEADS // world
        self.emb = nn.Parameter(torch.empty(V // world, H))
        self.w = nn.ParameterList([nn.Parameter(torch.empty(H)) for _ in range(3)])
        self.q, self.k, self.v = (nn.Linear(H, H // world, bias=False) for _ in range(3))
        self.o = nn.Linear(H // world, H, bias=False)
        self.gu = nn.Linear(H, FF // world, bias=False)
        self.up = nn.Linear(H, FF // world, bias=False)
        self.dn = nn.Linear(FF // world, H, bias=False)

    def reduce(self, x):
        if self.world > 1:
            dist.all_reduce(x)
        return x

    def norm(self, x, i):
        v = x.float() if x.dtype != torch.float64 else x
        return (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * (
            1 + self.w[i]
        )

    def embed(self, ids):
        if self.world == 1:
            return F.embedding(ids, self.emb) * H**0.5
        n = V // self.world
        lo = self.rank * n
        inside = (ids >= lo) & (ids < lo + n)
        x = F.embedding((ids - lo) * inside, self.emb) * inside.unsqueeze(-1)
        if self.how == "scaled_twice":
            x = x * H**0.5
        return self.reduce(x) * H**0.5

    def forward(self, ids):
        x = self.embed(ids)
        h = self.norm(x, 0)
        q, k, v = (m(h).view(T, self.n, -1).transpose(0, 1) for m in (self.q, self.k, self.v))
        s = q @ k.transpose(-1, -2) * (H // HEADS) ** -0.5
        s = torch.tanh(s / 50.0) * 50.0
        s = s.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))
        a = self.o((s.softmax(-1) @ v).transpose(0, 1).reshape(T, -1))
        a = self.norm(a, 1) if self.how == "norm_before" else self.norm(self.reduce(a), 1)
        x = x + (self.reduce(a) if self.how == "norm_before" else a)
        h = self.norm(x, 2)
        x = x + self.reduce(self.dn(F.gelu(self.gu(h), approximate="tanh") * self.up(h)))
        logits = x @ self.emb.t()
        if self.how == "cap_sum":
            logits = logits / self.world
        if self.world > 1:
            logits = Gather.apply(logits)
        return torch.tanh(logits / 30.0) * 30.0


INT_HIGH = V


def case(how, world=2):
    return dict(
        build=lambda r, w: Gemma(r, w, how if w > 1 else "ok").requires_grad_(False),
        make_inputs=lambda: (torch.zeros(T, dtype=torch.long),),
        world_size=world,
        mode="eager",
    )


def fix():
    return case("ok")


def fix_tp4():
    return case("ok", 4)


def bug_norm_before_reduce():
    return case("norm_before")


def bug_embedding_scaled_twice():
    return case("scaled_twice")
