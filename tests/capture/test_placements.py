"""Which part of a global tensor a rank holds, against torch's own cutting of real numbers."""

from __future__ import annotations

import sys
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.pieces import boxes, runs
from gg_datalog.tracing.placements import placed
from gg_datalog.tracing.world import rank_of


def cut(whole: torch.Tensor, placements: Any, mesh: torch.Tensor, rank: int) -> torch.Tensor:
    """torch's splitting of the numbers themselves, one dimension of the mesh after the other."""
    coordinate = [int(c) for c in (mesh == rank).nonzero()[0]]
    for placement, size, place in zip(placements, mesh.shape, coordinate, strict=True):
        if not placement.is_replicate():
            parts, _ = placement._split_tensor(whole, size, with_padding=False, contiguous=True)
            whole = parts[place]
    return whole


def assembled(pieces: Any, whole: torch.Tensor, local: torch.Size) -> torch.Tensor:
    """What the pieces say of the local tensor."""
    made = torch.full(local, -1)
    for ours, theirs in pieces:
        into = tuple(slice(*b) for b in theirs)
        assert bool((made[into] == -1).all()), "two pieces say something of one element"
        made[into] = whole[tuple(slice(*b) for b in ours)]
    return made


def check(shape: tuple[int, ...], sizes: tuple[int, ...], placements: list[Placement]) -> None:
    """Every rank's pieces are what torch cuts."""
    world = prod(sizes)
    for rank in range(world):
        with rank_of(rank, world):
            mesh = init_device_mesh("cpu", sizes)
            whole = torch.arange(prod(shape)).reshape(shape)
            local = cut(whole, placements, mesh.mesh, rank)
            tensor = DTensor.from_local(
                local, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
            )
            found, pieces, because, names = placed(tensor, "w")
            assert pieces is not None
            assert torch.equal(assembled(pieces, whole, local.shape), local), (rank, pieces)
            assert (found, because) == (shape, "DTensor placements")
            assert names == [str(p) for p in placements]


