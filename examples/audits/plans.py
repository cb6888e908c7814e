"""Any configuration of `transformers` with a tensor- or expert-parallel plan, as a program.

`transformers.toml` calls :func:`pair` for each. Widths, heads and experts are what the
configuration has when nothing is said; capture builds with fake tensors, so they cost nothing. Of
its layers those stay that differ from each other: one of each kind.

Tested with transformers 5.23.0, torch 2.13.0 (CPU), Python 3.11.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_MAPPING,
    AutoModel,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.distributed.configuration_utils import DistributedConfig
from transformers.distributed.expert_parallel import apply_expert_parallelism
from transformers.distributed.tensor_parallel import apply_tensor_parallelism
from transformers.initialization import no_tie_weights

Arguments = dict[str, Any]
PLANS = ("base_model_tp_plan", "base_model_ep_plan")
FEW = 4  # values that tell kinds of layers apart; a list with more of them numbers the layers
BATCH, LENGTH = 2, 32
UNSAID: dict[str, Arguments] = {
    "deepseek_v2": {"num_experts_per_tok": 6, "moe_intermediate_size": 1408},
    "dots1": {"n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2},
    "hunyuan_v1_moe": {"head_dim": 128},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8, "head_dim": 128},
}
"""What a configuration leaves open, and its model needs: as published."""


def names(plan: str = "tensor") -> list[str]:
    """Types of all configurations that have such a plan, ``tensor`` or ``expert``."""
    attribute = PLANS[plan == "expert"]
    return sorted(name for name, kind in CONFIG_MAPPING.items() if getattr(kind, attribute, None))


def experts(model: str) -> Arguments:
    """The same with each expert on one of the ranks, by the expert-parallel plan."""
    return pair(model, "expert")


def pair(model: str, plan: str = "tensor") -> Arguments:
    """What to call `capture` with for the configuration of this type: forward and backward.

    Where there is a causal language model, it gets tokens and labels and returns its loss; else
    the model itself, whose loss is the mean square of what it returns first.
    """

    def build(rank: int, world_size: int) -> nn.Module:
        if world_size == 1:
            return made(configuration(model))
        with no_tie_weights():  # as `from_pretrained`, which ties them when they are cut
            built = made(configuration(model))
        built = parallelize(built, world_size, plan)
        built.tie_weights(recompute_mapping=False)
        return built

    def make_inputs() -> dict[str, torch.Tensor]:
        return inputs(configuration(model))

    given = {"build": build, "make_inputs": make_inputs, "loss": loss}
    return given | {"mode": "eager", "backward": True}


# ---- configurations ------------------------------------------------------------------------------
def configuration(model: str) -> PreTrainedConfig:
    """The configuration of this type with one layer of each kind."""
    return shortened(CONFIG_MAPPING[model], UNSAID.get(model, {}))


def shortened(kind: type[PreTrainedConfig], said: Arguments) -> PreTrainedConfig:
    """A configuration with fewer layers, those of its parts shortened, too."""
    whole = kind(**said)
    given = {
        name: shortened(type(part), {})
        for name in whole.sub_configs
        if isinstance(part := getattr(whole, name, None), PreTrainedConfig)
    }
    return kind(**said | given | fewer_layers(vars(whole)))


def fewer_layers(config: Mapping[str, Any]) -> Arguments:
    """Options for the first layer of each kind; lists with an entry for each layer keep theirs."""
    count = config.get("num_hidden_layers")
    if not isinstance(count, int) or count < 2:
        return {}
    lists = {n: v for n, v in config.items() if isinstance(v, (list, tuple)) and len(v) == count}
    telling = [v for v in lists.values() if len(set(map(str, v))) <= FEW]
    kinds: dict[tuple[str, ...], int] = {}
    for layer in range(count):
        kinds.setdefault(tuple(str(values[layer]) for values in telling), layer)
    kept = sorted(kinds.values())
    dense = config.get("first_k_dense_replace") or 0
    if 0 < dense < count and len(kept) == 1:
        kept = [0, dense]
    found: Arguments = {n: [v[i] for i in kept] if v in telling else v[: len(kept)]
                        for n, v in lists.items()}  # fmt: skip
    if dense > 0:
        found["first_k_dense_replace"] = sum(layer < dense for layer in kept)
    if config.get("num_kv_shared_layers"):
        found["num_kv_shared_layers"] = 0  # they share with layers that are not there any more
    return found | {"num_hidden_layers": len(kept)}


# ---- models --------------------------------------------------------------------------------------
def made(config: PreTrainedConfig) -> PreTrainedModel:
    """The model of a configuration; experts in bfloat16, the one type that torch's kernel for
    them takes."""
    config.use_cache = False
    experts = (
        bool(type(config).base_model_ep_plan)
        or "moe_tp_experts" in (type(config).base_model_tp_plan or {}).values()
    )
    options: Arguments = {"dtype": torch.bfloat16 if experts else torch.float32}
    if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
        return AutoModelForCausalLM.from_config(config, **options)
    if type(config) in MODEL_MAPPING:
        return AutoModel.from_config(config, **options)
    return model_of(type(config))._from_config(config, **options)


def model_of(config: type[PreTrainedConfig]) -> type[PreTrainedModel]:
    """The model of a part of another one, which no auto class knows."""
    module = import_module(config.__module__.replace(".configuration_", ".modeling_"))
    found = [
        kind for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, PreTrainedModel) and kind.config_class is config
        and kind.__name__.endswith(("Model", "Encoder", "Decoder", "ForCausalLM"))
        and "PreTrained" not in kind.__name__
    ]  # fmt: skip
    if not found:
        raise ValueError(f"transformers has no model for {config.__name__}")
    return min(found, key=lambda kind: (not kind.__name__.endswith("Model"), kind.__name__))


def inputs(config: PreTrainedConfig) -> dict[str, torch.Tensor]:
    """Tokens, with labels where the model takes them; for an encoder of images some of those."""
    if hasattr(config, "image_size") and not hasattr(config, "vocab_size"):
        size = config.image_size
        shape = (BATCH, config.num_channels, *(size if isinstance(size, list) else [size, size]))
        return {"pixel_values": torch.zeros(shape)}
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    causal = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
    return {"input_ids": tokens} | ({"labels": torch.zeros_like(tokens)} if causal else {})


def loss(output: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The loss of the language model, else the mean square of the first thing returned."""
    found = getattr(output, "loss", None)
    return found if found is not None else output[0].float().square().mean()


def parallelize(model: PreTrainedModel, world_size: int, plan: str) -> PreTrainedModel:
    """The model on a mesh of all ranks by its own plan, as ``from_pretrained`` does it; with
    ``expert`` every rank has some of the experts, and of all else its part."""
    expert = plan == "expert"
    mesh = init_device_mesh("cpu", (world_size,), mesh_dim_names=("tp",))
    tensor = {} if model.tp_plan else {"tp_plan": {}}
    sizes = {"tp_size": world_size, **tensor, **({"ep_size": world_size} if expert else {})}
    tensors, experts, _ = model._resolve_parallel_plans(DistributedConfig(**sizes))
    if tensors:
        model = apply_tensor_parallelism(model, mesh, tensors)
    if expert:
        model = apply_expert_parallelism(model, mesh, mesh, experts, ep_implementation="all_reduce")
    return model
