"""Megatron-Core, captured on a CPU: its own layers, backward passes and gradient reductions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")
pytest.importorskip(
    "megatron.core", reason="Megatron-Core is not installed: pip install megatron-core einops"
)

from gg_datalog import capture, verify

from .programs import example, unmapped

SEQUENCE_PARALLEL = ("layernorm.weight", "layernorm.bias", "linear_proj.bias", "linear_fc2.bias")


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    """The module that builds the programs, with what stands in for CUDA."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = example("megatron_gpt")
        with module.stand_ins():
            yield module


def test_cross_entropy_over_a_split_vocabulary_refines(model: Any) -> None:
    result = verify(capture(**model.cross_entropy()))
    assert result.refines, str(result)


@pytest.mark.parametrize(
    "variant",
    [{}, {"sequence_parallel": True}, {"layers": 2, "sequence_parallel": True}],
    ids=["tensor", "tensor and sequence", "two layers"],
)
def test_gpt_refines(variant: dict[str, Any], model: Any) -> None:
    pair = capture(**model.gpt(**variant))
    result = verify(pair)
    assert result.refines, str(result)
    assert unmapped(result) == set()
    parameters = sum(one.kind == "parameter" for one in pair.records[0].inputs)
    assert len(result.outputs) == 1 + parameters


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_gated_layers_and_shared_heads_refine(sequence_parallel: bool, model: Any) -> None:
    arguments = model.gpt(gated=True, groups=2, sequence_parallel=sequence_parallel)
    result = verify(capture(**arguments))
    assert result.refines, str(result)


def test_without_its_last_step_gradients_of_a_cut_sequence_are_parts(model: Any) -> None:
    arguments = model.gpt(sequence_parallel=True) | {"step": None}
    pair = capture(**arguments)
    result = verify(pair)
    assert result.verdict == "does-not-refine"
    lost = unmapped(result)
    names = {name for name, _ in pair.records[0].outputs}
    assert lost == {name for name in names if name.endswith(SEQUENCE_PARALLEL)}
