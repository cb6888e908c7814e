"""The plan that audits every configuration of `transformers` with a parallel plan."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")
pytest.importorskip(
    "transformers.distributed.expert_parallel",
    reason="transformers is not installed, or is older than its plans: pip install transformers==5.23.0",
)

from gg_datalog import capture, verify

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "audits"


@pytest.fixture(scope="module")
def plans() -> ModuleType:
    """The module that builds the programs."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("plans", FOLDER / "plans.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_plan_names_every_configuration(plans: ModuleType) -> None:
    document = tomllib.loads((FOLDER / "transformers.toml").read_text())
    tensor, expert = (entry["matrix"]["model"] for entry in document["entry"])
    assert tensor == plans.names("tensor") and expert == plans.names("expert")
    assert len(tensor) > 100 and "llama" in tensor and "llama" not in expert


def test_one_layer_of_each_kind_stays(plans: ModuleType) -> None:
    lists = {"layer_types": list("aabaaa"), "heads": [4, 4, 2, 4, 4, 4], "numbered": list(range(6))}
    found = plans.fewer_layers({"num_hidden_layers": 6, **lists})
    # a list with more values than there are kinds numbers the layers
    short = {"layer_types": ["a", "b"], "heads": [4, 2], "numbered": [0, 1]}
    assert found == {"num_hidden_layers": 2, **short}
    found = plans.fewer_layers({"num_hidden_layers": 8, "first_k_dense_replace": 3})
    assert found == {"num_hidden_layers": 2, "first_k_dense_replace": 1}
    assert plans.fewer_layers({"num_hidden_layers": 1}) == {}


def test_every_configuration_is_shortened(plans: ModuleType) -> None:
    for name in plans.names():
        assert vars(plans.configuration(name)).get("num_hidden_layers", 0) <= 8, name


def test_weights_that_are_tied_are_cut_before(plans: ModuleType) -> None:
    """As `from_pretrained` does it: the output layer is the table of tokens."""
    pair = capture(**plans.pair("cohere"), world_size=2)
    result = verify(pair, repairs=False)
    assert result.refines, str(result)
    assert not any("lm_head" in output.name for output in result.outputs)
