"""Programs that ask for a backend: groups of gloo and NCCL, and their own `init_process_group`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
from torch import nn

from gg_datalog import capture, verify
from gg_datalog.foundation.errors import InputError

WIDTH = 8


class Row(nn.Module):
    """A layer whose parts are added up over a group that it is given."""

    def __init__(self, make: Callable[[int, int], Any], rank: int, world: int) -> None:
        super().__init__()
        self.group = make(rank, world) if world > 1 else None
        self.layer = nn.Linear(WIDTH // world, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if self.group is not None:
            dist.all_reduce(y, group=self.group)
        return y


def verified(make: Callable[[int, int], Any], world: int = 2) -> Any:
    def inputs(rank: int, size: int) -> tuple[torch.Tensor]:
        return (torch.zeros(3, WIDTH // size),)

    pair = capture(
        lambda rank, size: Row(make, rank, size), inputs, world_size=world, mode="eager", jobs=0
    )
    return verify(pair, confirm=0, repairs=False)


@pytest.mark.parametrize("backend", ["gloo", "nccl", "cpu:gloo,cuda:nccl", None])
def test_groups_of_a_backend(backend: str | None) -> None:
    def everyone(rank: int, world: int) -> Any:
        group = dist.new_group(list(range(world)), backend=backend)
        assert dist.get_backend(group) == (backend or "gloo")
        return group

    assert verified(everyone).refines


def test_a_group_of_a_backend_with_some_of_the_ranks() -> None:
    """As a group of the usual one has: nothing is added up over the others."""

    def halves(rank: int, world: int) -> Any:
        groups = [dist.new_group([first, first + 1], backend="gloo") for first in (0, 2)]
        return groups[rank // 2]

    result = verified(halves, world=4)
    assert result.verdict == "does-not-refine"


def test_the_backend_of_all_ranks() -> None:
    def same(rank: int, world: int) -> Any:
        assert dist.get_backend() == "gloo"
        return dist.new_group(list(range(world)), backend=dist.get_backend())

    assert verified(same).refines
    assert not dist.is_initialized()


def test_a_program_that_starts_itself() -> None:
    def started(rank: int, world: int) -> Any:
        dist.init_process_group("nccl", rank=rank, world_size=world, init_method="tcp://host:1")
        return dist.group.WORLD

    assert verified(started).refines


def test_a_program_that_starts_itself_as_another_rank() -> None:
    def started(rank: int, world: int) -> Any:
        dist.init_process_group("gloo", rank=rank, world_size=world + 1)
        return dist.group.WORLD

    with pytest.raises(InputError, match="world_size 3, captured as 2"):
        verified(started)
