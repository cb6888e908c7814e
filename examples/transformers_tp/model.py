"""Language models of `transformers`, cut by the tensor-parallel plans that they ship.

    from gg_datalog import capture, verify

    print(verify(capture(**llama(layers=1), world_size=8)))

Sizes are the published ones (Llama-3-8B, Qwen3-8B, Mixtral-8x7B, Qwen3-30B-A3B); the number of
layers is a parameter. Weights are what the constructor draws: built with fake tensors, as `capture`
does, nothing is downloaded and nothing is allocated.

`build(rank, world_size)` applies the plan as `from_pretrained(..., distributed_config=...)` does,
without loading: parameters become DTensors on a mesh of one dimension, and forward methods are
wrapped. Qwen3 reduces the gradients of its query and key norms in a hook on the parameter, which
only `mode="eager"` sees.

Tested with transformers 5.23.0, torch 2.13.0 (CPU), Python 3.11.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Partial
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MixtralConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3Config,
    Qwen3MoeConfig,
)
from transformers.distributed.configuration_utils import DistributedConfig
from transformers.distributed.parallel_utils import ALL_PARALLEL_STYLES
from transformers.distributed.tensor_parallel import (
    ColwiseParallel,
    RowwiseParallel,
    apply_tensor_parallelism,
)

Arguments = dict[str, Any]
BUGS = (
    "missing-all-reduce",
    "norm-gradient-not-reduced",
    "packed-cut-as-plain",
    "shards-in-reverse-order",
)
"""Mistakes to plant, each a wrong rule in the plan of every layer: attention's output is not added
up over ranks; the hook of Qwen3's norms is left out; gate and up projections of experts, which lie
in one parameter, are cut as one matrix; the keys' projection lies on the ranks in reverse order."""


def llama(layers: int = 1, **options: Any) -> Arguments:
    """Llama-3-8B; :func:`arguments` has the options."""
    sizes = {"hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    return arguments(LlamaConfig(**sizes, **heads, rope_parameters=rope), layers, **options)


def qwen3(layers: int = 1, *, mode: str = "eager", **options: Any) -> Arguments:
    """Qwen3-8B: queries and keys are normalised head by head."""
    sizes = {"hidden_size": 4096, "intermediate_size": 12288, "vocab_size": 151936}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
    return arguments(Qwen3Config(**sizes, **heads), layers, mode=mode, **options)


def mixtral(layers: int = 1, *, experts: str = "grouped_mm", **options: Any) -> Arguments:
    """Mixtral-8x7B: 8 experts, 2 for each token; every rank has a part of every expert.

    ``experts`` is how they run: grouped_mm sorts the tokens by expert (torch's kernel takes only
    bfloat16), batched_mm takes the weights of each token's experts.
    """
    sizes = {"hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 32000}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    routing = {"num_local_experts": 8, "num_experts_per_tok": 2}
    config = MixtralConfig(**sizes, **heads, **routing)
    return arguments(config, layers, experts=experts, **{"dtype": torch.bfloat16, **options})


def qwen3_moe(
    layers: int = 1, *, experts: str = "grouped_mm", mode: str = "eager", **options: Any
) -> Arguments:
    """Qwen3-30B-A3B: 128 experts, 8 for each token."""
    sizes = {"hidden_size": 2048, "moe_intermediate_size": 768, "vocab_size": 151936}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128}
    routing = {"num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True}
    config = Qwen3MoeConfig(**sizes, **heads, **routing)
    options = {"dtype": torch.bfloat16, **options}
    return arguments(config, layers, experts=experts, mode=mode, **options)


def arguments(
    config: PreTrainedConfig,
    layers: int,
    *,
    attention: str = "sdpa",
    experts: str | None = None,
    dtype: torch.dtype = torch.float32,
    batch: int = 2,
    seq: int = 128,
    mode: str = "dynamo",
    bug: str | None = None,
) -> Arguments:
    """What to call `capture` with; ``attention`` is eager or sdpa, ``bug`` one of ``BUGS``."""
    config.num_hidden_layers = layers
    config.use_cache = False

    def build(rank: int, world_size: int) -> nn.Module:
        kernels = {"attn_implementation": attention, "experts_implementation": experts}
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, **kernels)
        return model if world_size == 1 else parallelize(model, world_size, bug)

    def make_inputs() -> dict[str, torch.Tensor]:
        tokens = torch.zeros(batch, seq, dtype=torch.long)
        return {"input_ids": tokens, "labels": torch.zeros_like(tokens)}

    given = {"build": build, "make_inputs": make_inputs, "loss": loss}
    return given | {"mode": mode, "backward": True}


def loss(output: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The causal language model's loss: the model computes it where it is given labels."""
    return output.loss


def parallelize(model: PreTrainedModel, world_size: int, bug: str | None = None) -> nn.Module:
    """The model on a mesh of all ranks, by its own plan."""
    mesh = init_device_mesh("cpu", (world_size,), mesh_dim_names=("tp",))
    plan = model._resolve_parallel_plans(DistributedConfig(tp_size=world_size))[0]
    return apply_tensor_parallelism(model, mesh, planted(plan, bug))


def planted(plan: dict[str, str], bug: str | None) -> dict[str, str]:
    """The plan, module or parameter -> style, with a mistake in it."""
    wrong = {
        "missing-all-reduce": ("o_proj", "rowwise_not_reduced"),
        "norm-gradient-not-reduced": ("_norm", "replicate"),
        "packed-cut-as-plain": ("gate_up_proj", "colwise"),
        "shards-in-reverse-order": ("k_proj", "colwise_reversed"),
    }
    if bug is None:
        return plan
    ending, style = wrong[bug]
    found = [name for name in plan if name.removesuffix(".weight").endswith(ending)]
    if not found:
        raise ValueError(f"this model has no `{ending}` to plant {bug} in")
    return plan | dict.fromkeys(found, style)


class ColwiseReversed(ColwiseParallel):
    """Rank r of W has what rank W-1-r should have."""

    def shard_param(self, module: nn.Module, param: str, mesh: DeviceMesh) -> None:
        super().shard_param(module, param, backwards(mesh))

    def install_forward(self, module: nn.Module, mesh: DeviceMesh) -> nn.Module:
        return super().install_forward(module, backwards(mesh))


def backwards(mesh: DeviceMesh) -> DeviceMesh:
    """The same ranks in reverse order."""
    ranks = list(reversed(range(mesh.size())))
    return DeviceMesh("cpu", ranks, mesh_dim_names=("backwards",))


ALL_PARALLEL_STYLES.register("rowwise_not_reduced", RowwiseParallel(output_layouts=Partial()))
ALL_PARALLEL_STYLES.register("colwise_reversed", ColwiseReversed())
