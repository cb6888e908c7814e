"""Expert gradients under EP x DP: averaged over the expert-data group but scaled for all ranks, or scaled with the wrong size (DeepSpeed #2500-like, Megatron moe)."""

import torch
import torch.distributed as dist
from torch import nn

T, H, E, EP = 8, 4, 2, 2


class MoE(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.how, self.world = how, world
        self.dense = nn.Linear(H, H)
        self.w = nn.Parameter(torch.empty(E // (EP if world > 1 else 1), H, H))
        if world > 1:
            self.e = rank % EP
            for d in range(world // EP):
                g = dist.new_group([d * EP + i for i in range(EP)])
                if rank // EP == d:
                    self.ep = g
            for i in range(EP):
                g = dist.new_group(list(range(i, world, EP)))
                if rank % EP == i:
                    self.edp = g

    def forward(self, x, gate):
        h = torch.tanh(self.dense(x))
        if self.world == 1:
            y = torch.einsum("th,ehk,te->tk", h, self.w, gate)
        else:
            y = Reduce.apply(
                torch.einsum("th,hk,t->tk", Copy.apply(h, self.ep), self.w[0], gate[:, self.e]),
                self.ep,
            )
        loss = y.square().mean()
        loss.backward()
        out = loss.detach().clone()
        if self.world > 1:
            dist.all_reduce(out, group=self.edp)
            out /= self.world // EP
        return out


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous().clone()
        dist.all_reduce(g, group=ctx.group)
        return g, None


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, g):
        return g, None


def step(m):
    if m.world == 1:
        return
    dp = m.world // EP
    for p in m.dense.parameters():
        if m.how == "dense_world":
            dist.all_reduce(p.grad)
            p.grad /= dp
        else:
            dist.all_reduce(p.grad, group=m.edp)
            p.grad /= dp
    if m.how == "world":
        dist.all_reduce(m.w.grad)
        m.w.grad /= m.world
    elif m.how == "scale":
        dist.all_reduce(m.w.grad, group=m.edp)
        m.w.grad /= m.world
    elif m.how != "none":
        m.w.grad /= dp
        dist.all_reduce(m.w.grad, group=m.edp)


RELATIONS = {
    "mesh": {"dp": 2, "ep": 2},
    "relation": [
        {"name": "x", "placement": "shard(0, dp)"},
        {"name": "gate", "placement": "shard(0, dp)"},
        {"name": "w", "placement": "shard(0, ep)"},
    ],
}


def place(name, full, rank, world):
    if name in ("x", "gate"):
        return full.chunk(2)[rank // 2]
    if name == "w":
        return full.chunk(2)[rank % 2]
    return NotImplemented


def case(how):
    return dict(
        build=lambda r, w: MoE(r, w, how),
        make_inputs=lambda r, w: (
            torch.randn(T // (2 if w > 1 else 1), H),
            torch.rand(T // (2 if w > 1 else 1), E),
        ),
        world_size=4,
        mode="eager",
        backward=True,
        step=step,
        relations=RELATIONS,
    )


def fix():
    return case("ok")


def bug_world_group():
    return case("world")


def bug_scaled_by_world():
    return case("scale")


def bug_not_reduced():
    return case("none")


def bug_dense_over_world():
    """dense gradients are equal in an expert group: adding them over all ranks counts them twice"""
    return case("dense_world")
