"""Expert parallelism: router probabilities renormalised over the experts that the rank holds; softmax over local logits; top-k of local scores."""

import torch
import torch.distributed as dist
from torch import nn

T, H, E, K = 8, 6, 4, 2


class MoE(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.how, self.world = how, world
        self.n = E // world
        self.offset = (rank if world > 1 else 0) * self.n
        self.gate = nn.Linear(H, E, bias=False)
        self.experts = nn.ModuleList(nn.Linear(H, H) for _ in range(self.n))

    def forward(self, x):
        logits = self.gate(x)
        if self.how == "local_softmax":
            mine = logits[:, self.offset : self.offset + self.n].softmax(-1)
            w = mine
        elif self.how == "group_norm":
            probs = logits.softmax(-1)
            mine = probs[:, self.offset : self.offset + self.n]
            w = mine / mine.sum(-1, keepdim=True)
        else:
            probs = logits.softmax(-1)
            vals, ids = probs.topk(K, -1)
            full = torch.zeros_like(probs).scatter(-1, ids, vals)
            full = full / full.sum(-1, keepdim=True)
            w = full[:, self.offset : self.offset + self.n]
        y = torch.stack([e(x) for e in self.experts], 1)
        y = (y * w.unsqueeze(-1)).sum(1)
        if self.world > 1:
            dist.all_reduce(y)
        return y


class Stacked(MoE):
    def __init__(self, rank, world, how):
        super().__init__(rank, world, how)
        del self.experts
        self.w = nn.Parameter(torch.empty(self.n, H, H))
        self.b = nn.Parameter(torch.empty(self.n, H))

    def forward(self, x):
        self.experts = [
            lambda x, e=e: torch.nn.functional.linear(x, self.w[e], self.b[e])
            for e in range(self.n)
        ]
        y = super().forward(x)
        del self.experts
        return y


class Plain(Stacked):
    """softmax over all experts, without top-k"""

    def forward(self, x):
        w = self.gate(x).softmax(-1)[:, self.offset : self.offset + self.n]
        y = ((torch.einsum("th,efh->tef", x, self.w) + self.b) * w.unsqueeze(-1)).sum(1)
        if self.world > 1:
            dist.all_reduce(y)
        return y


def case(how, world=2):
    dense = how in ("local_softmax", "group_norm", "plain")
    kind = Plain if how == "plain" else Stacked
    return dict(
        build=lambda r, w: (
            kind(r, w, how) if w > 1 else (Plain(0, 1, how) if dense else Stacked(0, 1, how))
        ).requires_grad_(False),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=world,
        mode="eager",
    )


def fix():
    return case("topk")


def fix_plain():
    return case("plain")


def fix_plain_ep4():
    return case("plain", 4)


def bug_local_softmax():
    return case("local_softmax")


def bug_group_norm():
    return case("group_norm")
