"""Split-KV decoding (context-parallel keys): partial attention merged by log-sum-exp; the reported slip weights outputs equally or forgets the maximum's correction."""

import torch
import torch.distributed as dist
from torch import nn

HEADS, S, D = 3, 8, 4


class Decode(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, q, k, v):
        world = dist.get_world_size()
        s = torch.einsum("hd,hsd->hs", q, k) / D**0.5
        if world == 1:
            return torch.einsum("hs,hsd->hd", torch.softmax(s, -1), v)
        m = s.amax(-1, keepdim=True)
        e = torch.exp(s - m)
        l = e.sum(-1, keepdim=True)
        o = torch.einsum("hs,hsd->hd", e, v)
        if self.how == "average":
            o = o / l
            dist.all_reduce(o)
            return o / world
        g = m.clone()
        dist.all_reduce(g, op=dist.ReduceOp.MAX)
        if self.how == "lse":
            o = o / l
            lse = m + torch.log(l)
            all_lse = [torch.empty_like(lse) for _ in range(world)]
            dist.all_gather(all_lse, lse)
            total = torch.logsumexp(torch.stack(all_lse), 0)
            o = o * torch.exp(lse - total)
            dist.all_reduce(o)
            return o
        if self.how != "no_correction":
            c = torch.exp(m - g)
            o, l = o * c, l * c
        if self.how == "swapped":
            o = o / l
        dist.all_reduce(o)
        dist.all_reduce(l)
        return o / l


def case(how):
    return dict(
        build=lambda r, w: Decode(how),
        make_inputs=lambda r, w: (
            torch.randn(HEADS, D),
            torch.randn(HEADS, S // w, D),
            torch.randn(HEADS, S // w, D),
        ),
        world_size=2,
        mode="eager",
    )


def fix():
    return case("max")


def fix_lse():
    return case("lse")


def bug_average():
    return case("average")


def bug_no_correction():
    return case("no_correction")


def bug_divided_before():
    return case("swapped")
