"""T5 / relative attention bias under TP: the table is whole, a rank takes its heads; ColossalAI took the first ones. CP: positions with the rank's offset."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, S, HEADS, D, BUCKETS = 2, 4, 4, 3, 6
H = HEADS * D


class T5Attention(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.rank, self.world, self.how = rank, world, how
        self.n = HEADS // world
        self.table = nn.Embedding(BUCKETS, HEADS)
        self.q, self.k, self.v = (nn.Linear(H, H // world, bias=False) for _ in range(3))
        self.o = nn.Linear(H // world, H, bias=False)

    def bias(self, s):
        pos = torch.arange(s)
        rel = (pos[None, :] - pos[:, None]).clamp(-2, 2) + 2
        values = self.table(rel).permute(2, 0, 1).unsqueeze(0)
        if self.world == 1:
            return values
        if self.how == "first":
            return values[:, : self.n]
        if self.how == "strided":
            return values[:, self.rank :: self.world]
        return values[:, self.rank * self.n : (self.rank + 1) * self.n]

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (p(x).view(b, s, self.n, D).transpose(1, 2) for p in (self.q, self.k, self.v))
        w = F.softmax(q @ k.transpose(2, 3) + self.bias(s), -1)
        y = self.o((w @ v).transpose(1, 2).contiguous().view(b, s, -1))
        if self.world > 1:
            dist.all_reduce(y)
        return y


def case(how, world=2):
    return dict(
        build=lambda r, w: T5Attention(r, w, how).requires_grad_(False),
        make_inputs=lambda: (torch.randn(B, S, H),),
        world_size=world,
        mode="eager",
    )


def fix():
    return case("own")


def fix_tp4():
    return case("own", 4)


def bug_first():
    return case("first")


def bug_strided():
    return case("strided")
