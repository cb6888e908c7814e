"""One training step of a small transformer, in the manner of Megatron-LM, in plain PyTorch.

The same function is the sequential program and, with a :class:`Layout`, the program of one rank:
tensor parallel (columns and rows of the linear layers, heads, the vocabulary), sequence parallel
(what lies between them is cut along the sequence) and data parallel (the batch is cut). A step is
loss, gradients, their reductions outside of backward, the global norm, clipping and Adam.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed._functional_collectives as functional
import torch.nn.functional as F
from torch.distributed import ProcessGroup

Tensors = dict[str, torch.Tensor]
SEQ, BATCH, HIDDEN, HEADS, FFN, VOCAB = 8, 4, 12, 4, 20, 24
PARAMETERS: dict[str, tuple[int, ...]] = {
    "words": (VOCAB, HIDDEN),
    "places": (SEQ, HIDDEN),
    "norm1.weight": (HIDDEN,),
    "norm1.bias": (HIDDEN,),
    "qkv.weight": (3 * HIDDEN, HIDDEN),
    "qkv.bias": (3 * HIDDEN,),
    "proj.weight": (HIDDEN, HIDDEN),
    "proj.bias": (HIDDEN,),
    "norm2.weight": (HIDDEN,),
    "norm2.bias": (HIDDEN,),
    "fc1.weight": (FFN, HIDDEN),
    "fc1.bias": (FFN,),
    "fc2.weight": (HIDDEN, FFN),
    "fc2.bias": (HIDDEN,),
    "norm3.weight": (HIDDEN,),
    "norm3.bias": (HIDDEN,),
}
SHARDED = {
    "words": 0,
    "qkv.weight": 0,
    "qkv.bias": 0,
    "proj.weight": 1,
    "fc1.weight": 0,
    "fc1.bias": 0,
    "fc2.weight": 1,
}
"""Parameter -> dimension that tensor parallelism cuts."""
BUGS = (
    "norm-gradient-not-reduced",
    "data-gradient-not-reduced",
    "bias-added-by-every-rank",
    "targets-not-shifted",
    "replica-counted-by-every-rank",
    "input-gradient-not-reduced",
)


@dataclass(frozen=True)
class Layout:
    """How one rank takes part: its place among the ``tensor`` parallel ranks, and the groups."""

    place: int = 0
    tensor: int = 1
    data: int = 1
    sequence_parallel: bool = False
    tensor_group: ProcessGroup | None = None
    data_group: ProcessGroup | None = None
    bugs: Sequence[str] = field(default_factory=tuple)


class Copy(torch.autograd.Function):
    """The input of column-parallel layers: its gradients are added up."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return functional.all_reduce(g.contiguous(), "sum", ctx.group), None


class Reduce(torch.autograd.Function):
    """The result of row-parallel layers is added up; its gradient goes to every rank."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
        return functional.all_reduce(x, "sum", group)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g, None


class Gather(torch.autograd.Function):
    """The whole sequence from its shares; of the gradient, the own share of the sum."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
        ctx.group = group
        return functional.all_gather_single(x, 0, group)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return functional.reduce_scatter_single(g.contiguous(), "sum", 0, ctx.group), None


