"""Load-balancing loss over micro-batches: not divided by their number (Megatron MoEAuxLossAutoScaler), or counts per micro-batch with a linear loss."""

import torch
import torch.distributed as dist
from torch import nn

B, H, E, M = 8, 4, 3, 2


class AuxScaler(torch.autograd.Function):
    scale = 1.0

    @staticmethod
    def forward(ctx, x, aux):
        ctx.save_for_backward(aux)
        return x

    @staticmethod
    def backward(ctx, g):
        (aux,) = ctx.saved_tensors
        return g, torch.ones_like(aux) * AuxScaler.scale


class Net(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how
        self.gate, self.out = nn.Linear(H, E), nn.Linear(H, E)

    def forward(self, x):
        world = dist.get_world_size()
        micro = M if world > 1 else 1
        total = torch.zeros(())
        AuxScaler.scale = 1.0 if self.how == "unscaled" else 1.0 / (micro * world)
        for piece in x.chunk(micro):
            logits = self.gate(piece)
            p = logits.softmax(-1)
            z = torch.logsumexp(logits, -1).square().mean() * 0.1
            p = AuxScaler.apply(p, z)
            loss = (p * self.out(piece)).sum(-1).square().mean() / (
                micro * (world if self.how != "dp" else 1)
            )
            loss.backward()
            total = total + loss.detach()
        if world > 1:
            dist.all_reduce(total)
            for p in self.parameters():
                dist.all_reduce(p.grad)
        return total


def case(how):
    return dict(
        build=lambda r, w: Net(how if w > 1 else "ok"),
        make_inputs=lambda r, w: (torch.randn(B // w, H),),
        world_size=2,
        mode="eager",
        backward=True,
    )


def fix():
    return case("ok")


def bug_unscaled():
    return case("unscaled")


def bug_dp_not_averaged():
    return case("dp")
