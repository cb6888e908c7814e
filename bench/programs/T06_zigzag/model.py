"""Zig-zag causal ring attention (zhuzilin): rank r holds chunks r and 2n-1-r; forward merged by log-sum-exp, backward by a second ring."""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, NH, S, D = 1, 2, 8, 4
H = NH * D


def order(rank, world):
    c = S // (2 * world)
    return list(range(rank * c, rank * c + c)) + list(
        range((2 * world - 1 - rank) * c, (2 * world - rank) * c)
    )


def attend(q, k, v, causal):
    s = q @ k.transpose(-1, -2) / math.sqrt(D)
    if causal:
        s = s.masked_fill(
            torch.ones(s.shape[-2], s.shape[-1], dtype=torch.bool).triu(1), float("-inf")
        )
    lse = s.logsumexp(-1, keepdim=True)
    return torch.exp(s - lse) @ v, lse


def merge(out, lse, o, l):
    new = torch.logaddexp(lse, l)
    return torch.exp(lse - new) * out + torch.exp(l - new) * o, new


def ring(*ts):
    r, w = dist.get_rank(), dist.get_world_size()
    ts = [t.contiguous() for t in ts]
    outs = [torch.empty_like(t) for t in ts]
    ops = []
    for t, o in zip(ts, outs):
        ops += [
            dist.P2POp(dist.isend, t.contiguous(), (r + 1) % w),
            dist.P2POp(dist.irecv, o, (r - 1) % w),
        ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return outs


def zigzag_forward(q, k, v, bug=None):
    r, w = dist.get_rank(), dist.get_world_size()
    c = q.shape[-2] // 2
    out, lse = attend(q, k, v, True)
    for step in range(1, w):
        k, v = ring(k, v)
        if step <= r:  # keys of an earlier rank: their first half is before all of mine
            o, l = attend(q, k[..., :c, :], v[..., :c, :], False)
            out, lse = merge(out, lse, o, l)
        else:  # keys of a later rank: both halves before my second half
            half = slice(c, None) if bug != "half" else slice(0, c)
            o, l = attend(q[..., half, :], k, v, False)
            o2, l2 = merge(out[..., half, :], lse[..., half, :], o, l)
            if bug == "half":
                out, lse = (
                    torch.cat([o2, out[..., c:, :]], -2),
                    torch.cat([l2, lse[..., c:, :]], -2),
                )
            else:
                out, lse = (
                    torch.cat([out[..., :c, :], o2], -2),
                    torch.cat([lse[..., :c, :], l2], -2),
                )
    return out, lse


class Zigzag(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, bug):
        out, lse = zigzag_forward(q, k, v, bug)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.bug = bug
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, out, lse = ctx.saved_tensors
        r, w = dist.get_rank(), dist.get_world_size()
        c = q.shape[-2] // 2
        delta = (g * out).sum(-1, keepdim=True)

        def block(q, k, v, g, lse, delta, causal):
            s = q @ k.transpose(-1, -2) / math.sqrt(D)
            if causal:
                s = s.masked_fill(
                    torch.ones(s.shape[-2], s.shape[-1], dtype=torch.bool).triu(1), float("-inf")
                )
            p = torch.exp(s - lse)
            dv = p.transpose(-1, -2) @ g
            ds = p * (g @ v.transpose(-1, -2) - delta) / math.sqrt(D)
            return ds @ k, ds.transpose(-1, -2) @ q, dv

        dq, dk, dv = block(q, k, v, g, lse, delta, True)
        for step in range(1, w):
            k, v, dk, dv = ring(k, v, dk, dv)
            if step <= r:
                a, b, e = block(q, k[..., :c, :], v[..., :c, :], g, lse, delta, False)
                dq = dq + a
                dk = torch.cat([dk[..., :c, :] + b, dk[..., c:, :]], -2)
                dv = torch.cat([dv[..., :c, :] + e, dv[..., c:, :]], -2)
            else:
                a, b, e = block(
                    q[..., c:, :], k, v, g[..., c:, :], lse[..., c:, :], delta[..., c:, :], False
                )
                dq = torch.cat([dq[..., :c, :], dq[..., c:, :] + a], -2)
                dk, dv = dk + b, dv + e
        if ctx.bug != "home":
            dk, dv = ring(dk, dv)
        return dq, dk, dv, None


class Attention(nn.Module):
    def __init__(self, rank, world, bug=None, sdpa=False):
        super().__init__()
        self.rank, self.world, self.bug, self.sdpa = rank, world, bug, sdpa
        self.qkv = nn.Linear(H, 3 * H, bias=False)
        self.o = nn.Linear(H, H, bias=False)

    def forward(self, x, target):
        q, k, v = (t.unflatten(-1, (NH, D)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if self.world == 1:
            a = (
                F.scaled_dot_product_attention(q, k, v, is_causal=True)
                if self.sdpa
                else attend(q, k, v, True)[0]
            )
        else:
            a = Zigzag.apply(q, k, v, self.bug)
        y = self.o(a.transpose(1, 2).flatten(2))
        return (y - target).square().sum()


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def loss(out, *_):
    return Sum.apply(out) if dist.get_world_size() > 1 else out


def step(module):
    if dist.get_world_size() > 1:
        for p in module.parameters():
            dist.all_reduce(p.grad)


def place(name, full, rank, world):
    if name in ("x", "target"):
        return full[:, order(rank, world)]
    return NotImplemented


def make_inputs(rank, w):
    return torch.randn(B, S // w, H), torch.randn(B, S // w, H)


def relations(w):
    c, rows = S // (2 * w), []
    for r in range(w):
        for i, at in enumerate((r, 2 * w - 1 - r)):
            rows.append(
                {
                    "rank": r,
                    "sequential": [[0, B], [at * c, at * c + c], [0, H]],
                    "distributed": [[0, B], [i * c, i * c + c], [0, H]],
                }
            )
    return {"relation": [{"name": n, "pieces": rows} for n in ("x", "target")]}


def args(w=2, backward=True, **kw):
    out = dict(
        build=lambda r, w: Attention(r, w, **kw),
        make_inputs=make_inputs,
        world_size=w,
        mode="eager",
        backward=backward,
        loss=loss,
        relations=relations(w),
    )
    return dict(out, step=step) if backward else out


def fix():
    return args()


def keep_forward():
    return args(backward=False)


def keep_forward_sdpa():
    return args(backward=False, sdpa=True)


def keep_sdpa():
    return args(sdpa=True)


def keep_4():
    return args(4)


def bug():
    return args(bug="half")


def bug_home():
    return args(bug="home")
