"""ZeRO-3 by hand: a parameter is a padded flat shard, gathered before use, its gradient reduce-scattered in backward."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, H, FF = 8, 4, 8


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, shape, bug):
        w = dist.get_world_size()
        ctx.n, ctx.w, ctx.bug = shard.numel(), w, bug
        full = shard.new_empty(shard.numel() * w)
        dist.all_gather_into_tensor(full, shard.contiguous())
        return full.view(shape)

    @staticmethod
    def backward(ctx, g):
        out = g.new_empty(ctx.n)
        dist.reduce_scatter_tensor(out, g.reshape(-1).contiguous())
        if not ctx.bug:
            out = out / ctx.w
        return out, None, None


class Linear(nn.Module):
    def __init__(self, i, o, w, bug):
        super().__init__()
        self.shape, self.w, self.bug = (o, i), w, bug
        self.weight = nn.Parameter(torch.empty(o * i // w) if w > 1 else torch.empty(o, i))
        self.bias = nn.Parameter(torch.empty(o // w))

    def forward(self, x):
        if self.w == 1:
            return F.linear(x, self.weight, self.bias)
        return F.linear(
            x,
            Gather.apply(self.weight, self.shape, self.bug),
            Gather.apply(self.bias, self.shape[:1], self.bug),
        )


class Net(nn.Module):
    def __init__(self, rank, w, bug=False):
        super().__init__()
        self.up, self.down = Linear(H, FF, w, False), Linear(FF, H, w, bug)

    def forward(self, x, target):
        return F.mse_loss(x + self.down(F.silu(self.up(x))), target)


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


def place(name, full, rank, world):
    if name.endswith("weight") and isinstance(full, torch.Tensor):
        return full.reshape(-1).chunk(world)[rank]
    return NotImplemented


def relations(w):
    rows = []
    for name, (o, i) in (("up.weight", (FF, H)), ("down.weight", (H, FF))):
        n = o * i // w
        rows.append({"name": name, "placement": "shard(0)"})
    return {"relation": rows}


def pieces(w):
    out = []
    for name, (o, i) in (("up.weight", (FF, H)), ("down.weight", (H, FF))):
        p, n = [], o * i // w
        for r in range(w):
            for row in range(o // w):
                p.append(
                    {
                        "rank": r,
                        "sequential": [[r * (o // w) + row, r * (o // w) + row + 1], [0, i]],
                        "distributed": [[row * i, row * i + i]],
                    }
                )
        out.append({"name": name, "pieces": p})
    return {"relation": out}


def args(w=2, bug=False):
    return dict(
        build=lambda r, w: Net(r, w, bug),
        make_inputs=lambda r, w: (torch.randn(B // w, H), torch.randn(B // w, H)),
        world_size=w,
        mode="eager",
        backward=True,
        loss=loss,
    )


def fix():
    return args()


def keep_4():
    return args(4)


def bug():
    return args(bug=True)
