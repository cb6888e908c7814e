"""Coalesced all-reduce of flattened gradients: the copy back is forgotten for the last ones (DeepSpeed / apex flat buckets, Megatron's _flatten_dense_tensors)."""

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

B, H = 8, 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.ModuleList(nn.Linear(H, H) for _ in range(3))

    def forward(self, x):
        for l in self.l:
            x = torch.tanh(l(x))
        loss = x.square().sum() / B
        loss.backward()
        out = loss.detach().clone()
        if dist.get_world_size() > 1:
            dist.all_reduce(out)
        return out


def allreduce(m, how):
    if dist.get_world_size() == 1:
        return
    grads = [p.grad for p in m.parameters()]
    if how == "detached":
        grads = [g.clone() for g in grads]
    coalesced = _flatten_dense_tensors(grads)
    dist.all_reduce(coalesced)
    new = _unflatten_dense_tensors(coalesced, grads)
    if how == "last":
        new, grads = new[:-1], grads[:-1]
    if how == "order":
        new = [*new[:2], new[3 - 1], *new[3:]]
        new = [new[2], *new[1:2], new[0], *new[3:]]
    for buf, synced in zip(grads, new):
        buf.copy_(synced)


def case(how):
    return dict(
        build=lambda r, w: Net(),
        make_inputs=lambda r, w: (torch.randn(B // w, H),),
        world_size=2,
        mode="eager",
        backward=True,
        step=lambda m: allreduce(m, how),
    )


def fix():
    return case("ok")


def bug_detached():
    return case("detached")


def bug_last():
    return case("last")


def bug_order():
    """weights of two layers get each other's gradients"""
    return case("order")
