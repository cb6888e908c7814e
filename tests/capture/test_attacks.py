"""Programs that are wrong, and that a careless capture would make look right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from gg_datalog import capture, verify
from gg_datalog.foundation.errors import InputError


class Program(nn.Module):
    """A function as a module; ``ranks`` tells which program it is."""

    def __init__(self, function: Callable[..., Any], rank: int, ranks: int) -> None:
        super().__init__()
        self.function, self.rank, self.ranks = function, rank, ranks
        self.state = torch.zeros(4)
        self.p = nn.Parameter(torch.zeros(4))
        if ranks > 1:
            self.mesh = init_device_mesh("cpu", (2,))
            self.groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(self, *args)


def verdict(function: Callable[..., Any], inputs: int = 1, **more: Any) -> str:
    """What is said of a function that every rank runs on whole inputs."""
    pair = capture(
        lambda rank, ranks: Program(function, rank, ranks),
        lambda: tuple(torch.zeros(4) for _ in range(inputs)),
        world_size=2,
        mode="eager",
        jobs=0,
        **more,
    )
    found = verify(pair).verdict
    return verify(pair, confirm=60).verdict if found == "inconclusive" else found


@pytest.mark.parametrize("swapped", [False, True])
def test_groups_with_the_same_members_are_not_mixed_up(swapped: bool) -> None:
    def both(self: Program, x: torch.Tensor, y: torch.Tensor) -> Any:
        a, b = x * 1.0, y * 1.0
        if self.ranks == 1:
            return {"a": a + a, "b": b * 2}
        g, h = self.groups[::-1] if swapped and self.rank else self.groups
        works = [dist.all_reduce(t, group=o, async_op=True) for t, o in ((a, g), (b, h))]
        for work in works:
            work.wait()
        return {"a": a, "b": b}

    assert (verdict(both, 2) == "refines") == (not swapped)


def test_the_parts_of_a_norm_are_not_added_up() -> None:
    def norm(self: Program, x: torch.Tensor) -> torch.Tensor:
        if self.ranks == 1:
            return x[0:2].norm() + x[2:4].norm()
        local = x[2 * self.rank : 2 * self.rank + 2]
        return torch.linalg.vector_norm(DTensor.from_local(local, self.mesh, [Shard(0)]))

    with pytest.raises(InputError, match="reduction is not known"):
        verdict(norm)


def test_two_results_of_one_name_are_refused() -> None:
    def named(self: Program, x: torch.Tensor) -> Any:
        y = x.exp()
        return {"a": {"b": y if self.ranks == 1 else x.sin()}, "a.b": y}

    with pytest.raises(InputError, match=r"two results would be called `output_a\.b`"):
        verdict(named)


def test_writes_into_attributes_are_results() -> None:
    def counted(self: Program, x: torch.Tensor) -> torch.Tensor:
        self.state.add_(x if self.ranks == 1 else x.sin())
        return x.exp()

    assert verdict(counted) == "does-not-refine"


def test_writes_into_arguments_are_results() -> None:
    def written(self: Program, x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        x.add_(1 if self.ranks == 1 else 2)
        return y

    assert verdict(written) == "does-not-refine"


def test_a_parameter_that_a_step_replaces_is_a_result() -> None:
    def loss(self: Program, x: torch.Tensor) -> torch.Tensor:
        return (self.p * x).sum()

    def stepped(rate: float) -> Callable[[Any], None]:
        def step(module: Any) -> None:
            module.p = nn.Parameter(module.p.detach() - rate * module.p.grad)

        return step

    right = {"backward": True, "step": stepped(0.1), "sequential_step": stepped(0.1)}
    assert verdict(loss, **right) == "refines"
    assert verdict(loss, **(right | {"step": stepped(0.7)})) == "does-not-refine"
