"""Arguments are paired as they are passed: by place, or by keyword."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
from torch import nn

from gg_datalog import capture, verify


class Loss(nn.Module):
    """What is to be computed."""

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (x - 2 * target).sum(0)


class Swapped(nn.Module):
    """The same names, at each other's places."""

    def forward(self, target: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (x - 2 * target).sum(0)


class Renamed(nn.Module):
    """Other names at the same places."""

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (hidden - 2 * labels).sum(0)


class More(nn.Module):
    """Another argument before them."""

    def forward(self, unused: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (x - 2 * target).sum(0)


X = (torch.empty(4, 6), torch.empty(4, 6))


@pytest.mark.parametrize("mode", ["eager", "dynamo"])
@pytest.mark.parametrize(
    ("ranks", "args", "kwargs", "refines"),
    [
        (Loss, X, {}, True),
        (Renamed, X, {}, True),
        (Swapped, X, {}, False),
        (Swapped, (), {"x": X[0], "target": X[1]}, True),
        (More, (torch.empty(3), *X), {}, True),
    ],
)
def test_pairs(
    mode: str,
    ranks: type[nn.Module],
    args: tuple[torch.Tensor, ...],
    kwargs: dict[str, torch.Tensor],
    refines: bool,
) -> None:
    def inputs(rank: int, world_size: int) -> object:
        if world_size == 1:
            return ((), dict(zip(("x", "target"), X, strict=True))) if kwargs else X
        return ((), kwargs) if kwargs else args

    pair = capture(
        lambda rank, world_size: Loss() if world_size == 1 else ranks(),
        inputs,
        world_size=2,
        mode=mode,
    )
    assert verify(pair, confirm=0, repairs=False).refines == refines
