"""Megatron/DeepSpeed pipeline: the tied embedding lives on first and last stage; its gradients must be added over both."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, V = 6, 4, 10


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Parameter(torch.empty(V, H))
        self.first, self.second = nn.Linear(H, H), nn.Linear(H, H)

    def forward(self, ids, labels):
        h = torch.tanh(self.first(F.embedding(ids, self.word_embeddings)))
        h = h + torch.tanh(self.second(h))
        loss = F.cross_entropy(h @ self.word_embeddings.t(), labels)
        loss.backward()
        return loss.detach()


class Stage(nn.Module):
    def __init__(self, rank, tie):
        super().__init__()
        self.rank, self.tie = rank, tie
        self.word_embeddings = nn.Parameter(torch.empty(V, H))
        if rank == 0:
            self.first = nn.Linear(H, H)
        else:
            self.second = nn.Linear(H, H)

    def forward(self, ids, labels):
        if self.rank == 0:
            h = torch.tanh(self.first(F.embedding(ids, self.word_embeddings)))
            dist.send(h.detach(), 1)
            g = torch.empty_like(h)
            dist.recv(g, 1)
            h.backward(g)
            loss = None
        else:
            h = torch.empty(T, H)
            dist.recv(h, 0)
            h.requires_grad_()
            out = h + torch.tanh(self.second(h))
            loss = F.cross_entropy(out @ self.word_embeddings.t(), labels)
            loss.backward()
            dist.send(h.grad, 0)
            loss = loss.detach()
        if self.tie == "sum":
            dist.all_reduce(self.word_embeddings.grad)
        elif self.tie == "mean":
            dist.all_reduce(self.word_embeddings.grad, op=dist.ReduceOp.SUM)
            self.word_embeddings.grad /= 2
        elif self.tie == "broadcast":
            dist.broadcast(self.word_embeddings.grad, 1)
        return loss


INT_HIGH = V


def case(tie):
    return dict(
        build=lambda r, w: Stage(r, tie),
        sequential=lambda r, w: Whole(),
        make_inputs=lambda: (torch.zeros(T, dtype=torch.long), torch.zeros(T, dtype=torch.long)),
        world_size=2,
        mode="eager",
        backward=True,
    )


def fix():
    return case("sum")


def bug():
    return case("none")


def bug_mean():
    return case("mean")


def bug_broadcast():
    return case("broadcast")
