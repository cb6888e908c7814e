"""TorchTitan's Llama 3 in its published size, parallelised by TorchTitan."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")
pytest.importorskip("torchtitan", reason="TorchTitan is not installed: pip install torchtitan")
pytest.importorskip("triton", reason="TorchTitan imports triton: pip install --no-deps triton")

from gg_datalog import capture, verify

from .programs import example, unmapped

RIGHT: dict[str, tuple[int, dict[str, Any]]] = {
    "tensor": (2, {"sequence_parallel": False}),
    "tensor and sequence": (2, {}),
    "tensor and sequence, eight ranks": (8, {}),
    "data, tensor and sequence": (4, {"data": 2}),
}
# mistake: a code that names it
WRONG = {"data-gradient-not-reduced": "GG119", "labels-of-one-replica": "GG103"}


@pytest.fixture(scope="module")
def model() -> Any:
    """The module that builds the programs."""
    return example("torchtitan_llama")


# Without sequence parallelism gradients stay sums of two open reductions through a norm.
UNREDUCED = pytest.mark.xfail(strict=True, reason="refused: open sums of two products pass a norm")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=UNREDUCED if n == "tensor" else ()) for n in RIGHT]
)
def test_the_model_refines(name: str, model: Any) -> None:
    world_size, variant = RIGHT[name]
    pair = capture(**model.llama3(**variant), world_size=world_size)
    result = verify(pair)
    assert result.refines, str(result)
    parameters = sum(one.kind == "parameter" for one in pair.records[0].inputs)
    assert len(result.outputs) == 1 + parameters


@pytest.mark.parametrize("bug", WRONG)
def test_a_mistake_is_found(bug: str, model: Any) -> None:
    result = verify(capture(**model.llama3(data=2, bug=bug), world_size=4))
    assert result.verdict == "does-not-refine", str(result)
    assert WRONG[bug] in {finding.code for finding in result.findings}, str(result)


def test_only_the_gradient_of_the_head_is_not_summed(model: Any) -> None:
    variant = {"data": 2, "bug": "data-gradient-not-reduced"}
    pair = capture(**model.llama3(**variant), world_size=4)
    assert unmapped(verify(pair)) == {"grad_model.lm_head.weight"}


def test_every_mistake_is_tried(model: Any) -> None:
    assert set(WRONG) == set(model.BUGS)
