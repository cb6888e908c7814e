"""Weights that ranks keep flattened: told as rows, in the order of the ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


# ---- what a rank does with a share ---------------------------------------------------------------
class Flat(torch.nn.Module):
    """Weights `w` and `u`, flattened on the ranks, and what is done with them."""

    def __init__(self, ranks: int, rank: int, does: Callable[..., Any], whole: bool) -> None:
        super().__init__()
        self.does, self.ranks, self.rank = does, ranks, rank
        count = WIDE * NARROW // (1 if whole else ranks)
        for name in ("w", "u"):
            shape = (WIDE, NARROW) if ranks == 1 else (count,)
            self.register_parameter(name, torch.nn.Parameter(torch.empty(shape)))

    def forward(self, x: Any) -> Any:
        return self.does(self, x)


def done(does: Callable[..., Any], whole: bool = False, **options: Any) -> str:
    found = verify(
        capture(
            build=lambda rank, ranks: Flat(ranks, rank, does, whole),
            make_inputs=lambda rank, ranks: (torch.ones(BATCH // ranks, NARROW),),
            world_size=2,
            mode="eager",
            **options,
        )
    )
    return str(found.verdict)


def doubled(model: Flat, x: Any) -> Any:
    with torch.no_grad():
        model.w.mul_(2)
    return x * 2


def replaced(*shape: int) -> Callable[..., Any]:
    def does(model: Flat, x: Any) -> Any:
        made = model.w.detach() * 2
        model.w = torch.nn.Parameter(made if model.ranks == 1 else made.view(shape))
        return x * 2

    return does


def returned(model: Flat, x: Any) -> Any:
    return x * 2, model.w


def test_new_values_are_flat_again() -> None:
    assert done(doubled) == "refines"
    assert done(returned) == "refines"


@pytest.mark.parametrize("shape", [(2, 8), (4, 4), (16, 1)])
def test_new_values_of_another_form(shape: tuple[int, ...]) -> None:
    assert done(replaced(16)) == "refines"
    assert done(replaced(*shape)) != "refines"


def test_a_share_that_nothing_uses() -> None:
    from gg_datalog.tracing.flattened import told_as_rows
    from gg_datalog.tracing.record import InputRecord, RankRecord

    def placed(name: str, *shape: int) -> dict[str, Any]:
        return {"name": name, "op": "placeholder", "target": name, "args": [], "kwargs": {},
                "shape": list(shape), "dtype": "float32"}  # fmt: skip

    def given(name: str, *shape: int) -> InputRecord:
        return InputRecord(name, name, "parameter", "float32", shape, shape, None, "")

    neg = {"name": "y", "op": "call_function", "target": "aten.neg.default",
           "args": [{"node": "w"}], "kwargs": {}, "shape": [16], "dtype": "float32"}  # fmt: skip
    like = {**neg, "name": "z", "target": "aten.zeros_like.default", "args": [{"node": "v"}]}
    values = [{"node": name} for name in ("y", "u")]
    end = {"name": "output", "op": "output", "target": "output", "args": [values], "kwargs": {}}
    rows = [placed(name, 16) for name in ("w", "u", "v")]
    record = RankRecord(
        0, {"nodes": [*rows, neg, like, end]}, {}, [given(n, 16) for n in ("w", "u", "v")],
        [("out", "y"), ("kept", "u")],
    )  # fmt: skip
    told = told_as_rows(record, {name: given(name, 8, 4) for name in ("w", "u", "v")})
    assert [one.flattened for one in told.inputs] == [True, True, False]
    made = {row["name"]: row for row in told.graph["nodes"]}
    assert set(made) == {"w", "w_flat", "u", "v", "y", "z", "output"}  # `u` is not looked at
    assert made["y"]["args"] == [{"node": "w_flat"}]
    assert made["output"]["args"] == [values]
    assert told.outputs == record.outputs
