"""TorchTitan's Llama 3, parallelised by TorchTitan: tensor, sequence and data parallel.

    from gg_datalog import capture, verify

    print(verify(capture(**llama3(), world_size=8)))
    print(verify(capture(**llama3(data=2), world_size=8)))      # 2 x 4: data x tensor

The model, its sharding and its loss (vocabulary parallel) are TorchTitan's. Two things are not:
attention is SDPA, as the kernels TorchTitan chooses among have no graph on a CPU; and replicas add
up their gradients in `sum_gradients`, in place of FSDP's `fully_shard`, which cannot be captured.
TorchTitan divides the sum of losses by the number of labels in the whole batch, so gradients of
replicas are summed, not averaged.

Tested with torchtitan 0.3.0, torch 2.13.0 (CPU), Python 3.11: `pip install torch==2.13.0
torchtitan`, and `pip install --no-deps triton`, which it imports and does not use here.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torchtitan.components.loss import cross_entropy_loss
from torchtitan.config import ParallelismConfig
from torchtitan.distributed import ParallelDims, parallel_dims
from torchtitan.distributed.utils import set_spmd_backend
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3 import Llama3Model, llama3_configs

Tensor = torch.Tensor
Arguments = dict[str, Any]
BACKEND = "partial_dtensor"
BUGS = ("data-gradient-not-reduced", "labels-of-one-replica")
"""Mistakes to plant: `sum_gradients` leaves out the head; every replica divides its loss by the
number of its own labels. What DTensor does cannot be wrong so easily: it knows what is open."""


def llama3(
    layers: int = 1,
    *,
    flavor: str = "8B",
    data: int = 1,
    sequence_parallel: bool = True,
    batch: int = 2,
    seq: int = 128,
    bug: str | None = None,
    mode: str | None = None,
) -> Arguments:
    """What to call `capture` with; ``data`` replicas share the batch, other ranks the tensors."""

    def build(rank: int, world_size: int) -> nn.Module:
        replicas = min(data, world_size)
        config = configured(flavor, layers, seq, world_size // replicas, sequence_parallel)
        model = config.build()
        dims = dimensions(replicas, world_size)
        if world_size > replicas:
            model.parallelize(dims)
        group = dims.get_mesh("dp_replicate").get_group() if replicas > 1 else None
        labels = batch * seq // (replicas if bug == "labels-of-one-replica" else 1)
        return Step(model, labels, group, bug)

    def make_inputs(rank: int, world_size: int) -> tuple[Tensor, Tensor]:
        tokens = torch.zeros(batch // min(data, world_size), seq, dtype=torch.long)
        return tokens, torch.zeros_like(tokens)

    given = {"build": build, "make_inputs": make_inputs, "backward": True}
    if data == 1:
        return given | {"mode": mode or "dynamo"}
    return given | {"mode": mode or "eager", "step": sum_gradients}


def configured(
    flavor: str, layers: int, seq: int, tensor: int, sequence_parallel: bool
) -> Llama3Model.Config:
    """The configuration as the trainer makes it: the shardings are filled in here."""
    config = llama3_configs[flavor](attn_backend="flex")
    config.layers = config.layers[:layers]
    for layer in config.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
        layer.attention.rope.max_seq_len = seq
    parallelism = ParallelismConfig(
        tensor_parallel_degree=tensor,
        enable_sequence_parallel=sequence_parallel,
        spmd_backend=BACKEND,
    )
    config.update_from_config(config=SimpleNamespace(parallelism=parallelism))
    return config


def dimensions(replicas: int, world_size: int) -> ParallelDims:
    """The meshes, on the CPU."""
    set_spmd_backend(BACKEND)
    parallel_dims.device_type = "cpu"
    tensor = world_size // replicas
    sizes = {"dp_shard": 1, "cp": 1, "tp": tensor, "pp": 1, "ep": 1, "world_size": world_size}
    dims = ParallelDims(dp_replicate=replicas, **sizes, spmd_backend=BACKEND)
    dims.build_mesh()
    return dims


class Step(nn.Module):
    """The model and the loss as the trainer computes it."""

    def __init__(
        self, model: nn.Module, labels: int, replicas: dist.ProcessGroup | None, bug: str | None
    ) -> None:
        super().__init__()
        self.model = model
        self.labels, self.replicas, self.bug = labels, replicas, bug

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        loss = cross_entropy_loss(self.model(tokens), labels) / self.labels
        return loss if self.replicas is None else Summed.apply(loss, self.replicas)


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


def sum_gradients(step: Step) -> None:
    """What data parallelism does after a backward pass, without buckets."""
    if step.replicas is None:
        return
    for name, parameter in step.named_parameters():
        if step.bug == "data-gradient-not-reduced" and name == "model.lm_head.weight":
            continue
        gradient = parameter.grad
        local = gradient.to_local() if isinstance(gradient, DTensor) else gradient
        dist.all_reduce(local, group=step.replicas)
