"""ZeRO-1: each rank updates its slice of flat parameters with reduced gradients and gathers; slips: local gradients, decay on the wrong slice, momentum from the first rank."""

import torch
import torch.distributed as dist
from torch import nn

B, H, LR, MU, WD = 4, 4, 0.1, 0.9, 0.01


class Net(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.rank, self.world, self.how = rank, world, how
        self.w = nn.Parameter(torch.empty(H, H))
        self.register_buffer("momentum", torch.empty(H // world, H))

    def forward(self, x):
        loss = torch.tanh(x @ self.w).square().sum()
        loss.backward()
        loss = loss.detach().clone()
        if self.world > 1:
            dist.all_reduce(loss)
        return loss


@torch.no_grad()
def step(m):
    g, p = m.w.grad, m.w
    if m.world == 1:
        g = g + WD * p
        m.momentum.mul_(MU).add_(g)
        p.sub_(LR * m.momentum)
        return
    n = H // m.world
    mine = slice(m.rank * n, (m.rank + 1) * n)
    if m.how == "local":
        part = g[mine].clone()
    else:
        part = torch.empty(n, H)
        dist.reduce_scatter_tensor(part, g.contiguous())
        if m.how == "average":
            part /= m.world
    part = part + WD * (p[:n] if m.how == "decay" else p[mine])
    m.momentum.mul_(MU).add_(part)
    new = p[mine] - LR * m.momentum
    full = torch.empty(H, H)
    dist.all_gather_into_tensor(full, new.contiguous())
    p.copy_(full)
    if m.how != "keep_grad":
        dist.all_reduce(m.w.grad)


def case(how):
    return dict(
        build=lambda r, w: Net(r, w, how),
        make_inputs=lambda r, w: (torch.randn(B // w, H),),
        world_size=2,
        mode="eager",
        backward=True,
        step=step,
    )


def fix():
    return case("ok")


def bug_local():
    return case("local")


def bug_decay():
    return case("decay")


def bug_average():
    return case("average")
