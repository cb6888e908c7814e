"""Activation checkpointing with tensor parallelism: collectives run again in the recomputation; torch.utils.checkpoint and by hand; with distributed activations (Megatron)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

T, H, FF = 6, 4, 8


class F_(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g


class G_(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class Block(nn.Module):
    def __init__(self, world, bug):
        super().__init__()
        self.world, self.bug = world, bug
        self.norm = nn.LayerNorm(H)
        self.up, self.down = nn.Linear(H, FF // world), nn.Linear(FF // world, H, bias=False)
        self.bias = nn.Parameter(torch.empty(H))

    def forward(self, x):
        y = self.norm(x)
        y = F_.apply(y) if self.world > 1 and not self.bug else y
        y = self.down(F.gelu(self.up(y)))
        return x + (G_.apply(y) if self.world > 1 else y) + self.bias


class Saved(torch.autograd.Function):
    """Megatron's CheckpointFunction with distribute_saved_activations: a rank keeps its part of the input and gathers it in backward."""

    @staticmethod
    def forward(ctx, run, x, *params):
        ctx.run, ctx.shape, ctx.params = run, x.shape, params
        with torch.no_grad():
            out = run(x)
        ctx.part = x.reshape(-1).chunk(dist.get_world_size())[dist.get_rank()].clone()
        return out

    @staticmethod
    def backward(ctx, g):
        full = ctx.part.new_empty(ctx.part.numel() * dist.get_world_size())
        dist.all_gather_into_tensor(full, ctx.part)
        x = full.view(ctx.shape).detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.run(x)
        grads = torch.autograd.grad(y, (x, *ctx.params), g)
        return None, *grads


class Net(nn.Module):
    def __init__(self, rank, world, how="torch", bug=False):
        super().__init__()
        self.world, self.how = world, how
        self.blocks = nn.ModuleList(Block(world, bug and i == 1) for i in range(2))

    def forward(self, x, target):
        for b in self.blocks:
            if self.world == 1:
                x = b(x)
            elif self.how == "torch":
                x = checkpoint(b, x, use_reentrant=False)
            elif self.how == "reentrant":
                x = checkpoint(b, x, use_reentrant=True)
            else:
                x = Saved.apply(b, x, *b.parameters())
        return (x - target).square().mean()


def args(w=2, **kw):
    return dict(
        build=lambda r, w: Net(r, w, **kw),
        make_inputs=lambda r, w: (torch.randn(T, H), torch.randn(T, H)),
        world_size=w,
        mode="eager",
        backward=True,
    )


def fix():
    return args()


def keep_distributed():
    return args(how="saved")


def keep_reentrant():
    return args(how="reentrant")


def bug():
    return args(bug=True)
