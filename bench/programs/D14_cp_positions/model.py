"""Learned position embeddings under context/sequence parallelism: each rank counts from 0 (GPT-2 in ColossalAI, ESM), a past length is left out."""

import torch
import torch.distributed as dist
from torch import nn

B, S, H, V = 2, 8, 4, 9


class Embed(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how
        self.tok, self.pos = nn.Embedding(V, H), nn.Embedding(S + 2, H)
        self.ln = nn.LayerNorm(H)

    def forward(self, ids):
        s = ids.shape[1]
        r, w = dist.get_rank(), dist.get_world_size()
        start = r * s if w > 1 and self.how != "zero" else 0
        if w > 1 and self.how == "strided":
            p = torch.arange(r, S, w)
        elif w > 1 and self.how == "short":
            p = torch.arange(s) + r * (s - 1)
        else:
            p = torch.arange(start, start + s)
        return self.ln(self.tok(ids) + self.pos(p + 2)[None])


INT_HIGH = V


def place(name, full, rank, world):
    return full.chunk(world, 1)[rank] if name in ("ids", "output_0") else NotImplemented


def case(how):
    return dict(
        build=lambda r, w: Embed(how).requires_grad_(False),
        make_inputs=lambda r, w: (torch.zeros(B, S // w, dtype=torch.long),),
        world_size=2,
        mode="eager",
    )


def fix():
    return case("ok")


def bug_zero():
    return case("zero")


def bug_strided():
    return case("strided")


def bug_overlap():
    return case("short")
