"""A small Llama, parallelised with torch's DTensor as its tutorials do. Needs nothing but torch.

    from gg_datalog import capture, verify

    print(verify(capture(**llama(), world_size=2)))
    print(verify(capture(**llama(data=2), world_size=4)))      # 2 x 2: data x tensor

Linear layers, embedding and head are cut over the tensor ranks; between attention and feed-forward
the sequence is (`sequence_parallel`); the loss is computed on logits that stay cut by vocabulary
(`loss_parallel`). Replicas add up their gradients after the backward pass, in `sum_gradients`.
Tested with torch 2.13.0 (CPU), Python 3.11.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

Tensor = torch.Tensor
Plan = dict[str, ParallelStyle]
Arguments = dict[str, Any]
BUGS = (
    "missing-all-reduce",
    "norm-gradient-not-reduced",
    "shards-in-reverse-order",
    "data-gradient-not-reduced",
    "mean-of-means",
)
"""Mistakes to plant: attention's output is not added up over ranks (without sequence parallelism);
the norms work on pieces of the sequence as if they were all of it; the keys' projection lies on the
ranks in reverse order; `sum_gradients` leaves out the head; every replica divides by its own number
of labels."""


@dataclass(frozen=True)
class Config:
    """Sizes; heads and key-value heads are divided among the tensor ranks."""

    vocab: int = 256
    hidden: int = 64
    heads: int = 8
    kv_heads: int = 4
    ffn: int = 192
    layers: int = 1
    batch: int = 4
    seq: int = 16


@dataclass(frozen=True)
class Layout:
    """How the ranks are used.

    ``data`` is the number of replicas, and what they share is cut over the ranks of each;
    ``gather_logits`` makes the loss an ordinary one, on logits that every rank has whole.
    """

    data: int = 1
    sequence_parallel: bool = True
    gather_logits: bool = False
    bug: str | None = None


def llama(
    layers: int = 1,
    data: int = 1,
    sequence_parallel: bool = True,
    gather_logits: bool = False,
    bug: str | None = None,
    mode: str | None = None,
) -> Arguments:
    """What to call `capture` with; every replica has a part of the batch. See :class:`Layout`."""
    config = Config(layers=layers)
    layout = Layout(data, sequence_parallel, gather_logits, bug)

    def build(rank: int, world_size: int) -> nn.Module:
        model = Llama(config)
        return model if world_size == 1 else parallelize(model, world_size, layout)

    def make_inputs(rank: int, world_size: int) -> tuple[Tensor, Tensor]:
        batch = config.batch if world_size == 1 else config.batch // data
        tokens = torch.zeros(batch, config.seq, dtype=torch.long)
        return tokens, torch.zeros_like(tokens)

    given = {"build": build, "make_inputs": make_inputs, "backward": True}
    if data == 1:
        return given | {"mode": mode or "dynamo"}
    return given | {"mode": mode or "eager", "step": sum_gradients}


class Attention(nn.Module):
    """Causal attention over groups of query heads; as many heads as the projections give."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head = config.hidden // config.heads
        self.group = config.heads // config.kv_heads
        kv = self.head * config.kv_heads
        self.wq = nn.Linear(config.hidden, config.hidden, bias=False)
        self.wk = nn.Linear(config.hidden, kv, bias=False)
        self.wv = nn.Linear(config.hidden, kv, bias=False)
        self.wo = nn.Linear(config.hidden, config.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = (self.split(w(x)) for w in (self.wq, self.wk, self.wv))
        k, v = self.repeat(rotated(k, cos, sin)), self.repeat(v)
        y = F.scaled_dot_product_attention(rotated(q, cos, sin), k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        """Batch, heads, positions, head size."""
        return x.unflatten(-1, (-1, self.head)).transpose(1, 2)

    def repeat(self, x: Tensor) -> Tensor:
        """Each key-value head once per query head of its group."""
        b, h, s, d = x.shape
        return x[:, :, None].expand(b, h, self.group, s, d).reshape(b, h * self.group, s, d)


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.w1 = nn.Linear(config.hidden, config.ffn, bias=False)
        self.w2 = nn.Linear(config.ffn, config.hidden, bias=False)
        self.w3 = nn.Linear(config.hidden, config.ffn, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    """Attention and feed-forward, each after a norm and added to what came in."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(config.hidden), nn.RMSNorm(config.hidden)
        self.attention, self.ffn = Attention(config), FeedForward(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.ffn(self.ffn_norm(x))


class Llama(nn.Module):
    """The model and its loss."""

    replicas: dist.ProcessGroup | None = None
    bug: str | None = None

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tokens = config.batch * config.seq
        self.embedding = nn.Embedding(config.vocab, config.hidden)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.vocab, bias=False)
        for name, table in zip(("cos", "sin"), rotation(config), strict=True):
            self.register_buffer(name, table, persistent=False)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        loss = self.loss(logits.flatten(0, 1).float(), labels.flatten())
        loss = loss.to_local() if isinstance(loss, DTensor) else loss
        return loss if self.replicas is None else Summed.apply(loss, self.replicas)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean over all tokens; each replica has its part of it.

        Labels may be -100, "no label": then the mean of the replicas' means is another one.
        """
        if self.bug == "mean-of-means" and self.replicas is not None:
            return F.cross_entropy(logits, labels) / dist.get_world_size(self.replicas)
        return F.cross_entropy(logits, labels, reduction="sum") / self.tokens


def rotation(config: Config) -> tuple[Tensor, Tensor]:
    """Cosine and sine for rotary positions, in halves."""
    head = config.hidden // config.heads
    frequencies = 10000.0 ** (-torch.arange(0, head, 2) / head)
    angles = torch.outer(torch.arange(config.seq), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Summed(torch.autograd.Function):
    """The sum of the replicas' losses, for the record; gradients are summed on their own."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, group: dist.ProcessGroup) -> Tensor:
        total = loss.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def sum_gradients(model: Llama) -> None:
    """What DistributedDataParallel does after a backward pass, without its buckets."""
    if model.replicas is None:
        return
    for name, parameter in model.named_parameters():
        if model.bug == "data-gradient-not-reduced" and name == "head.weight":
            continue
        gradient = parameter.grad
        local = gradient.to_local() if isinstance(gradient, DTensor) else gradient
        dist.all_reduce(local, group=model.replicas)


def parallelize(model: Llama, world_size: int, layout: Layout) -> nn.Module:
    """Cuts the model over the tensor ranks; a second dimension of the mesh are the replicas."""
    shape = (layout.data, world_size // layout.data)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensor"))
    tensor = mesh["tensor"]
    parallelize_module(model, tensor, outer_plan(layout))
    for layer in model.layers:
        parallelize_module(layer, tensor, layer_plan(layout))
        if layout.bug == "shards-in-reverse-order":
            parallelize_module(layer.attention.wk, backwards(*shape), ColwiseParallel())
    if not layout.gather_logits:
        loss_stays_parallel()
    model.bug = layout.bug
    model.replicas = mesh.get_group("data") if layout.data > 1 else None
    return model


@cache
def loss_stays_parallel() -> ExitStack:
    """`loss_parallel` for the rest of the process: the backward pass is to see it, too."""
    stack = ExitStack()
    stack.enter_context(loss_parallel())
    return stack


def outer_plan(layout: Layout) -> Plan:
    """Embedding, last norm and head: the logits stay cut by vocabulary, or are gathered."""
    between = Shard(1) if layout.sequence_parallel else Replicate()
    head = ColwiseParallel(
        input_layouts=between,
        output_layouts=Replicate() if layout.gather_logits else Shard(-1),
        use_local_output=layout.gather_logits,
    )
    embedding = RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
    return {"embedding": embedding, "head": head, **norms(layout, "norm")}


def layer_plan(layout: Layout) -> Plan:
    """Columns into attention and feed-forward, rows out of them."""
    sequence = layout.sequence_parallel
    between = Shard(1) if sequence else Replicate()
    plan: Plan = {f"attention.{w}": ColwiseParallel() for w in ("wq", "wv")}
    if layout.bug != "shards-in-reverse-order":
        plan["attention.wk"] = ColwiseParallel()
    plan |= {f"ffn.{w}": ColwiseParallel() for w in ("w1", "w3")}
    plan |= {name: RowwiseParallel(output_layouts=between) for name in ("attention.wo", "ffn.w2")}
    if layout.bug == "missing-all-reduce":
        plan["attention.wo"] = RowwiseParallel(output_layouts=Partial())
    if sequence:
        plan["attention"] = gathered(3)
        plan["ffn"] = gathered(1)
    return plan | norms(layout, "attention_norm", "ffn_norm")


def gathered(inputs: int) -> ParallelStyle:
    """The first input has a piece of the sequence; the module is given all of it."""
    rest = (None,) * (inputs - 1)
    return PrepareModuleInput(
        input_layouts=(Shard(1), *rest), desired_input_layouts=(Replicate(), *rest)
    )


def norms(layout: Layout, *names: str) -> Plan:
    """Norms work on pieces of the sequence; then their gradients have to be added up."""
    if not layout.sequence_parallel or layout.bug == "norm-gradient-not-reduced":
        return {}
    return {name: SequenceParallel(use_local_output=True) for name in names}


def backwards(data: int, tensor: int) -> DeviceMesh:
    """The tensor ranks of every replica in reverse order."""
    rows = [[d * tensor + t for t in reversed(range(tensor))] for d in range(data)]
    return DeviceMesh("cpu", rows, mesh_dim_names=("data", "tensor"))["tensor"]
