"""Gradients reduced by a hook and again in the step (accelerate + manual sync; DDP inside FSDP); hooks on AccumulateGrad run once per micro-batch."""

import torch
import torch.distributed as dist
from torch import nn

B, H = 8, 4


class Net(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how
        self.a, self.b = nn.Linear(H, 2 * H), nn.Linear(2 * H, H)
        if how in ("hook", "both", "hook_accumulate") and dist.get_world_size() > 1:
            for p in self.parameters():
                p.register_post_accumulate_grad_hook(self.reduce)

    def reduce(self, p):
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()

    def forward(self, x, y):
        steps = (
            2 if self.how in ("hook_accumulate", "accumulate") and dist.get_world_size() > 1 else 1
        )
        report = 0
        for xs, ys in zip(x.chunk(steps), y.chunk(steps)):
            loss = ((self.b(torch.relu(self.a(xs))) - ys) ** 2).mean() / steps
            loss.backward()
            report = report + loss.detach()
        if dist.get_world_size() > 1:
            dist.all_reduce(report)
            report = report / dist.get_world_size()
        return report


def step(m):
    if m.how in ("step", "accumulate", "sum_twice", "both") and dist.get_world_size() > 1:
        for p in m.parameters():
            dist.all_reduce(p.grad)
            if m.how != "both":
                p.grad /= dist.get_world_size()
            if m.how == "sum_twice":
                dist.all_reduce(p.grad)


def case(how):
    return dict(
        build=lambda r, w: Net(how),
        make_inputs=lambda r, w: (torch.randn(B // w, H), torch.randn(B // w, H)),
        world_size=2,
        mode="eager",
        backward=True,
        step=step,
    )


def fix_hook():
    return case("hook")


def fix_step():
    return case("step")


def fix_accumulate():
    return case("accumulate")


def bug_both():
    return case("both")


def bug_sum_twice():
    return case("sum_twice")


def keep_hook_accumulate():
    """the hook averages what was averaged before as well: a mean of equal values, so right"""
    return case("hook_accumulate")
