"""Hybrid sharding: fully_shard over a 2-d mesh (replicate, shard); and by hand: reduce-scatter within, all-reduce across."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

B, H, FF = 8, 4, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(H, FF), nn.Linear(FF, H)

    def forward(self, x):
        return x + self.down(F.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x, target):
        for layer in self.layers:
            x = layer(x)
        return F.mse_loss(x, target)


def build(rank, world):
    net = Net()
    if world > 1:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        for layer in net.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(net, mesh=mesh)
    return net


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


def inputs(rank, w):
    return torch.randn(B // w, H), torch.randn(B // w, H)


def args(b=build):
    return dict(build=b, make_inputs=inputs, world_size=4, mode="eager", backward=True, loss=loss)


def fix():
    return args()


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, inner, outer, bug):
        ctx.g = inner, outer, bug
        full = x.new_empty(x.shape[0] * 2, *x.shape[1:])
        dist.all_gather_into_tensor(full, x.contiguous(), group=inner)
        return full

    @staticmethod
    def backward(ctx, g):
        inner, outer, bug = ctx.g
        out = g.new_empty(g.shape[0] // 2, *g.shape[1:])
        dist.reduce_scatter_tensor(out, g.contiguous(), group=inner)
        if not bug:
            dist.all_reduce(out, group=outer)
        return out / 4, None, None, None


class Hand(nn.Module):
    def __init__(self, rank, world, bug):
        super().__init__()
        self.world, self.bug = world, bug
        n = 2 if world > 1 else 1
        self.w1, self.w2 = (
            nn.Parameter(torch.empty(FF // n, H)),
            nn.Parameter(torch.empty(H // n, FF)),
        )
        if world > 1:
            rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
            cols = [dist.new_group([0, 2]), dist.new_group([1, 3])]
            self.inner, self.outer = rows[rank // 2], cols[rank % 2]

    def full(self, p):
        return p if self.world == 1 else Gather.apply(p, self.inner, self.outer, self.bug)

    def forward(self, x, target):
        return F.mse_loss(
            F.linear(torch.tanh(F.linear(x, self.full(self.w1))), self.full(self.w2)), target
        )


def keep_hand():
    return args(lambda r, w: Hand(r, w, False))


def bug():
    return args(lambda r, w: Hand(r, w, True))


def build_bug(rank, world):
    net = build(rank, world)
    if world > 1:
        for layer in net.layers:
            layer.set_gradient_divide_factor(2.0)
    return net


def bug_divide():
    return args(build_bug)
