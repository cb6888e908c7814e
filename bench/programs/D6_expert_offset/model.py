"""Expert parallel dispatch by index: local expert ids computed with the wrong offset, tokens of other ranks not dropped (SGLang EPMoE, DeepEP)."""

import torch
import torch.distributed as dist
from torch import nn

T, H, E, K = 6, 4, 4, 2


class EPMoE(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.world, self.how, self.n = world, how, E // world
        self.start = (rank if world > 1 else 0) * self.n
        self.gate = nn.Linear(H, E, bias=False)
        self.w = nn.Parameter(torch.empty(self.n, H, H))

    def forward(self, x):
        scores = torch.sigmoid(self.gate(x))
        w, ids = scores.topk(K, -1)
        w = w / w.sum(-1, keepdim=True)
        local = ids - self.start
        if self.how == "off_by_one":
            local = local + 1
        mine = (local >= 0) & (local < self.n)
        if self.how == "no_upper":
            mine = local >= 0
        safe = local.clamp(0, self.n - 1) if self.how != "modulo" else ids % self.n
        if self.how == "modulo_ok":
            safe = ids % self.n
        y = torch.einsum("th,tkhj->tkj", x, self.w[safe])
        if self.how != "unmasked":
            w = torch.where(mine, w, torch.zeros_like(w))
        y = (y * w.unsqueeze(-1)).sum(1)
        if self.world > 1:
            dist.all_reduce(y)
        return y


def case(how, world=2):
    return dict(
        build=lambda r, w: EPMoE(r, w, how if w > 1 else "ok").requires_grad_(False),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=world,
        mode="eager",
    )


def fix():
    return case("ok")


def fix_ep4():
    return case("ok", 4)


def keep_modulo():
    return case("modulo_ok")


def bug_unmasked():
    return case("unmasked")


def bug_no_upper():
    return case("no_upper")


def bug_off_by_one():
    return case("off_by_one")