S, R = Shard, Replicate
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], list[Placement]]] = {
    "a replica": ((4, 3), (2,), [R()]),
    "rows": ((4, 3), (2,), [S(0)]),
    "columns": ((4, 6), (3,), [S(1)]),
    "uneven": ((7, 2), (3,), [S(0)]),
    "an empty shard": ((3, 2), (4,), [S(0)]),
    "more ranks than positions": ((1, 2), (3,), [S(0)]),
    "one rank": ((4, 3), (1,), [S(0)]),
    "a vector": ((5,), (2,), [S(0)]),
    "a scalar": ((), (2,), [R()]),
    "two axes, two dimensions": ((4, 6), (2, 3), [S(0), S(1)]),
    "two axes, the other way": ((6, 4), (2, 3), [S(1), S(0)]),
    "the inner axis alone": ((4, 6), (2, 2), [R(), S(0)]),
    "the outer axis alone": ((4, 6), (2, 2), [S(0), R()]),
    "both axes on one dimension": ((12, 2), (2, 3), [S(0), S(0)]),
    "both axes on one dimension, uneven": ((7, 2), (2, 2), [S(0), S(0)]),
    "both axes on one dimension, with empty shards": ((3, 2), (2, 3), [S(0), S(0)]),
    "three axes": ((4, 4, 4), (2, 2, 2), [S(2), S(0), S(1)]),
    "three axes, two on one dimension": ((8, 4), (2, 2, 2), [S(0), S(1), S(0)]),
    "three axes on one dimension, uneven": ((11, 2), (2, 2, 2), [S(0), S(0), S(0)]),
    "strided": ((8, 2), (2, 2), [_StridedShard(0, split_factor=2), S(0)]),
    "strided, uneven": ((7, 2), (2, 2), [_StridedShard(0, split_factor=2), S(0)]),
    "strided alone": ((12, 2), (2,), [_StridedShard(0, split_factor=3)]),
    "strided on the second dimension": ((2, 12), (2, 2), [R(), _StridedShard(1, split_factor=2)]),
    "strided over three axes": (
        (16, 2), (2, 2, 2), [_StridedShard(0, split_factor=4), _StridedShard(0, split_factor=2), S(0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_rank_holds(name: str) -> None:
    check(*CASES[name])


EACH: list[Placement] = [R(), S(0), S(1), _StridedShard(0, split_factor=2)]


@pytest.mark.parametrize("shape", [(4, 6), (5, 3)])
def test_any_two_placements(shape: tuple[int, int]) -> None:
    for placements in product(EACH, EACH):
        check(shape, (2, 2), list(placements))


def test_a_mesh_of_other_ranks() -> None:
    """Ranks in another order, and a rank that the mesh leaves out."""
    from torch.distributed.device_mesh import DeviceMesh

    whole = torch.arange(8).reshape(4, 2)
    for rank, rows in {0: None, 1: (2, 4), 2: (0, 2)}.items():
        with rank_of(rank, 3):
            mesh = DeviceMesh("cpu", [2, 1])
            local = whole[slice(*rows)] if rows else whole[:0, :0]
            tensor = DTensor(
                local,
                _spec(mesh, [S(0)], whole),
                requires_grad=False,
            )
            _, pieces, _, _ = placed(tensor, "w")
            assert pieces == ([([list(rows), [0, 2]], [[0, 2], [0, 2]])] if rows else [])


def _spec(mesh: Any, placements: Any, whole: torch.Tensor) -> Any:
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    return DTensorSpec(
        mesh, tuple(placements), TensorMeta(whole.shape, whole.stride(), whole.dtype)
    )


def test_a_sum_that_is_not_done_is_no_input() -> None:
    with rank_of(0, 2):
        mesh = init_device_mesh("cpu", (2,))
        tensor = DTensor.from_local(torch.ones(2), mesh, [Partial()], run_check=False)
        with pytest.raises(InputError, match="`w` is given as Partial") as found:
            placed(tensor, "w")
        assert found.value.hint


def test_a_local_tensor_of_another_size() -> None:
    """from_local takes the global shape to be the local one times the ranks."""
    with rank_of(0, 2):
        mesh = init_device_mesh("cpu", (2,))
        tensor = DTensor.from_local(
            torch.ones(2, 2), mesh, [S(0)], run_check=False, shape=torch.Size([5, 2]), stride=(2, 1)
        )
        with pytest.raises(InputError, match=r"which is \[3, 2\] here, .* is \[2, 2\]") as found:
            placed(tensor, "w")
        assert found.value.hint


def test_a_plain_tensor_says_nothing() -> None:
    assert placed(torch.ones(2, 3), "w") == ((2, 3), None, "", [])


# ---- Megatron-Core
@pytest.fixture
def tensor_parallel(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plays Megatron-Core's parallel state: call it with size and rank."""

    def play(size: int, rank: int, there: bool = True) -> None:
        state = SimpleNamespace(
            model_parallel_is_initialized=lambda: there,
            get_tensor_model_parallel_world_size=lambda: size,
            get_tensor_model_parallel_rank=lambda: rank,
        )
        monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", state)

    return play


def megatron(local: torch.Tensor, dim: int, stride: int = 1, cut: bool = True) -> torch.Tensor:
    """A parameter with Megatron-Core's attributes."""
    for name, value in {
        "tensor_model_parallel": cut, "partition_dim": dim, "partition_stride": stride,
    }.items():  # fmt: skip
        setattr(local, name, value)
    return local


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_attributes_of_megatron(dim: int, stride: int, tensor_parallel: Any) -> None:
    """A weight of `stride` fused parts, each cut over the ranks."""
    size = 2
    whole = torch.arange(12 * 12).reshape(12, 12)
    for rank in range(size):
        tensor_parallel(size, rank)
        blocks = [block.chunk(size, dim)[rank] for block in whole.chunk(stride, dim)]
        local = torch.cat(blocks, dim)
        shape, pieces, because, names = placed(megatron(local.clone(), dim, stride), "w")
        assert pieces is not None and len(pieces) == stride
        assert torch.equal(assembled(pieces, whole, local.shape), local)
        assert shape == (12, 12) and "Megatron" in because
        assert names == [f"Shard({dim})" if stride == 1 else f"Shard({dim}) in {stride} parts"]


def test_what_megatron_does_not_cut(tensor_parallel: Any) -> None:
    whole = [[0, 4], [0, 6]]
    for size, is_cut in ((2, False), (1, True)):
        tensor_parallel(size, 0)
        shape, pieces, _, names = placed(megatron(torch.ones(4, 6), 0, cut=is_cut), "w")
        assert (shape, pieces, names) == ((4, 6), [(whole, whole)], ["Replicate()"])


def test_megatron_without_its_groups(tensor_parallel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor_parallel(2, 1, there=False)
    assert placed(megatron(torch.ones(4, 6), 0), "w")[0] == (4, 6)
    monkeypatch.delitem(sys.modules, "megatron.core.parallel_state")
    assert placed(megatron(torch.ones(4, 6), 0), "w")[0] == (4, 6)


def test_a_stride_that_does_not_divide(tensor_parallel: Any) -> None:
    tensor_parallel(2, 0)
    with pytest.raises(InputError, match=r"partition_stride 2, which does not divide 5") as found:
        placed(megatron(torch.ones(5, 6), 0, 2), "w")
    assert found.value.hint


# ---- positions to boxes
def test_runs_and_boxes() -> None:
    assert runs([]) == []
    assert runs([4, 5, 0, 1, 2, 9]) == [(4, 0, 2), (0, 2, 3), (9, 5, 1)]
    assert boxes([]) == [([], [])]
    assert boxes([[(0, 0, 2)], []]) == []
    assert boxes([[(4, 0, 2), (0, 2, 1)], [(1, 0, 3)]]) == [
        ([[4, 6], [1, 4]], [[0, 2], [0, 3]]),
        ([[0, 1], [1, 4]], [[2, 3], [0, 3]]),
    ]


def test_no_process_group_is_left_behind() -> None:
    assert not dist.is_initialized()
