"""Megatron-Core's ``sharded_state_dict``, with stand-ins for what it returns: no Megatron is needed."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch

from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.inputs import program_inputs
from gg_datalog.tracing.megatron import STATE


def shard(local: list[int], whole: list[int], offset: list[int], layers: int = 0) -> Any:
    """A ShardedTensor; the first ``layers`` axes of whole and offset number layers."""
    return SimpleNamespace(
        local_shape=tuple(local),
        global_shape=tuple(whole),
        global_offset=tuple(offset),
        prepend_axis_num=layers,
    )


class Factory:
    """A ShardedTensorFactory."""

    def __init__(self, *shards: Any) -> None:
        self.shards = shards

    def build(self) -> list[Any]:
        return list(self.shards)


class Model(torch.nn.Module):
    """Parameters by shape, and what the state dict says of them."""

    def __init__(self, shapes: dict[str, list[int]], said: Any) -> None:
        super().__init__()
        self.said = said
        for name, shape in shapes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.empty(shape)))

    def sharded_state_dict(self, metadata: Any = None) -> Any:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 of 2 tensor-parallel ranks."""
    stand_in: Any = SimpleNamespace(
        model_parallel_is_initialized=lambda: True,
        get_tensor_model_parallel_world_size=lambda: 2,
        get_tensor_model_parallel_rank=lambda: 1,
        get_data_parallel_group=lambda **_: None,
    )
    monkeypatch.setitem(sys.modules, STATE, stand_in)


def pieces(module: torch.nn.Module, name: str) -> tuple[Any, Any, str]:
    """Global shape, pieces and what says so."""
    (one,) = (i for i in program_inputs(module, (), {}) if i.name == name)
    return one.shape, one.pieces, one.because


def test_a_shard_of_one_layer_of_many() -> None:
    model = Model({"w": [4, 3]}, {"w": shard([4, 3], [5, 8, 3], [2, 4, 0], layers=1)})
    shape, found, because = pieces(model, "w")
    assert (shape, found) == ((8, 3), [([[4, 8], [0, 3]], [[0, 4], [0, 3]])])
    assert "sharded_state_dict" in because


def test_fused_halves_lie_one_after_the_other() -> None:
    halves = Factory(shard([2, 3], [8, 3], [2, 0]), shard([2, 3], [8, 3], [6, 0]))
    _, found, _ = pieces(Model({"w": [4, 3]}, {"w": halves}), "w")
    assert found == [([[2, 4], [0, 3]], [[0, 2], [0, 3]]), ([[6, 8], [0, 3]], [[2, 4], [0, 3]])]


def test_it_is_found_inside_of_a_program() -> None:
    program = torch.nn.Module()
    program.inner = torch.nn.Module()
    program.inner.model = Model({"w": [4]}, {"w": shard([4], [8], [4])})
    assert pieces(program, "inner.model.w")[1] == [([[4, 8]], [[0, 4]])]


@pytest.mark.parametrize(
    "said",
    [
        RuntimeError("not in this release"),
        None,
        {},
        {"w": SimpleNamespace(data=1)},
        {"w": shard([3], [8], [4])},
        {"w": Factory(shard([2, 1], [8, 1], [0, 0]))},
    ],
)
def test_what_says_nothing_of_the_tensor_is_left_alone(said: Any) -> None:
    assert pieces(Model({"w": [4]}, said), "w") == ((4,), None, "")


def attributed(said: Any, **more: Any) -> Model:
    """A parameter with Megatron's attributes, cut along dimension 0."""
    model = Model({"w": [4, 3]}, said)
    attributes = {"tensor_model_parallel": True, "partition_dim": 0, "partition_stride": 1}
    for key, value in (attributes | more).items():
        setattr(model.w, key, value)
    return model


def test_both_agree() -> None:
    model = attributed({"w": shard([4, 3], [8, 3], [4, 0])})
    assert pieces(model, "w")[0] == (8, 3)


def test_a_contradiction_names_both() -> None:
    halves = Factory(shard([2, 3], [8, 3], [2, 0]), shard([2, 3], [8, 3], [6, 0]))
    with pytest.raises(InputError) as caught:
        pieces(attributed({"w": halves}), "w")
    text = str(caught.value)
    assert "attributes" in text and "sharded_state_dict" in text and "relations.toml" in text


def test_experts_are_cut_over_another_group_than_the_attributes_tell() -> None:
    model = attributed({"w": shard([4, 3], [16, 3], [12, 0])}, allreduce=False)
    assert pieces(model, "w")[1] == [([[12, 16], [0, 3]], [[0, 4], [0, 3]])]
