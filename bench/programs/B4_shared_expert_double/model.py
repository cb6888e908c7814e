"""SGLang / vLLM deepseek: the shared expert's output is reduced by itself and again with the routed ones; or the routed scaling factor is applied after."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, FF, E, K = 6, 8, 8, 4, 2
SCALE = 2.5


class MLP(nn.Module):
    def __init__(self, tp, reduce_results=True):
        super().__init__()
        self.tp, self.reduce_results = tp, reduce_results
        self.gate_up = nn.ModuleList([nn.Linear(H, FF // tp, bias=False) for _ in range(2)])
        self.down = nn.Linear(FF // tp, H, bias=False)

    def forward(self, x):
        y = self.down(F.silu(self.gate_up[0](x)) * self.gate_up[1](x))
        if self.reduce_results and self.tp > 1:
            dist.all_reduce(y)
        return y


class DeepseekMoE(nn.Module):
    def __init__(self, tp, how):
        super().__init__()
        self.tp, self.how = tp, how
        self.router = nn.Linear(H, E, bias=False)
        self.w13 = nn.Parameter(torch.empty(E, 2, FF // tp, H))
        self.w2 = nn.Parameter(torch.empty(E, H, FF // tp))
        self.shared = MLP(tp, reduce_results=how == "double")

    def experts(self, x):
        p = torch.softmax(self.router(x), dim=-1)
        top, ids = p.topk(K, dim=-1)
        top = top / top.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for e in range(E):
            w = (top * (ids == e).to(top.dtype)).sum(-1, keepdim=True)
            h = F.silu(x @ self.w13[e, 0].t()) * (x @ self.w13[e, 1].t())
            out = out + w * (h @ self.w2[e].t())
        return out

    def forward(self, x):
        shared = self.shared(x)
        routed = self.experts(x)
        if self.how == "scale_all":
            y = (routed + shared) * SCALE
        elif self.how == "early":
            routed = routed * SCALE
            if self.tp > 1:
                dist.all_reduce(routed)
                dist.all_reduce(shared)
            return routed + shared
        else:
            y = routed * SCALE + shared
        if self.tp > 1:
            dist.all_reduce(y)
        return y


def frozen(m):
    return m.requires_grad_(False)


def case(how, world=2):
    return dict(
        build=lambda r, w: frozen(DeepseekMoE(w, how if w > 1 else "once")),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=world,
        mode="eager",
    )


def place(name, full, rank, world):
    if name == "w13":
        return full.chunk(world, 2)[rank]
    return NotImplemented


def fix():
    return case("once")


def fix_tp4():
    return case("once", 4)


def keep_two_reductions():
    return case("early")


def bug_double():
    return case("double")


def bug_scale_all():
    return case("scale_all")
