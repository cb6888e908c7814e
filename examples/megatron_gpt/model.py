"""Megatron-Core on a CPU: vocabulary-parallel cross entropy, and GPT with tensor parallelism.

    from gg_datalog import capture, verify

    with stand_ins():
        print(verify(capture(**gpt(sequence_parallel=True))))

The layers, their backward passes and `finalize_model_grads` are Megatron-Core's own. What it wants
of a GPU, and gets nothing from in a capture, has stand-ins: see :func:`stand_ins`. Tested with
megatron-core 0.16.1 and torch 2.13.0 (CPU), Python 3.11: `pip install megatron-core einops`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from torch import nn

SEQ, BATCH, HIDDEN, HEADS, FFN, VOCAB = 8, 2, 16, 4, 24, 32


class RngTracker:
    """Stands in for the tracker of the states of CUDA's generators: nothing draws numbers here."""

    def fork(self, name: str = "") -> Any:
        """The state of one name, for a while."""
        return nullcontext()

    def is_initialized(self) -> bool:
        """It needs no states."""
        return True


class Norm(nn.LayerNorm):
    """Layer norm that says whether it sees a share of the sequence.

    Those of Apex and Transformer Engine say so; Megatron-Core refuses torch's own with sequence
    parallelism, because it does not.
    """

    def __init__(
        self, config: TransformerConfig, hidden_size: int, eps: float = 1e-5, **_: Any
    ) -> None:
        super().__init__(hidden_size, eps)
        for parameter in self.parameters():
            parameter.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]


def causal_mask(size: int) -> torch.Tensor:
    """Megatron-Core's own, which asks for the device by name."""
    return torch.triu(torch.ones(size, size), diagonal=1).bool()


@contextmanager
def stand_ins() -> Iterator[None]:
    """What Megatron-Core wants of CUDA, on a CPU; no operator of the model is replaced."""
    random = "megatron.core.tensor_parallel.random"
    patches = {
        "torch.cuda.current_device": lambda: "cpu",
        "torch.cuda.synchronize": lambda *_: None,
        "megatron.core.fusions.fused_softmax.get_default_causal_mask": causal_mask,
        f"{random}._CUDA_RNG_STATE_TRACKER": RngTracker(),
        f"{random}._CUDA_RNG_STATE_TRACKER_INITIALIZED": True,
        f"{random}._get_all_rng_states": lambda: (),
        f"{random}._set_all_rng_states": lambda *_: None,
    }
    with ExitStack() as stack:
        for name, value in patches.items():
            stack.enter_context(patch(name, value))
        yield


def start(world_size: int) -> None:
    """The groups of Megatron-Core: all ranks are tensor parallel."""
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=world_size, create_gloo_process_groups=False
    )


@dataclass(frozen=True)
class Variant:
    """What is built: ``gated`` is SwiGLU, ``groups`` the number of key/value heads."""

    sequence_parallel: bool = False
    gated: bool = False
    groups: int = HEADS
    layers: int = 1

    def config(self, world_size: int) -> TransformerConfig:
        """Without dropout and without fused kernels."""
        return TransformerConfig(
            num_layers=self.layers,
            hidden_size=HIDDEN,
            ffn_hidden_size=FFN,
            num_attention_heads=HEADS,
            num_query_groups=self.groups,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            gated_linear_unit=self.gated,
            activation_func=nn.functional.silu if self.gated else nn.functional.gelu,
            add_bias_linear=not self.gated,
            bias_activation_fusion=False,
            bias_dropout_fusion=False,
            masked_softmax_fusion=False,
            gradient_accumulation_fusion=False,
            use_cpu_initialization=True,
            tensor_model_parallel_size=world_size,
            sequence_parallel=self.sequence_parallel and world_size > 1,
        )

    def build(self, rank: int, world_size: int) -> nn.Module:
        """Megatron-Core's GPT as one rank builds it."""
        start(world_size)
        layer = get_gpt_layer_local_spec()
        layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
        return GPTModel(
            config=self.config(world_size),
            transformer_layer_spec=TransformerBlockSubmodules([layer] * self.layers, Norm),
            vocab_size=VOCAB,
            max_sequence_length=SEQ,
        )


def gpt_inputs(rank: int, world_size: int) -> dict[str, torch.Tensor]:
    """Every rank gets the whole batch."""
    tokens = torch.zeros(BATCH, SEQ, dtype=torch.long)
    return {
        "input_ids": tokens,
        "position_ids": torch.zeros(BATCH, SEQ, dtype=torch.long),
        "attention_mask": torch.zeros(1, 1, SEQ, SEQ, dtype=torch.bool),
        "labels": torch.zeros(BATCH, SEQ, dtype=torch.long),
    }


def mean_loss(output: torch.Tensor, **_: torch.Tensor) -> torch.Tensor:
    """Of the losses per token."""
    return output.mean()


def finalize(module: nn.Module) -> None:
    """Megatron-Core's own step after backward, on a model chunk without its wrapper: there is one
    data-parallel rank, and gradients are not kept in a buffer."""
    chunk = SimpleNamespace(
        module=module,
        ddp_config=DistributedDataParallelConfig(),
        finish_grad_sync=lambda force_all_reduce=False: None,
    )
    finalize_model_grads([chunk])


def gpt(world_size: int = 2, **variant: Any) -> dict[str, Any]:
    """What to call `gg_datalog.capture` with."""
    return {
        "build": Variant(**variant).build,
        "make_inputs": gpt_inputs,
        "world_size": world_size,
        "mode": "eager",
        "backward": True,
        "loss": mean_loss,
        "step": finalize,
    }


class Head(nn.Module):
    """The output layer, split along the vocabulary, and the cross entropy over it."""

    def __init__(self, world_size: int) -> None:
        super().__init__()
        self.output = tensor_parallel.ColumnParallelLinear(
            HIDDEN,
            VOCAB,
            config=Variant().config(world_size),
            init_method=nn.init.zeros_,
            bias=False,
            gather_output=False,
        )

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits, _ = self.output(hidden)
        return tensor_parallel.vocab_parallel_cross_entropy(logits, labels).mean()


def build_head(rank: int, world_size: int) -> nn.Module:
    """The head as one rank builds it."""
    start(world_size)
    return Head(world_size)


def head_inputs(rank: int, world_size: int) -> tuple[torch.Tensor, ...]:
    """Activations and targets, the same on every rank."""
    return torch.zeros(SEQ, BATCH, HIDDEN), torch.zeros(SEQ, BATCH, dtype=torch.long)


def cross_entropy(world_size: int = 2) -> dict[str, Any]:
    """What to call `gg_datalog.capture` with."""
    return {
        "build": build_head,
        "make_inputs": head_inputs,
        "world_size": world_size,
        "mode": "eager",
        "backward": True,
    }
