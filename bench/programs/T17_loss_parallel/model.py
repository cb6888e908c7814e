"""Cross entropy over a sharded vocabulary: chunked over tokens, z-loss, label smoothing off, own backward; mean over valid tokens with ignore_index."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

V, H, T = 8, 4, 6


class VPCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, bug):
        r, w = dist.get_rank(), dist.get_world_size()
        n = logits.shape[-1]
        m = logits.amax(-1)
        dist.all_reduce(m, op=dist.ReduceOp.MAX)
        e = (logits - m[:, None]).exp()
        z = e.sum(-1)
        dist.all_reduce(z)
        local = target - r * n
        inside = (local >= 0) & (local < n)
        safe = torch.where(inside, local, torch.zeros_like(local))
        picked = torch.gather(logits, 1, safe[:, None])[:, 0] - m
        picked = torch.where(inside, picked, torch.zeros_like(picked))
        if bug != "target":
            dist.all_reduce(picked)
        ctx.save_for_backward(e / z[:, None], inside, safe)
        return z.log() - picked

    @staticmethod
    def backward(ctx, g):
        p, inside, safe = ctx.saved_tensors
        hot = F.one_hot(safe, p.shape[-1]).to(p.dtype) * inside[:, None].to(p.dtype)
        return (p - hot) * g[:, None], None, None


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g


class Net(nn.Module):
    def __init__(self, rank, world, bug=None, chunks=1, z=False):
        super().__init__()
        self.world, self.bug, self.chunks, self.z = world, bug, chunks, z
        self.lin = nn.Linear(H, H)
        self.head = nn.Parameter(torch.empty(V // world, H))

    def forward(self, x, target):
        y = torch.tanh(self.lin(x))
        if self.world == 1:
            logits = F.linear(y, self.head)
            return F.cross_entropy(logits, target)
        y = Copy.apply(y) if self.bug != "copy" else y
        losses = [
            VPCE.apply(F.linear(a, self.head), t, self.bug)
            for a, t in zip(y.chunk(self.chunks), target.chunk(self.chunks))
        ]
        return torch.cat(losses).mean()


INT_HIGH = V


def args(w=2, **kw):
    return dict(
        build=lambda r, w: Net(r, w, **kw),
        make_inputs=lambda r, w: (torch.randn(T, H), torch.zeros(T, dtype=torch.long)),
        world_size=w,
        mode="eager",
        backward=True,
    )


def fix():
    return args()


def keep_4():
    return args(4)


def keep_chunks():
    return args(chunks=2)


def bug():
    return args(bug="target")


def bug_copy():
    return args(bug="copy")


class ZLoss(nn.Module):
    """PaLM's z-loss by autograd: differentiable all-reduces."""

    def __init__(self, rank, world, bug=None):
        super().__init__()
        self.rank, self.world, self.bug = rank, world, bug
        self.head = nn.Parameter(torch.empty(V // world, H))

    def forward(self, x, target):
        logits = F.linear(x, self.head)
        if self.world == 1:
            lse = logits.logsumexp(-1)
            pick = logits.gather(1, target[:, None])[:, 0]
        else:
            m = logits.detach().amax(-1, keepdim=True)
            dist.all_reduce(m, op=dist.ReduceOp.MAX)
            s = (logits - m).exp().sum(-1)
            s = Sum.apply(s)
            lse = s.log() + m[:, 0]
            n = V // self.world
            local = target - self.rank * n
            ok = (local >= 0) & (local < n)
            pick = logits.gather(1, local.clamp(0, n - 1)[:, None])[:, 0]
            pick = Sum.apply(torch.where(ok, pick, 0.0))
        return (lse - pick).mean() + 1e-2 * lse.square().mean()


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def keep_zloss():
    return dict(args(), build=lambda r, w: ZLoss(r, w))
