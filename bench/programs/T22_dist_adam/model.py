"""Sharded optimizers by hand: parameters dealt out by size (ZeroRedundancyOptimizer), torch.optim with state, per-row sharding; Muon with gathered momentum."""

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, H, FF = 8, 4, 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(H, FF), nn.Linear(FF, H)

    def forward(self, x, target):
        return F.mse_loss(x + self.down(F.gelu(self.up(x))), target)


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


def deal(params, world):
    owner, sizes = {}, [0] * world
    for i, p in sorted(enumerate(params), key=lambda t: -t[1].numel()):
        r = sizes.index(min(sizes))
        owner[i] = r
        sizes[r] += p.numel()
    return owner


def sequential(module, make):
    make(list(module.parameters())).step()


def zero1(module, make, bug=None):
    w, r = dist.get_world_size(), dist.get_rank()
    params = list(module.parameters())
    for p in params:
        dist.all_reduce(p.grad)
        p.grad /= w
    owner = deal(params, w)
    mine = [p for i, p in enumerate(params) if owner[i] == r]
    make(mine).step()
    with torch.no_grad():
        works = [
            dist.broadcast(p.data, src=owner[i] if bug != "src" else 0, async_op=True)
            for i, p in enumerate(params)
        ]
        for work in works:
            work.wait()


def adam(params):
    return torch.optim.Adam(params, lr=1e-2, foreach=False)


def adamw(params):
    return torch.optim.AdamW(params, lr=1e-2, weight_decay=0.1)


def sgd(params):
    return torch.optim.SGD(params, lr=1e-2, momentum=0.9, nesterov=True)


def args(make=adam, w=2, bug=None):
    return dict(
        build=lambda r, w: Net(),
        make_inputs=lambda r, w: (torch.randn(B // w, H), torch.randn(B // w, H)),
        world_size=w,
        mode="eager",
        backward=True,
        loss=loss,
        step=partial(zero1, make=make, bug=bug),
        sequential_step=partial(sequential, make=make),
    )


def fix():
    return args()


def keep_adamw():
    return args(adamw)


def keep_sgd():
    return args(sgd)


def keep_4():
    return args(w=4)


def bug():
    return args(bug="src")


def newton(g):
    x = g / (g.norm() + 1e-7)
    for a, b, c in ((3.4445, -4.7750, 2.0315), (3.4445, -4.7750, 2.0315)):
        y = x @ x.t()
        x = a * x + (b * y + c * y @ y) @ x
    return x


def muon_sequential(module):
    with torch.no_grad():
        for p in module.parameters():
            g = p.grad
            p.add_(newton(g) if g.dim() == 2 else g, alpha=-0.02)
            p.grad = None


def muon(module, bug=None):
    """Momentum is sharded over rows, gathered for Newton-Schulz; each rank steps its rows and gathers."""
    w, r = dist.get_world_size(), dist.get_rank()
    with torch.no_grad():
        for p in module.parameters():
            n = p.shape[0] // w
            g = p.new_empty(n, *p.shape[1:])
            dist.reduce_scatter_tensor(g, p.grad)
            g /= w
            if p.dim() == 2:
                if bug:
                    u = newton(g)
                else:
                    full = torch.empty_like(p)
                    dist.all_gather_into_tensor(full, g)
                    u = newton(full)[r * n : (r + 1) * n]
            else:
                u = g
            mine = p[r * n : (r + 1) * n] - 0.02 * u
            dist.all_gather_into_tensor(p.data, mine)
            p.grad = None


def keep_muon():
    return dict(args(), step=muon, sequential_step=muon_sequential)


def bug_muon():
    return dict(args(), step=partial(muon, bug=True), sequential_step=muon_sequential)


def clip_sequential(module):
    with torch.no_grad():
        ps = list(module.parameters())
        total = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(p.grad) for p in ps])
        )
        c = (1.0 / (total + 1e-6)).clamp(max=1.0)
        for p in ps:
            p.sub_(0.1 * c * p.grad)
            p.grad = None


def clip_sharded(module, bug=None):
    w, r = dist.get_world_size(), dist.get_rank()
    with torch.no_grad():
        ps = list(module.parameters())
        shards = []
        for p in ps:
            g = p.new_empty(p.shape[0] // w, *p.shape[1:])
            dist.reduce_scatter_tensor(g, p.grad)
            shards.append(g / w)
        sq = sum(g.square().sum() for g in shards)
        if bug != "local":
            dist.all_reduce(sq)
        c = torch.clamp(1.0 / (sq.sqrt() + 1e-6), max=1.0)
        for p, g in zip(ps, shards):
            n = g.shape[0]
            mine = p[r * n : r * n + n] - 0.1 * c * g
            dist.all_gather_into_tensor(p.data, mine)
            p.grad = None


def keep_clip():
    return dict(args(), step=clip_sharded, sequential_step=clip_sequential)


def bug_clip():
    return dict(args(), step=partial(clip_sharded, bug="local"), sequential_step=clip_sequential)
