"""MoE router weights under sequence parallelism: replicated, but each rank sees its tokens: gradient to be added over TP ranks (Megatron #1086-like)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

S, H, E = 8, 4, 3


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(H, E, bias=False)
        self.expert = nn.Parameter(torch.empty(E, H, H))

    def forward(self, x):
        p = F.softmax(self.gate(x), -1)
        y = torch.einsum("se,seh->sh", p, torch.einsum("sh,ehk->sek", x, self.expert))
        loss = y.pow(2).sum() / (S * H)
        loss.backward()
        total = loss.detach().clone()
        if dist.get_world_size() > 1:
            dist.all_reduce(total)
        return total


def reduce_grads(m, skip=(), average=False):
    if dist.get_world_size() == 1:
        return
    for n, p in m.named_parameters():
        if n in skip:
            continue
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        if average:
            p.grad.div_(dist.get_world_size())


def case(**kw):
    return dict(
        build=lambda r, w: Router(),
        make_inputs=lambda r, w: (torch.randn(S // w, H),),
        world_size=2,
        mode="eager",
        backward=True,
        step=lambda m: reduce_grads(m, **kw),
    )


def fix():
    return case()


def bug_router():
    return case(skip=("gate.weight",))


def bug_averaged():
    return case(average=True)
