"""Overlap: an asynchronous all-reduce or gather that is read before wait, or whose buffer is reused (Megatron linear_with_grad_accumulation, DeepSpeed overlap_comm)."""

import torch
import torch.distributed as dist
from torch import nn

T, H, FF = 6, 4, 8


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, how):
        ctx.save_for_backward(x, w)
        ctx.how = how
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        dx = g @ w
        handle = dist.all_reduce(dx, async_op=True) if dist.get_world_size() > 1 else None
        dw = g.t() @ x
        if ctx.how == "early":
            out = dx.clone()
            if handle:
                handle.wait()
            return out, dw, None
        if handle and ctx.how != "never":
            handle.wait()
        return dx, dw, None


class Net(nn.Module):
    def __init__(self, world, how):
        super().__init__()
        self.world, self.how = world, how
        self.ln = nn.LayerNorm(H)
        self.w1 = nn.Parameter(torch.empty(FF // world, H))
        self.w2 = nn.Parameter(torch.empty(H, FF // world))

    def forward(self, x):
        h = torch.relu(_Linear.apply(self.ln(x), self.w1, self.how)) @ self.w2.t()
        if self.world > 1:
            h = Add.apply(h)
        loss = (h - x).square().mean()
        loss.backward()
        return loss.detach()


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def case(how):
    return dict(
        build=lambda r, w: Net(w, how),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=2,
        mode="eager",
        backward=True,
    )


def fix():
    return case("ok")


def bug_early():
    return case("early")


def bug_never():
    return case("never")
