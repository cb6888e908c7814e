"""Weights that ranks keep flattened: told as rows, in the order of the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
import torch.nn.functional as F

from gg_datalog import capture, verify
from gg_datalog.tracing.flattened import rows_of

BATCH, WIDE, NARROW = 8, 8, 4


@pytest.mark.parametrize(
    ("local", "shape", "rows"),
    [
        ([16], [8, 4], [4, 4]),
        ([32], [8, 4], [8, 4]),
        ([2], [8, 4], [1, 2]),
        ([12], [5, 4], [3, 4]),
        ([24], [4, 3, 8], [1, 3, 8]),
        ([16], [4, 3, 8], [1, 2, 8]),
        ([6], [8, 4], None),  # a row and a half
        ([36], [8, 4], None),  # more than there is
        ([4], [8], None),  # nothing is flattened
        ([4, 4], [8, 4], None),
        (["u0"], [8, 4], None),
        ([4], ["u0", 4], None),
    ],
)
def test_rows(local: Sequence[int | str], shape: Sequence[int | str], rows: Any) -> None:
    assert rows_of(local, shape) == rows


class Gathered(torch.autograd.Function):
    """All of a weight of which each rank keeps a share; its gradient is averaged, and cut."""

    @staticmethod
    def forward(ctx: Any, share: Any, shape: Sequence[int], bug: str) -> Any:
        ctx.count, ctx.bug = share.numel(), bug
        ranks = dist.get_world_size()
        full = share.new_empty(share.numel() * ranks)
        dist.all_gather_into_tensor(full, share)
        if bug == "order":
            full = full.view(ranks, -1).flip(0).reshape(-1)
        return full.view(tuple(shape)[::-1]).t() if bug == "columns" else full.view(shape)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        given = gradient.t() if ctx.bug in ("columns", "gradient columns") else gradient
        out = given.new_empty(ctx.count)
        dist.reduce_scatter_tensor(out, given.reshape(-1))
        return out if ctx.bug == "sum" else out / dist.get_world_size(), None, None


class Net(torch.nn.Module):
    def __init__(self, ranks: int, bug: str, step: bool) -> None:
        super().__init__()
        self.ranks, self.bug, self.step = ranks, bug, step
        self.up, self.down = (
            torch.nn.Parameter(torch.empty(shape if ranks == 1 else WIDE * NARROW // ranks))
            for shape in ((WIDE, NARROW), (NARROW, WIDE))
        )

    def forward(self, x: Any, target: Any) -> Any:
        up, down = self.up, self.down
        if self.ranks > 1:
            up = Gathered.apply(up, (WIDE, NARROW), self.bug)
            down = Gathered.apply(down, (NARROW, WIDE), "")
        loss = F.mse_loss(F.linear(F.silu(F.linear(x, up)), down), target)
        loss.backward()
        if self.step:
            with torch.no_grad():
                for weight in (self.up, self.down):
                    weight.sub_(0.1 * weight.grad)
                    weight.grad = None
        mean = loss.detach().clone()
        if self.ranks > 1:
            dist.all_reduce(mean)
        return mean / self.ranks


def judged(ranks: int, bug: str = "", step: bool = False) -> Any:
    return verify(
        capture(
            build=lambda _, n: Net(n, bug, step),
            make_inputs=lambda _, n: (torch.randn(BATCH // n, NARROW),) * 2,
            world_size=ranks,
            mode="eager",
            backward=not step,
        )
    )


@pytest.mark.parametrize(("ranks", "step"), [(2, False), (2, True), (8, False)])
def test_shares_of_weights(ranks: int, step: bool) -> None:
    """Of 8 ranks each has half a row of the second weight."""
    found = judged(ranks, step=step)
    assert found.verdict == "refines"
    said = [row.text for row in found.assumptions if "flattened" in row.text]
    assert len(said) == 1 and f"one of {ranks} shares of all elements" in said[0]
    assert "`up`" in said[0] and "`down`" in said[0]


@pytest.mark.parametrize("bug", ["order", "columns", "gradient columns", "sum"])
def test_shares_that_are_put_together_wrongly(bug: str) -> None:
    assert judged(2, bug).verdict != "refines"


def test_a_new_value_that_is_wrong() -> None:
    found = judged(2, "sum", step=True)
    assert found.verdict == "does-not-refine"
    assert found.findings[0].code == "GG107"
