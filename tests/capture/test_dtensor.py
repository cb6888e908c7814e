"""A small Llama on DTensor: tensor, sequence and data parallel, and what goes wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

from gg_datalog import capture, verify

from .programs import example, unmapped

RIGHT = {
    "tensor": (2, {"sequence_parallel": False}),
    "tensor, logits gathered": (2, {"sequence_parallel": False, "gather_logits": True}),
    "tensor and sequence": (2, {}),
    "tensor and sequence, eager": (2, {"mode": "eager"}),
    "four ranks, two layers": (4, {"layers": 2}),
    "data and tensor": (4, {"data": 2, "sequence_parallel": False}),
    "data, tensor and sequence": (4, {"data": 2}),
}
WHOLE_TENSORS = {"sequence_parallel": False, "gather_logits": True}
# mistake: the variant it is tried in, a code that names it, and whether the loss stays right
WRONG: dict[str, tuple[int, dict[str, Any], str, bool]] = {
    "missing-all-reduce": (2, WHOLE_TENSORS, "GG108", False),
    "shards-in-reverse-order": (4, WHOLE_TENSORS, "GG112", False),
    "norm-gradient-not-reduced": (2, {}, "GG119", True),
    "data-gradient-not-reduced": (4, {"data": 2, **WHOLE_TENSORS}, "GG119", True),
    "mean-of-means": (4, {"data": 2, **WHOLE_TENSORS}, "GG102", False),
}


@pytest.fixture(scope="module")
def model() -> Any:
    """The module that builds the programs."""
    return example("dtensor_llama")


@pytest.mark.exhaustive(
    "four ranks, two layers", "data and tensor", "tensor", "tensor, logits gathered"
)
@pytest.mark.parametrize("name", RIGHT)
def test_the_model_refines(name: str, model: Any) -> None:
    world_size, variant = RIGHT[name]
    pair = capture(**model.llama(**variant), world_size=world_size)
    result = verify(pair)
    assert result.refines, str(result)
    assert len(result.outputs) == 4 + 9 * variant.get("layers", 1)


@pytest.mark.exhaustive("mean-of-means", "shards-in-reverse-order", "data-gradient-not-reduced")
@pytest.mark.parametrize("bug", WRONG)
def test_a_mistake_is_found(bug: str, model: Any) -> None:
    world_size, variant, code, right = WRONG[bug]
    pair = capture(**model.llama(**variant, bug=bug), world_size=world_size)
    result = verify(pair)
    if result.verdict == "inconclusive":  # what is found is no proof of a mistake: numbers are
        result = verify(pair, confirm=120)
    assert result.verdict == "does-not-refine", str(result)
    assert code in {finding.code for finding in result.findings}, str(result)
    wrong = {name.partition("_")[0] for name in unmapped(result)}
    assert ("output" not in wrong) == right, str(result)


def test_only_the_gradient_of_the_head_is_not_summed(model: Any) -> None:
    variant = {"data": 2, **WHOLE_TENSORS, "bug": "data-gradient-not-reduced"}
    pair = capture(**model.llama(**variant), world_size=4)
    assert unmapped(verify(pair)) == {"grad_head.weight"}


def test_every_mistake_is_tried(model: Any) -> None:
    assert set(WRONG) == set(model.BUGS)
