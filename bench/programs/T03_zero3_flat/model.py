"""ZeRO-3/FSDP1 style: one flat parameter per layer, views into the gathered buffer, 2 layers; each rank builds its shard from the sequential module's parameters."""

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, H, FF = 8, 4, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.b1 = nn.Parameter(torch.empty(FF, H)), nn.Parameter(torch.empty(FF))
        self.w2, self.b2 = nn.Parameter(torch.empty(H, FF)), nn.Parameter(torch.empty(H))

    def forward(self, x):
        return x + F.linear(F.gelu(F.linear(x, self.w1, self.b1)), self.w2, self.b2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x, target):
        for b in self.blocks:
            x = b(x)
        return (x - target).pow(2).mean()


def reduce_grads(module, bug=None):
    """ZeRO-2: each parameter's gradient is averaged to its owner, the owner steps and broadcasts."""
    w, r = dist.get_world_size(), dist.get_rank()
    with torch.no_grad():
        params = list(module.parameters())
        if w == 1:
            for p in params:
                p.sub_(0.1 * p.grad)
                p.grad = None
            return
        for i, p in enumerate(params):
            dist.reduce(p.grad, dst=i % w, op=dist.ReduceOp.SUM)
            if i % w == r:
                p.grad.div_(w)
                p.sub_(0.1 * p.grad)
            p.grad = None
        for i, p in enumerate(params):
            dist.broadcast(p.data, src=i % w if bug != "owner" else 0)


class Avg(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x / dist.get_world_size()

    @staticmethod
    def backward(ctx, g):
        return g


def loss(out, *_):
    return Avg.apply(out) if dist.get_world_size() > 1 else out


def args(w=2, bug=None):
    return dict(
        build=lambda r, w: Net(),
        make_inputs=lambda r, w: (torch.randn(B // w, H), torch.randn(B // w, H)),
        world_size=w,
        mode="eager",
        backward=True,
        loss=loss,
        step=partial(reduce_grads, bug=bug),
    )


def fix():
    return args()


def keep_4():
    return args(4)


def bug():
    return args(bug="owner")


def flat_step(module, bug=None):
    """ZeRO-2 with a flat buffer: reduce-scatter of all gradients, momentum sgd on the shard, all-gather."""
    w, r = dist.get_world_size(), dist.get_rank()
    with torch.no_grad():
        params = list(module.parameters())
        if w == 1:
            for p in params:
                p.sub_(0.1 * p.grad)
                p.grad = None
            return
        g = torch._utils._flatten_dense_tensors([p.grad for p in params])
        f = torch._utils._flatten_dense_tensors([p.data for p in params])
        pad = -g.numel() % w
        g, f = F.pad(g, (0, pad)), F.pad(f, (0, pad))
        n = g.numel() // w
        mine = torch.empty(n)
        dist.reduce_scatter(mine, list(g.chunk(w)), op=dist.ReduceOp.SUM)
        if bug != "avg":
            mine /= w
        shard = f[r * n : (r + 1) * n] - 0.1 * mine
        parts = [torch.empty(n) for _ in range(w)]
        dist.all_gather(parts, shard)
        f = torch.cat(parts)
        for p, new in zip(
            params,
            torch._utils._unflatten_dense_tensors(
                f[: f.numel() - pad] if pad else f, [p.data for p in params]
            ),
        ):
            p.copy_(new)
            p.grad = None


def keep_flat():
    return dict(args(), step=flat_step)


def keep_flat_4():
    return dict(args(4), step=flat_step)


def bug_flat():
    return dict(args(), step=partial(flat_step, bug="avg"))
