"""Models of `transformers` in their published sizes, cut by the plans that they ship."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")
pytest.importorskip(
    "transformers.distributed.tensor_parallel",
    reason="transformers is not installed, or is older than its tensor parallelism with DTensor: "
    "pip install transformers==5.23.0",
)

from gg_datalog import capture, verify

from .programs import example, unmapped

RIGHT: dict[str, tuple[str, int, dict[str, Any]]] = {
    "Llama": ("llama", 2, {}),
    "Llama, eager": ("llama", 2, {"mode": "eager"}),
    "Llama, attention in parts, four ranks": ("llama", 4, {"attention": "eager"}),
    "Llama, two layers": ("llama", 2, {"layers": 2}),
    "Qwen3": ("qwen3", 2, {}),
    "Mixtral": ("mixtral", 2, {}),
    "Mixtral, weights per token": ("mixtral", 2, {"experts": "batched_mm"}),
    "Qwen3 with experts": ("qwen3_moe", 2, {}),
}
NORMS = {f"grad_model.layers.0.self_attn.{norm}_norm.weight" for norm in "qk"}
# mistake: a model with it, and a code that names it
WRONG: dict[str, tuple[str, int, str]] = {
    "missing-all-reduce": ("llama", 2, "GG108"),
    "norm-gradient-not-reduced": ("qwen3", 2, "GG119"),
    "packed-cut-as-plain": ("mixtral", 2, "GG117"),
    "shards-in-reverse-order": ("llama", 4, "GG112"),
}


@pytest.fixture(scope="module")
def model() -> Any:
    """The module that builds the programs."""
    return example("transformers_tp")


@pytest.mark.exhaustive(
    "Llama, attention in parts, four ranks",
    "Llama, two layers",
    "Mixtral, weights per token",
    "Qwen3",
    "Llama, eager",
    "Qwen3 with experts",
)
@pytest.mark.parametrize("name", RIGHT)
def test_a_model_refines(name: str, model: Any) -> None:
    function, world_size, variant = RIGHT[name]
    pair = capture(**getattr(model, function)(**variant), world_size=world_size)
    result = verify(pair)
    assert result.refines, str(result)
    parameters = sum(one.kind == "parameter" for one in pair.records[0].inputs)
    assert len(result.outputs) == 1 + parameters


@pytest.mark.exhaustive("shards-in-reverse-order", "packed-cut-as-plain")
@pytest.mark.parametrize("bug", WRONG)
def test_a_mistake_is_found(bug: str, model: Any) -> None:
    function, world_size, code = WRONG[bug]
    pair = capture(**getattr(model, function)(bug=bug), world_size=world_size)
    result = verify(pair)
    assert result.verdict != "refines", str(result)
    assert code in {finding.code for finding in result.findings}, str(result)


@pytest.mark.exhaustive("variant0")
@pytest.mark.parametrize("variant", [{"bug": "norm-gradient-not-reduced"}, {"mode": "dynamo"}])
def test_without_the_hook_the_gradients_of_norms_are_parts(
    variant: dict[str, str], model: Any
) -> None:
    """Dynamo does not see the hook: the verdict is on the program that torch.compile would run."""
    pair = capture(**model.qwen3(**variant), world_size=2)
    assert unmapped(verify(pair)) == NORMS


def test_every_mistake_is_tried(model: Any) -> None:
    assert set(WRONG) == set(model.BUGS)


def test_a_mistake_that_a_model_cannot_make_is_refused(model: Any) -> None:
    with pytest.raises(Exception, match="gate_up_proj"):
        capture(**model.llama(bug="packed-cut-as-plain"), world_size=2)
