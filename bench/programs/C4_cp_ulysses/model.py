"""Ulysses / context parallel: all-to-all of heads and sequence, loss over local tokens scaled by cp size, masked tokens uneven."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

S, HEADS, D, V = 8, 4, 2, 5
H = HEADS * D


def a2a(x, scatter, gather):
    n = dist.get_world_size()
    parts = [t.contiguous() for t in x.chunk(n, scatter)]
    flat_in = torch.stack(parts)
    flat = torch.empty_like(flat_in)
    dist.all_to_all_single(flat, flat_in)
    return torch.cat(list(flat.unbind(0)), gather)


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scatter, gather):
        ctx.dims = scatter, gather
        return a2a(x, scatter, gather)

    @staticmethod
    def backward(ctx, g):
        s, k = ctx.dims
        return a2a(g, k, s), None, None


class LM(nn.Module):
    def __init__(self, world, how):
        super().__init__()
        self.world, self.how = world, how
        self.qkv = nn.Linear(H, 3 * H)
        self.o = nn.Linear(H, H)
        self.head = nn.Linear(H, V)

    def forward(self, x, y, mask):
        q, k, v = self.qkv(x).view(-1, 3, HEADS, D).unbind(1)
        if self.world > 1:
            q, k, v = (AllToAll.apply(t, 1, 0) for t in (q, k, v))
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1)
        if self.world > 1:
            a = AllToAll.apply(a, 0, 1)
        h = x + self.o(a.reshape(-1, H))
        ce = F.cross_entropy(self.head(h), y, reduction="none")
        n = mask.sum()
        if self.world > 1 and self.how != "local":
            dist.all_reduce(n)
        loss = (ce * mask).sum() / n
        if self.how == "local":
            loss = loss / self.world
        if self.how == "scaled":
            loss = loss * self.world
        loss.backward()
        out = loss.detach().clone()
        if self.world > 1:
            dist.all_reduce(out)
        if self.how == "scaled":
            out = out / self.world
        return out


def step(m):
    if m.world > 1:
        for p in m.parameters():
            dist.all_reduce(p.grad)
            if m.how in ("scaled", "mean"):
                p.grad /= m.world


INT_HIGH = V


def truth_inputs():
    g = torch.Generator().manual_seed(3)
    return (
        torch.randn(S, H, generator=g, dtype=torch.float64),
        torch.randint(0, V, (S,), generator=g),
        (torch.rand(S, generator=g) > 0.3).double(),
    )


def case(how):
    return dict(
        build=lambda r, w: LM(w, how if w > 1 else "ok"),
        make_inputs=lambda r, w: (
            torch.randn(S // w, H),
            torch.zeros(S // w, dtype=torch.long),
            torch.ones(S // w),
        ),
        world_size=2,
        mode="eager",
        backward=True,
        step=step,
    )


def fix():
    return case("ok")


def fix_scaled():
    return case("scaled")


def bug_local():
    return case("local")


def bug_mean():
    return case("mean")
