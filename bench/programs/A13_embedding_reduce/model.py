"""Vocabulary-parallel embedding: not reduced, or ids not masked (row 0 is added by every other rank), or the mask is forgotten for the output."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, S, V, H = 2, 4, 8, 6


class VocabParallelEmbedding(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.world, self.how = world, how
        self.n = V // world
        self.start = (rank if world > 1 else 0) * self.n
        self.weight = nn.Parameter(torch.empty(self.n, H))

    def forward(self, ids):
        if self.world == 1:
            return F.embedding(ids, self.weight)
        mask = (ids < self.start) | (ids >= self.start + self.n)
        if self.how == "inclusive":
            mask = (ids < self.start) | (ids > self.start + self.n)
        local = ids - self.start
        if self.how == "modulo":
            local = local % self.n
        else:
            local = (
                local.masked_fill(mask, 0)
                if self.how != "inclusive"
                else local.clamp(0, self.n - 1)
            )
        y = F.embedding(local, self.weight)
        if self.how not in ("unmasked", "modulo"):
            y = y.masked_fill(mask.unsqueeze(-1), 0.0)
        if self.how != "unreduced":
            dist.all_reduce(y)
        return y


class Model(nn.Module):
    def __init__(self, rank, world, how):
        super().__init__()
        self.embed = VocabParallelEmbedding(rank, world, how)
        self.norm = nn.LayerNorm(H)

    def forward(self, ids):
        return self.norm(self.embed(ids))


INT_HIGH = V


def case(how, world=2):
    return dict(
        build=lambda r, w: Model(r, w, how).requires_grad_(False),
        make_inputs=lambda: (torch.zeros(B, S, dtype=torch.long),),
        world_size=world,
        mode="eager",
    )


def fix():
    return case("ok")


def fix_tp4():
    return case("ok", 4)


def bug_unreduced():
    return case("unreduced")


def bug_unmasked():
    return case("unmasked")


def bug_modulo():
    return case("modulo")


def bug_inclusive():
    return case("inclusive")
