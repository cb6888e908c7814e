"""Ring attention with running maximum and denominators (flash style), striped and contiguous, against scaled_dot_product_attention; all-gather KV causal; chunks put together by cat."""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, NH, S, D = 2, 2, 8, 4
H = NH * D


def exchange(*ts):
    r, w = dist.get_rank(), dist.get_world_size()
    ts = [t.contiguous() for t in ts]
    outs = [torch.empty_like(t) for t in ts]
    ops = [dist.P2POp(dist.isend, t.contiguous(), (r + 1) % w) for t in ts] + [
        dist.P2POp(dist.irecv, o, (r - 1) % w) for o in outs
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return outs


class Attention(nn.Module):
    def __init__(self, rank, world, how="max", causal=False, bug=None, seq="sdpa"):
        super().__init__()
        self.rank, self.world, self.how, self.causal, self.bug, self.seq = (
            rank,
            world,
            how,
            causal,
            bug,
            seq,
        )
        self.q, self.k, self.v = nn.Linear(H, H), nn.Linear(H, H), nn.Linear(H, H)
        self.o = nn.Linear(H, H)

    def scores(self, q, k, j):
        s = q @ k.transpose(-1, -2) / math.sqrt(D)
        if self.causal:
            n = q.shape[-2]
            qi = torch.arange(n) + self.rank * n
            ki = torch.arange(n) + j * n
            if self.bug == "offset":
                ki = torch.arange(n)
            s = s.masked_fill(ki[None, :] > qi[:, None], float("-inf"))
        return s

    def ring(self, q, k, v):
        m = acc = den = None
        for step in range(self.world):
            if step:
                k, v = exchange(k, v)
            j = (self.rank - step) % self.world
            if self.causal and j > self.rank:
                continue
            s = self.scores(q, k, j)
            bm = s.amax(-1, keepdim=True)
            if m is None:
                m = bm
                p = torch.exp(s - m)
                acc, den = p @ v, p.sum(-1, keepdim=True)
                continue
            new = torch.maximum(m, bm)
            p = torch.exp(s - new)
            c = torch.exp(m - new)
            if self.bug == "rescale":
                c = torch.ones_like(c)
            acc, den, m = acc * c + p @ v, den * c + p.sum(-1, keepdim=True), new
        return acc / den

    def online(self, q, k, v):
        """torch.zeros and -inf as initial values."""
        m = torch.full((B, NH, q.shape[2], 1), float("-inf"))
        acc, den = torch.zeros_like(q), torch.zeros(B, NH, q.shape[2], 1)
        for step in range(self.world):
            if step:
                k, v = exchange(k, v)
            j = (self.rank - step) % self.world
            if self.causal and j > self.rank:
                continue
            s = self.scores(q, k, j)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p = torch.exp(s - new)
            c = torch.exp(m - new)
            acc, den, m = acc * c + p @ v, den * c + p.sum(-1, keepdim=True), new
        return acc / den

    def normed(self, q, k, v):
        """The output stays normalised: weights of both by their denominators."""
        out = lse = None
        for step in range(self.world):
            if step:
                k, v = exchange(k, v)
            s = self.scores(q, k, (self.rank - step) % self.world)
            m = s.amax(-1, keepdim=True)
            p = torch.exp(s - m)
            z = p.sum(-1, keepdim=True)
            o, l = p @ v / z, m + z.log()
            if out is None:
                out, lse = o, l
            else:
                top = torch.maximum(lse, l)
                a, b = torch.exp(lse - top), torch.exp(l - top)
                out, lse = (out * a + o * b) / (a + b), top + (a + b).log()
        return out

    def flash(self, q, k, v):
        """Kernels for the blocks: scaled_dot_product_flash_attention_for_cpu gives out and log-sum-exp."""
        out = lse = None
        for step in range(self.world):
            if step:
                k, v = exchange(k, v)
            j = (self.rank - step) % self.world
            if self.causal and j > self.rank:
                continue
            o, l = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                q, k, v, 0.0, self.causal and j == self.rank
            )[:2]
            l = l.unsqueeze(-1)
            if out is None:
                out, lse = o, l
            else:
                out = out - torch.sigmoid(l - lse) * (out - o)
                lse = lse - F.logsigmoid(lse - l)
        return out

    def gather(self, q, k, v):
        ks, vs = (
            [torch.empty_like(k) for _ in range(self.world)],
            [torch.empty_like(v) for _ in range(self.world)],
        )
        dist.all_gather(ks, k.contiguous())
        dist.all_gather(vs, v.contiguous())
        k, v, n = torch.cat(ks, 2), torch.cat(vs, 2), q.shape[2]
        if not self.causal:
            return F.scaled_dot_product_attention(q, k, v)
        mask = torch.ones(S, S, dtype=torch.bool).tril()[self.rank * n : self.rank * n + n]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def prefix(self, q, k, v):
        """Llama-3 style: keys up to the rank's last position, causal from the lower right."""
        ks, vs = (
            [torch.empty_like(k) for _ in range(self.world)],
            [torch.empty_like(v) for _ in range(self.world)],
        )
        dist.all_gather(ks, k.contiguous())
        dist.all_gather(vs, v.contiguous())
        n = q.shape[2]
        end = (self.rank + 1) * n
        k, v = torch.cat(ks, 2)[:, :, :end], torch.cat(vs, 2)[:, :, :end]
        mask = torch.ones(n, end, dtype=torch.bool).tril(end - n)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def forward(self, x):
        q, k, v = (m(x).unflatten(-1, (NH, D)).transpose(1, 2) for m in (self.q, self.k, self.v))
        if self.world > 1:
            a = getattr(self, {"max": "ring"}.get(self.how, self.how))(q, k, v)
        elif self.seq == "sdpa":
            a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            s = q @ k.transpose(-1, -2) / math.sqrt(D)
            if self.causal:
                s = s.masked_fill(torch.ones(S, S, dtype=torch.bool).triu(1), float("-inf"))
            a = s.softmax(-1) @ v
        return self.o(a.transpose(1, 2).flatten(2))


def args(w=2, **kw):
    return dict(
        build=lambda r, w: Attention(r, w, **kw),
        make_inputs=lambda r, w: (torch.randn(B, S // w, H),),
        world_size=w,
        mode="eager",
        backward=False,
    )


def fix():
    return args()


def keep_causal():
    return args(causal=True)


def keep_online():
    return args(how="online")


def keep_online_causal():
    return args(how="online", causal=True)


def keep_normed():
    return args(how="normed")


def keep_normed_softmax():
    return args(how="normed", seq="softmax")


def keep_flash():
    return args(how="flash")


def keep_flash_causal():
    return args(how="flash", causal=True)


def keep_gather():
    return args(how="gather")


def keep_gather_causal():
    return args(how="gather", causal=True)


def keep_prefix():
    return args(how="prefix", causal=True)


def keep_4():
    return args(4)


def bug():
    return args(bug="rescale")


def bug_causal():
    return args(causal=True, bug="offset")


def bug_flash_not_causal():
    return dict(args(how="flash"), sequential=lambda r, w: Attention(r, w, causal=True))
