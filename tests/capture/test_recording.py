"""Capture takes short ways: the graphs are those of torch's own ways, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
from torch import nn

from gg_datalog import capture
from gg_datalog.tracing import dynamo_route, eager_route, functional, tracer
from gg_datalog.tracing.pieces import runs

Function = Callable[["Program", torch.Tensor], Any]


class Program(nn.Module):
    """A function as a module with one weight and one buffer."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.empty(4, 4))
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def written_view(self: Program, x: torch.Tensor) -> Any:
    y = x @ self.weight
    row = y[1]
    before = y * 2
    row.mul_(3)
    return (before + y).sum()


def written_half(self: Program, x: torch.Tensor) -> Any:
    y = x @ self.weight
    left, right = y[:, :2], y[:, 2:]
    kept = right.relu()
    left.add_(1)
    return (left * kept).sum()


def written_buffer(self: Program, x: torch.Tensor) -> Any:
    y = x @ self.weight
    self.seen.add_(y.detach().sum(0))
    return (y * self.seen).sum()


def reduced_in_place(self: Program, x: torch.Tensor) -> Any:
    y = (x @ self.weight) * 2
    dist.all_reduce(y)
    return y.view(-1).sum()


def started_and_waited_for(self: Program, x: torch.Tensor) -> Any:
    y = x @ self.weight
    work = dist.all_reduce(y, async_op=True)
    z = x.exp()
    work.wait()
    return (y * z).sum()


def several_results(self: Program, x: torch.Tensor) -> Any:
    values, _ = torch.topk(x @ self.weight, 2, dim=1)
    mean, variance = torch.var_mean(values, 1)
    return (mean + variance.split(1)[0]).sum()


def constants(self: Program, x: torch.Tensor) -> Any:
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
    first = scale[:2]
    first.mul_(2)
    return (x @ self.weight * scale).sum()


def drawn(self: Program, x: torch.Tensor) -> Any:
    noise = torch.rand_like(x.t())
    return nn.functional.dropout(x @ self.weight + noise, 0.5).sum()


def transposed_in_place(self: Program, x: torch.Tensor) -> Any:
    y = x @ self.weight
    z = y.clone().t_()
    return (z[0] + y.sum(1)).sum()


def same_layers(self: Program, x: torch.Tensor) -> Any:
    """The second time of all that is remembered, under a collective, in views and in parts."""
    for layer in range(3):
        x = nn.functional.softmax(x @ self.weight.t(), dim=1).to(torch.float64).float()
        left, right = x.chunk(2, dim=1)
        y = torch.cat([right * (layer + 1), left], 1).contiguous()
        dist.all_reduce(y)
        x = nn.functional.layer_norm(y, (4,)) + y.view(2, 8)[:, ::2].reshape(-1).max()
    return x.sum()


PROGRAMS: list[Function] = [
    same_layers, written_view, written_half, written_buffer, reduced_in_place, started_and_waited_for,
    several_results, constants, drawn, transposed_in_place,
]  # fmt: skip


def documents(function: Function, mode: str) -> list[Any]:
    """The graphs of both ranks, and of the sequential program."""
    pair = capture(
        lambda rank, ranks: Program(function),
        lambda: (torch.zeros(4, 4),),
        world_size=2,
        mode=mode,  # type: ignore[arg-type]
        backward=True,
        jobs=0,
    )
    return [record.graph for record in pair.records]


@contextmanager
def long_ways(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every operator is recorded, and functionalized, by torch's own code."""
    with monkeypatch.context() as patched:
        patched.setattr(functional, "_untouched", lambda graph: iter(()))
        for route in (eager_route, dynamo_route):
            patched.setattr(route, "plain_calls", lambda as_written: nullcontext())
        yield


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda one: one.__name__)
def test_eager_graphs_are_those_of_torchs_own_ways(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = documents(function, "eager")
    with long_ways(monkeypatch):
        assert documents(function, "eager") == short


@pytest.mark.parametrize("function", [written_view, several_results, drawn])
def test_dynamo_graphs_are_those_of_torchs_own_ways(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = documents(function, "dynamo")
    with long_ways(monkeypatch):
        assert documents(function, "dynamo") == short


def test_only_what_is_near_a_write_is_functionalized(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product is in no memory that is written: it is carried over. The sum over ranks
    is written where the factor was applied, and a view is of that memory."""
    carried: set[str] = set()
    original = functional._Aliasing._carried

    def noted(self: Any, node: torch.fx.Node) -> Any:
        carried.add(node.name)
        return original(self, node)

    monkeypatch.setattr(functional._Aliasing, "_carried", noted)
    documents(reduced_in_place, "eager")
    assert "mm" in carried
    assert not carried & {"mul", "copy_", "view"}


def test_operators_are_recorded_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[str] = []
    original = tracer._known_by

    def noted(tracer: Any, node: torch.fx.Node, out: Any) -> Any:
        recorded.append(str(node.target))
        return original(tracer, node, out)

    monkeypatch.setattr(tracer, "_known_by", noted)
    documents(several_results, "eager")
    assert {"aten.mm.default", "aten.topk.default"} <= set(recorded)
    recorded.clear()
    documents(several_results, "dynamo")
    assert "aten.mm.default" in recorded


MODULE = """
import torch
from torch import nn

class Twice(nn.Module):
    def forward(self, x):
        return x * {factor}
"""


def test_a_file_that_was_changed_shows_its_new_lines(tmp_path: Path) -> None:
    """Lines are read once per capture, not once for all."""
    path = tmp_path / "changing.py"
    seen = []
    for factor in ("2", "3 + 0 * 1234"):
        path.write_text(MODULE.format(factor=factor))
        names: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), names)
        build, inputs = (lambda rank, ranks: names["Twice"]()), (lambda: (torch.zeros(4),))  # noqa: B023
        pair = capture(build, inputs, world_size=1, mode="eager", jobs=0)
        seen += [row["source"] for row in pair.documents.seq["nodes"] if "mul" in row["name"]]
    assert [line.rpartition("return ")[2] for line in seen] == ["x * 2", "x * 3 + 0 * 1234"]


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([], []),
        ([5], [(5, 0, 1)]),
        ([0, 1, 2], [(0, 0, 3)]),
        ([4, 5, 0, 1, 1, 3], [(4, 0, 2), (0, 2, 2), (1, 4, 1), (3, 5, 1)]),
        ([3, 2, 1], [(3, 0, 1), (2, 1, 1), (1, 2, 1)]),
    ],
)
def test_runs_of_positions(positions: list[int], expected: list[tuple[int, int, int]]) -> None:
    assert runs(positions) == expected