class Scatter(torch.autograd.Function):
    """The own share of the sequence of a sum; the gradient is gathered."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
        ctx.group = group
        return functional.reduce_scatter_single(x.contiguous(), "sum", 0, group)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return functional.all_gather_single(g.contiguous(), 0, ctx.group), None


class CrossEntropy(torch.autograd.Function):
    """Per token, over scores of which a rank has the classes [low, high)."""

    @staticmethod
    def forward(
        ctx: Any, scores: torch.Tensor, target: torch.Tensor, at: Layout, low: int, high: int
    ) -> torch.Tensor:
        group = at.tensor_group
        largest = scores.max(dim=-1)[0]
        if group is not None:
            largest = functional.all_reduce(largest, "max", group)
        scores = scores - largest.unsqueeze(-1)
        outside = (target < low) | (target >= high)
        shift = 0 if "targets-not-shifted" in at.bugs else low
        index = torch.where(outside, torch.zeros_like(target), target - shift).view(-1)
        rows = torch.arange(0, index.shape[0])
        mine = scores.view(-1, high - low)[rows, index].clone().view_as(target)
        mine = torch.where(outside, torch.zeros_like(mine), mine)
        powers = scores.exp()
        total = powers.sum(-1)
        if group is not None:
            mine = functional.all_reduce(mine, "sum", group)
            total = functional.all_reduce(total, "sum", group)
        ctx.save_for_backward(powers / total.unsqueeze(-1), outside, index)
        return total.log() - mine

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        softmax, outside, index = ctx.saved_tensors
        flat = softmax.view(-1, softmax.shape[-1])
        rows = torch.arange(0, index.shape[0])
        less = 1.0 - outside.view(-1).float()
        flat = torch.index_put(flat, [rows, index], flat[rows, index] - less)
        return flat.view_as(softmax) * g.unsqueeze(-1), None, None, None, None


def column(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, at: Layout) -> torch.Tensor:
    """A linear layer of which a rank has some of the outputs."""
    forgets = "input-gradient-not-reduced" in at.bugs and not at.sequence_parallel
    if at.tensor_group is not None and not forgets:
        x = (Gather if at.sequence_parallel else Copy).apply(x, at.tensor_group)
    return F.linear(x, w, b)


def row(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, at: Layout) -> torch.Tensor:
    """A linear layer of which a rank has some of the inputs."""
    early = b if "bias-added-by-every-rank" in at.bugs else None
    y = F.linear(x, w, early)
    if at.tensor_group is not None:
        y = (Scatter if at.sequence_parallel else Reduce).apply(y, at.tensor_group)
    return y if early is not None else y + b


def attention(qkv: torch.Tensor, heads: int, hidden: torch.Tensor) -> torch.Tensor:
    """Over ``[seq, batch, (head, q | k | v)]``; ``hidden`` scores are those of later tokens."""
    seq, batch, width = qkv.shape
    size = width // (3 * heads)
    parts = qkv.view(seq, batch, heads, 3 * size).split(size, -1)
    q, k, v = (part.permute(1, 2, 0, 3) for part in parts)
    scores = (q @ k.transpose(-1, -2)) * size**-0.5
    context = torch.softmax(scores.masked_fill(hidden, -10000.0), -1) @ v
    return context.permute(2, 0, 1, 3).reshape(seq, batch, heads * size)


def embedded(p: Tensors, tokens: torch.Tensor, places: torch.Tensor, at: Layout) -> torch.Tensor:
    """``[seq, batch, hidden]``, the own share of the sequence where that is cut."""
    if at.tensor_group is None:
        x = F.embedding(tokens, p["words"])
    else:
        low = at.place * (VOCAB // at.tensor)
        outside = (tokens < low) | (tokens >= low + VOCAB // at.tensor)
        x = F.embedding(torch.where(outside, torch.zeros_like(tokens), tokens - low), p["words"])
        x = torch.where(outside.unsqueeze(-1), torch.zeros((), dtype=x.dtype), x)
        if not at.sequence_parallel:
            x = Reduce.apply(x, at.tensor_group)
    x, more = x.transpose(0, 1), F.embedding(places, p["places"]).transpose(0, 1)
    if at.tensor_group is not None and at.sequence_parallel:
        share = SEQ // at.tensor
        x = Scatter.apply(x, at.tensor_group)
        more = more[at.place * share : (at.place + 1) * share]
    return x + more


def loss_of(
    p: Tensors,
    tokens: torch.Tensor,
    labels: torch.Tensor,
    places: torch.Tensor,
    hidden: torch.Tensor,
    at: Layout,
) -> torch.Tensor:
    """The mean loss of the batch at hand."""

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(x, (HIDDEN,), p[f"{name}.weight"], p[f"{name}.bias"])

    x = embedded(p, tokens, places, at)
    qkv = column(norm(x, "norm1"), p["qkv.weight"], p["qkv.bias"], at)
    context = attention(qkv, HEADS // at.tensor, hidden)
    x = x + row(context, p["proj.weight"], p["proj.bias"], at)
    inner = F.gelu(column(norm(x, "norm2"), p["fc1.weight"], p["fc1.bias"], at))
    x = x + row(inner, p["fc2.weight"], p["fc2.bias"], at)
    scores = column(norm(x, "norm3"), p["words"], None, at).transpose(0, 1).contiguous()
    width = VOCAB // at.tensor
    low = at.place * width
    return CrossEntropy.apply(scores, labels, at, low, low + width).mean()


def finalised(gradients: Tensors, at: Layout) -> Tensors:
    """What is reduced outside of backward: gradients of what every tensor-parallel rank has of a
    cut sequence, and those of replicas of the model."""
    found = {}
    for name, g in gradients.items():
        whole = name not in SHARDED
        skip = name == "norm2.weight" and "norm-gradient-not-reduced" in at.bugs
        if at.tensor_group is not None and at.sequence_parallel and whole and not skip:
            g = functional.all_reduce(g, "sum", at.tensor_group)
        skip = name == "fc1.weight" and "data-gradient-not-reduced" in at.bugs
        if at.data_group is not None and not skip:
            g = functional.all_reduce(g, "avg", at.data_group)
        found[name] = g
    return found


def global_norm(gradients: Tensors, at: Layout) -> torch.Tensor:
    """Over all parameters: shards are added up, replicas count once."""
    everywhere = at.place == 0 or "replica-counted-by-every-rank" in at.bugs
    mine = [g for name, g in gradients.items() if name in SHARDED or everywhere]
    total = torch.stack([torch.linalg.vector_norm(g) for g in mine])
    if at.tensor_group is None:
        return torch.linalg.vector_norm(total)
    squares = torch.linalg.vector_norm(total) ** 2
    return functional.all_reduce(squares, "sum", at.tensor_group) ** 0.5


def step(
    p: Tensors, moments: Tensors, squares: Tensors, batch: Sequence[torch.Tensor], at: Layout
) -> tuple[torch.Tensor, torch.Tensor, Tensors, Tensors]:
    """Loss, gradient norm, gradients and new parameters."""
    loss = loss_of(p, *batch, at)  # type: ignore[misc]
    raw = torch.autograd.grad(loss, list(p.values()))
    gradients = finalised(dict(zip(p, raw, strict=True)), at)
    if at.data_group is not None:
        loss = functional.all_reduce(loss, "avg", at.data_group)
    norm = global_norm(gradients, at)
    by = torch.clamp(1.0 / (norm + 1e-6), max=1.0)
    updated = {}
    for name, w in p.items():
        g = gradients[name] * by
        first = torch.lerp(moments[name], g, 0.1)
        second = squares[name] * 0.95 + g * g * 0.05
        updated[name] = w * 0.999 - 0.01 * first / (second.sqrt() + 1e-8)
    return loss, norm, gradients, updated
