"""Both routes on small programs: what they see, and that it verifies and replays."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
from torch import nn

from gg_datalog import Pair, capture, verify
from gg_datalog.foundation.errors import InputError

from .programs import unmapped

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*_tensor. is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered:UserWarning"),
]
Json = dict[str, Any]
Tensor = torch.Tensor
FUNCTIONAL = "_c10d_functional."
ROUTES = ("eager", "dynamo")


class Calls(nn.Module):
    """A module that calls a function of the input and the rank."""

    def __init__(self, function: Callable[..., Any], rank: int = 0) -> None:
        super().__init__()
        self.function, self.rank = function, rank

    def forward(self, x: Tensor) -> Any:
        return self.function(x, self.rank)


def taken(
    ours: Callable[..., Any],
    theirs: Callable[..., Any] | None = None,
    rows: Callable[[int, int], Any] = lambda rank, world: (torch.ones(4, 6),),
    world_size: int = 2,
    **more: Any,
) -> Pair:
    """A sequential function and one of the ranks, captured in this process."""
    more.setdefault("mode", "eager")
    return capture(
        lambda rank, world: Calls(theirs or ours, rank),
        rows,
        world_size=world_size,
        sequential=lambda rank, world: Calls(ours),
        jobs=0,
        **more,
    )


def shards(rank: int, world: int) -> tuple[Tensor, ...]:
    """Rows over the ranks."""
    return (torch.ones(8 // world, 6),)


def nodes(pair: Pair, rank: int | None = 0) -> list[Json]:
    """The nodes of a rank, or of the sequential program."""
    graph = pair.documents.seq if rank is None else pair.documents.dist[rank]
    return list(graph["nodes"])


def calls(pair: Pair, rank: int | None = 0) -> list[str]:
    """Operators in order."""
    return [n["target"] for n in nodes(pair, rank) if n["op"] == "call_function"]


def collectives(pair: Pair, rank: int = 0) -> list[tuple[Any, ...]]:
    """Collectives in order: name and arguments that are no tensors; the group as its ranks."""
    groups = {
        group["names"][str(rank)]: group["ranks"]
        for group in pair.documents.groups["dist"]  # type: ignore[index]
        if str(rank) in group["names"]
    }
    found = []
    for node in nodes(pair, rank):
        name = str(node["target"]).removeprefix(FUNCTIONAL).removesuffix(".default")
        if str(node["target"]).startswith(FUNCTIONAL) and name != "wait_tensor":
            *rest, group = [a for a in node["args"] if not isinstance(a, dict)]
            rest = [a for a in rest if not _tensors(a)]
            found.append((name, *rest, groups[group]))
    return found


def _tensors(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(v, dict) for v in value)


def by_kind(pair: Pair, rank: int | None = 0) -> dict[str, str]:
    """Names of inputs, and what they are."""
    return {
        str(n[n["kind"]]) if n["kind"] in n else n["name"]: n["kind"]
        for n in nodes(pair, rank)
        if n["op"] == "placeholder"
    }


# ---- collectives that write into their operands
def all_reduced(op: Any) -> Callable[[Tensor, int], Tensor]:
    def run(x: Tensor, rank: int) -> Tensor:
        y = (
            x.sum(0)
            if op == dist.ReduceOp.SUM
            else x.amax(0)
            if op == dist.ReduceOp.MAX
            else x.amin(0)
        )
        dist.all_reduce(y, op=op)
        return y

    return run


def averaged(x: Tensor, rank: int) -> Tensor:
    y = x.mean(0)
    dist.all_reduce(y, op=dist.ReduceOp.AVG)
    return y


def waited_for(x: Tensor, rank: int) -> Tensor:
    y = x.sum(0)
    work = dist.all_reduce(y, async_op=True)
    work.wait()
    return y


def coalesced(x: Tensor, rank: int) -> Tensor:
    a, b = x.sum(0), x.sum(0) * 2
    with dist._coalescing_manager():
        dist.all_reduce(a)
        dist.all_reduce(b)
    return a + b


def gathered(x: Tensor, rank: int) -> Tensor:
    parts = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, x)
    return torch.cat(parts)


def gathered_at_once(x: Tensor, rank: int) -> Tensor:
    out = x.new_empty(8, 6)
    dist.all_gather_into_tensor(out, x)
    return out


def gathered_late(x: Tensor, rank: int) -> Tensor:
    out = x.new_empty(8, 6)
    work = dist.all_gather_single(out, x, async_op=True)  # the name in later releases
    work.wait()
    return out


def scalars_gathered(x: Tensor, rank: int) -> Tensor:
    total = x.sum()
    parts = [torch.empty_like(total) for _ in range(2)]
    dist.all_gather(parts, total)
    return parts[0] + parts[1]


def both_gathered(x: Tensor, rank: int) -> Tensor:
    out = [x.new_empty(8, 6) for _ in range(2)]
    with dist._coalescing_manager():
        dist.all_gather_into_tensor(out[0], x)
        dist.all_gather_into_tensor(out[1], x * 2)
    return out[0] + out[1]


def summed_and_cut(x: Tensor, rank: int) -> Tensor:
    y = torch.cat([x.sum(0, keepdim=True)] * 2)
    out = y.new_empty(1, 6)
    dist.reduce_scatter(out, list(y.chunk(2)))
    return out


def summed_and_cut_at_once(x: Tensor, rank: int) -> Tensor:
    y = x.sum(0)
    out = y.new_empty(3)
    dist.reduce_scatter_tensor(out, y)
    return out


def exchanged(x: Tensor, rank: int) -> Tensor:
    """Shards of rows become shards of columns."""
    y = torch.cat(x.chunk(2, 1))
    out = torch.empty_like(y)
    dist.all_to_all_single(out, y)
    return out


def exchanged_in_parts(x: Tensor, rank: int) -> Tensor:
    """Two columns for rank 0, four for rank 1."""
    y = x.t().contiguous()
    out = y.new_empty([4, 8][rank], 4)
    dist.all_to_all_single(out, y, [[2, 2], [4, 4]][rank], [2, 4])
    return torch.cat(out.chunk(2), 1)


def exchanged_lists(x: Tensor, rank: int) -> Tensor:
    parts = [p.contiguous() for p in x.chunk(2, 1)]
    outs = [torch.empty_like(p) for p in parts]
    dist.all_to_all(outs, parts)
    return torch.cat(outs)


def told(x: Tensor, rank: int) -> Tensor:
    y = x.sum(0) if rank == 1 else x.new_empty(6)
    dist.broadcast(y, 1)
    return y


def collected(x: Tensor, rank: int) -> Json:
    y = x.sum(0)
    dist.reduce(y, 1)
    return {"out": y} if rank == 1 else {}


def gathered_on_one(x: Tensor, rank: int) -> Json:
    parts = [torch.empty_like(x) for _ in range(2)] if rank == 1 else None
    dist.gather(x, parts, dst=1)
    return {"out": torch.cat(parts)} if parts else {}


def dealt(x: Tensor, rank: int) -> Tensor:
    parts = [2 * p.contiguous() for p in x.chunk(2)] if rank == 0 else None
    out = x.new_empty(4, 6)
    dist.scatter(out, parts, src=0)
    return out


def passed_on(x: Tensor, rank: int) -> Json:
    if rank == 0:
        dist.send(x.relu(), 1)
        return {}
    y = torch.empty_like(x)
    dist.recv(y, 0)
    return {"out": y.exp()}


def passed_on_late(x: Tensor, rank: int) -> Json:
    if rank == 0:
        work = dist.isend(x.relu(), 1, tag=7)
        work.wait()
        return {}
    y = torch.empty_like(x)
    work = dist.irecv(y, 0, tag=7)
    work.wait()
    return {"out": y.exp()}


def swapped(x: Tensor, rank: int) -> Tensor:
    y = torch.empty_like(x)
    other = 1 - rank
    ops = [dist.P2POp(dist.isend, x * 2, other), dist.P2POp(dist.irecv, y, other)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return x + y


def met(x: Tensor, rank: int) -> Tensor:
    dist.barrier()
    return x.sum(1)


ALL = [0, 1]
SUM, MAX, MIN = dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN
Made = dict[str, tuple[Any, Any, Any, list[Any]]]
# what a rank does, what it is sequentially, inputs, collectives of rank 0
EAGER: Made = {
    "all_reduce sum": (all_reduced(SUM), lambda x, _: x.sum(0), shards, [("all_reduce", "sum", ALL)]),
    "all_reduce max": (all_reduced(MAX), lambda x, _: x.amax(0), shards, [("all_reduce", "max", ALL)]),
    "all_reduce min": (all_reduced(MIN), lambda x, _: x.amin(0), shards, [("all_reduce", "min", ALL)]),
    "all_reduce avg": (averaged, lambda x, _: x.mean(0), shards, [("all_reduce", "avg", ALL)]),
    "all_reduce async": (waited_for, lambda x, _: x.sum(0), shards, [("all_reduce", "sum", ALL)]),
    "coalesced": (coalesced, lambda x, _: x.sum(0) * 3, shards, [("all_reduce", "sum", ALL)] * 2),
    "all_gather": (gathered, lambda x, _: x * 1, shards, [("all_gather_into_tensor", 2, ALL)]),
    "all_gather_into_tensor": (
        gathered_at_once, lambda x, _: x * 1, shards, [("all_gather_into_tensor", 2, ALL)],
    ),
    "all_gather async": (
        gathered_late, lambda x, _: x * 1, shards, [("all_gather_into_tensor", 2, ALL)],
    ),
    "all_gather of scalars": (
        scalars_gathered, lambda x, _: x.sum(), shards, [("all_gather_into_tensor", 2, ALL)],
    ),
    "all_gather coalesced": (
        both_gathered, lambda x, _: x * 3, shards, [("all_gather_into_tensor", 2, ALL)] * 2,
    ),
    "reduce_scatter": (
        summed_and_cut, lambda x, _: torch.cat([x.sum(0, keepdim=True)] * 2), shards,
        [("reduce_scatter_tensor", "sum", 2, ALL)],
    ),
    "reduce_scatter_tensor": (
        summed_and_cut_at_once, lambda x, _: x.sum(0), shards,
        [("reduce_scatter_tensor", "sum", 2, ALL)],
    ),
    "all_to_all_single": (
        exchanged, lambda x, _: x * 1, shards, [("all_to_all_single", [4, 4], [4, 4], ALL)],
    ),
    "all_to_all_single with splits": (
        exchanged_in_parts, lambda x, _: x.t() * 1, shards,
        [("all_to_all_single", [2, 2], [2, 4], ALL)],
    ),
    "all_to_all": (
        exchanged_lists, lambda x, _: x * 1, shards, [("all_to_all_single", [12, 12], [12, 12], ALL)],
    ),
    "broadcast": (told, lambda x, _: x.sum(0), None, [("broadcast", 1, ALL)]),
    "reduce": (collected, lambda x, _: {"out": x.sum(0)}, shards, [("reduce", "sum", 1, ALL)]),
    "gather": (gathered_on_one, lambda x, _: {"out": x * 1}, shards, [("gather", 1, ALL)]),
    "scatter": (dealt, lambda x, _: 2 * x, None, [("scatter", 0, ALL)]),
    "send and receive": (passed_on, lambda x, _: {"out": x.relu().exp()}, None,
                         [("isend", 1, 0, ALL)]),
    "isend and irecv": (passed_on_late, lambda x, _: {"out": x.relu().exp()}, None,
                        [("isend", 1, 7, ALL)]),
    "batch_isend_irecv": (swapped, lambda x, _: x * 3, None,
                          [("isend", 1, 0, ALL), ("irecv", 1, 0, ALL)]),
    "barrier": (met, lambda x, _: x.sum(1), None, [("all_reduce", "sum", ALL)]),
}  # fmt: skip
DYNAMO = ("all_reduce sum", "all_reduce max", "all_gather", "all_gather_into_tensor",
          "reduce_scatter_tensor", "all_to_all_single", "all_to_all_single with splits")  # fmt: skip


def replicas(rank: int, world: int) -> tuple[Tensor, ...]:
    """The same on every rank."""
    return (torch.ones(8, 6),)


@pytest.mark.parametrize("name", EAGER)
def test_a_collective_of_eager_code(name: str) -> None:
    theirs, ours, rows, told_of = EAGER[name]
    pair = taken(ours, theirs, rows or replicas)
    assert collectives(pair) == told_of
    assert not any(
        "c10d." in target and not target.startswith(FUNCTIONAL) for target in calls(pair)
    )


@pytest.mark.parametrize("name", DYNAMO)
def test_a_collective_of_compiled_code(name: str) -> None:
    theirs, ours, rows, told_of = EAGER[name]
    pair = taken(ours, theirs, rows or replicas, mode="dynamo")
    found = collectives(pair)
    assert [row[0] for row in found] == [row[0] for row in told_of]
    assert [row[-1] for row in found] == [ALL] * len(found)


class Everything(nn.Module):
    """All of the programs above, one after the other."""

    def __init__(self, side: int, rank: int, names: Sequence[str]) -> None:
        super().__init__()
        self.side, self.rank, self.names = side, rank, names

    def forward(self, cut: Tensor, whole: Tensor) -> Json:
        found = {}
        for name in self.names:
            one = EAGER[name]
            x = whole if one[2] is None else cut
            found[name.replace(" ", "-")] = one[self.side](x, self.rank)
        return found


@pytest.fixture(scope="module")
def everything() -> Pair:
    """All collectives in one program."""
    return capture(
        lambda rank, world: Everything(0, rank, list(EAGER)),
        lambda rank, world: (torch.ones(8 // world, 6), torch.ones(8, 6)),
        world_size=2,
        mode="eager",
        sequential=lambda rank, world: Everything(1, 0, list(EAGER)),
        jobs=0,
    )


def test_all_of_them_verify_and_replay(everything: Pair, tmp_path: Path) -> None:
    names = {row["seq"]: row["name"] for row in everything.documents.outputs or []}
    found = replayed(everything, tmp_path)
    outputs = found.report.outputs
    assert len(names) == len(outputs) == len(EAGER)
    assert [names[row.seq] for row in outputs if row.status != "mapped"] == []
    assert all(found.agrees(place) for place in range(len(outputs)))


def replayed(pair: Pair, folder: Path) -> Any:
    """What the replay of a saved case finds, which refines."""
    from gg_datalog.extract import case_files
    from gg_datalog.replay.command import replay

    pair.save(folder / "case")
    found = replay(case_files(folder / "case"), [], 0, False, lambda text: None)
    assert found.wrong == [] and found.report.verdict == "refines"
    return found


# ---- groups
class Subgroups(nn.Module):
    """Sums over pairs of ranks, twice, in groups that every rank names in its own way."""

    def __init__(self, rank: int, world: int) -> None:
        super().__init__()
        groups = [dist.new_group([0, 2]), dist.new_group([1, 3]), dist.new_group([3, 2, 1, 0])]
        self.pair, self.all = groups[rank % 2], groups[2]

    def forward(self, x: Tensor) -> Tensor:
        y = x.sum(0)
        dist.all_reduce(y, group=self.pair)
        dist.all_reduce(y, op=dist.ReduceOp.AVG, group=self.all)
        return y


@pytest.mark.parametrize("mode", ROUTES)
def test_groups_are_known_by_their_ranks(mode: Any) -> None:
    pair = capture(
        Subgroups,
        lambda rank, world: (torch.ones(4 if world == 1 else 2, 3),),
        world_size=4,
        mode=mode,
        sequential=lambda rank, world: Calls(lambda x, _: x.sum(0)),
        jobs=0,
        relations={"mesh": {"outer": 2, "inner": 2},
                   "relation": [{"name": "x", "placement": "shard(0, outer)"}]},
    )  # fmt: skip
    groups = pair.documents.groups["dist"]  # type: ignore[index]
    assert [g["ranks"] for g in groups] == [[0, 2], [0, 1, 2, 3], [1, 3]]
    assert [sorted(g["names"]) for g in groups] == [["0", "2"], ["0", "1", "2", "3"], ["1", "3"]]
    assert collectives(pair, 3) == [
        ("all_reduce", "sum", [1, 3]),
        ("all_reduce", "avg", [0, 1, 2, 3]),
    ]
    if mode == "eager":
        assert verify(pair).refines


def test_some_ranks() -> None:
    pair = taken(
        lambda x, _: x * 2, lambda x, _: x + x, lambda r, w: (torch.ones(8 // w),),
        world_size=4, ranks=[3, 1, 1],
    )  # fmt: skip
    assert sorted(pair.documents.dist) == [1, 3]
    about = pair.documents.about
    assert about["ranks"] == [1, 3] and about["world_size"] == 4
    assert [row["program"] for row in about["programs"]] == [
        "the sequential program", "rank 1", "rank 3",
    ]  # fmt: skip
    boxes = [row["seq_box"] for row in pair.documents.relations or []]
    assert boxes == [[[2, 4]], [[6, 8]]]
    text = "of 4 ranks only 1, 3 were captured: the others are not looked at"
    assert about["assumptions"][0] == {"kind": "capture", "text": text}
    assert about["warnings"] == []


def test_a_collective_with_a_rank_that_is_not_captured() -> None:
    pair = taken(lambda x, _: x.sum(0), EAGER["all_reduce sum"][0], shards, ranks=[1])
    assert pair.documents.about["warnings"] == [
        "ranks 0 take part in collectives and were not captured: capture them, too"
    ]


@pytest.mark.parametrize("mode", ROUTES)
def test_one_rank(mode: Any) -> None:
    pair = taken(lambda x, _: x.relu(), rows=replicas, world_size=1, mode=mode)
    assert verify(pair).refines


# ---- gradients, hooks and steps
class Layer(nn.Module):
    """A column-parallel and a row-parallel layer."""

    def __init__(self, rank: int, world: int, hook: bool = False) -> None:
        super().__init__()
        self.up = nn.Linear(4, 8 // world, bias=False)
        self.down = nn.Linear(8 // world, 4, bias=False)
        self.norm = nn.Parameter(torch.ones(4))
        self.world = world
        if hook and world > 1:
            self.norm.register_hook(reduced)

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(torch.relu(self.up(x * self.norm)))
        if self.world > 1:
            dist.all_reduce(y)
        return y


def reduced(gradient: Tensor) -> Tensor:
    """The hook of a parameter whose gradient every rank has a part of."""
    gradient = gradient.clone()
    dist.all_reduce(gradient)
    return gradient


def scored(y: Tensor, x: Tensor) -> Tensor:
    return y.square().sum()


def tokens(rank: int, world: int) -> tuple[Tensor, ...]:
    """The same on every rank."""
    return (torch.ones(3, 4),)


def reduce_norm(module: nn.Module) -> None:
    """The step after the backward pass."""
    if module.world > 1:
        dist.all_reduce(module.norm.grad)


def trained(mode: Any, hook: bool = False, **more: Any) -> Pair:
    """Loss and gradients of the layer."""
    return capture(
        lambda rank, world: Layer(rank, world, hook), tokens, world_size=2, mode=mode,
        backward=True, loss=scored, jobs=0, **more,
    )  # fmt: skip


def test_the_backward_of_eager_code() -> None:
    """An all-reduce in place is the identity backwards."""
    pair = trained("eager")
    assert len(collectives(pair)) == 1
    assert unmapped(verify(pair)) == {"grad_norm"}


def test_the_backward_of_compiled_code() -> None:
    """The functional all-reduce that dynamo writes has another one as its backward."""
    assert len(collectives(trained("dynamo"))) == 2


def test_a_hook_is_captured_by_the_eager_route() -> None:
    pair = trained("eager", hook=True)
    assert len(collectives(pair)) == 2
    assert unmapped(verify(pair)) == set()


def test_a_hook_is_an_assumption_of_the_dynamo_route() -> None:
    pair = trained("dynamo", hook=True)
    assert len(collectives(pair)) == 2
    texts = [row["text"] for row in pair.documents.about["assumptions"]]
    assert "the hook reduced on the gradient of parameter `norm` is not captured" in texts[0]
    assert not any(
        "hook" in row["text"] for row in trained("eager", hook=True).documents.about["assumptions"]
    )


def test_a_step_is_captured() -> None:
    pair = trained("eager", step=reduce_norm)
    assert len(collectives(pair)) == 2
    assert unmapped(verify(pair)) == set()
    assert collectives(trained("eager", step=reduce_norm, sequential_step=lambda m: None))


@pytest.mark.parametrize("mode", ROUTES)
def test_names_of_results(mode: Any) -> None:
    names = {row["name"] for row in trained(mode).documents.outputs or []}
    assert {"grad_up.weight", "grad_down.weight", "grad_norm"} < names and len(names) == 4


def descend(module: nn.Module) -> None:
    """Gradient descent, and reductions before."""
    reduce_norm(module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter -= 0.1 * parameter.grad


def descend_below_autograd(module: nn.Module) -> None:
    reduce_norm(module)
    for parameter in module.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.1)


def optimised(module: nn.Module) -> None:
    reduce_norm(module)
    torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9).step()


@pytest.mark.parametrize("step", [descend, descend_below_autograd, optimised])
def test_parameters_that_a_step_changes_are_results(step: Any) -> None:
    pair = trained("eager", step=step)
    names = [row["name"] for row in pair.documents.outputs or []]
    assert sorted(n for n in names if n.startswith("updated")) == [
        "updated_down.weight", "updated_norm", "updated_up.weight",
    ]  # fmt: skip
    assert unmapped(verify(pair)) == set()
    forgotten = trained("eager", step=step, sequential_step=None) if step is descend else pair
    assert len(forgotten.documents.outputs or []) == 7


def test_a_step_that_is_forgotten_on_the_ranks() -> None:
    pair = trained("eager", step=lambda m: descend(m) if m.world == 1 else reduce_norm(m))
    assert unmapped(verify(pair)) == {"updated_norm", "updated_up.weight", "updated_down.weight"}
    assert pair.documents.about["warnings"] == [
        "not updated on ranks 0, 1, though elsewhere: `norm`, `up.weight`, `down.weight`"
    ]


class OwnBackward(nn.Module):
    """A forward that differentiates by itself, per half of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        total = x.new_zeros(())
        for half in x.chunk(2):
            loss = self.layer(half).square().sum()
            loss.backward()
            total = total + loss.detach()
        return total


class WholeBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).square().sum()


def test_a_forward_that_calls_backward() -> None:
    pair = capture(
        lambda rank, world: OwnBackward(), tokens_of_two_halves, world_size=1, mode="eager",
        backward=True, sequential=lambda rank, world: WholeBatch(), jobs=0,
    )  # fmt: skip
    assert {row["name"] for row in pair.documents.outputs or []} == {
        "output", "grad_layer.weight", "grad_layer.bias",
    }  # fmt: skip
    assert unmapped(verify(pair)) == set()


def tokens_of_two_halves() -> tuple[Tensor, ...]:
    """Inputs of a function without parameters."""
    return (torch.ones(6, 4),)


# ---- inputs
class Nested(nn.Module):
    def forward(self, batch: Any, scale: Tensor | None = None, mask: Tensor | None = None) -> Any:
        y = batch["ids"]["left"] * batch["more"][0]
        return {"y": y if scale is None else y * scale, "mask": mask, "count": 3}


BATCH = {"ids": {"left": torch.ones(2, 3)}, "more": [torch.ones(3)]}
GIVEN: dict[str, tuple[Any, set[str]]] = {
    "a tensor": (torch.ones(2), {"x"}),
    "positions": ((BATCH, torch.ones(3)), {"batch_ids.left", "batch_more.0", "scale"}),
    "keywords": ({"batch": BATCH, "mask": None}, {"batch_ids.left", "batch_more.0"}),
    "both": (((BATCH,), {"scale": torch.ones(1)}), {"batch_ids.left", "batch_more.0", "scale"}),
    "a pair of None": ((BATCH, None, None), {"batch_ids.left", "batch_more.0"}),
}


@pytest.mark.parametrize("mode", ROUTES)
@pytest.mark.parametrize("name", GIVEN)
def test_inputs(name: str, mode: Any) -> None:
    given, names = GIVEN[name]
    build = (
        (lambda r, w: Calls(lambda x, _: x * 2)) if name == "a tensor" else lambda r, w: Nested()
    )
    pair = capture(build, lambda: given, world_size=1, mode=mode, jobs=0)
    assert by_kind(pair) == dict.fromkeys(names, "input")
    assert len(pair.documents.outputs or []) == 1
    assert len(pair.documents.relations or []) == len(names)


class Holder(nn.Module):
    """A parameter, buffers, a plain tensor, and names that are those of operators."""

    def __init__(self) -> None:
        super().__init__()
        self.mm = nn.Parameter(torch.randn(4, 4))
        self.a_b = nn.Parameter(torch.randn(4, 4))
        self.a = nn.Module()
        self.a.b = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("seen", torch.zeros(4))
        self.table = torch.ones(4)

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(x.sum(0))
        return ((x @ self.mm) @ self.a_b @ self.a.b * self.scale + self.table).sum()


@pytest.mark.parametrize("mode", ROUTES)
@pytest.mark.parametrize("backward", [False, True])
def test_what_a_module_holds(mode: Any, backward: bool) -> None:
    pair = capture(
        lambda r, w: Holder(), tokens, world_size=2, mode=mode, backward=backward, jobs=0
    )
    expected = {"mm": "parameter", "a_b": "parameter", "a.b": "parameter", "scale": "buffer",
                "seen": "buffer", "table": "attribute", "x": "input"}  # fmt: skip
    if backward and mode == "dynamo":
        expected["gradient_of_output_0"] = "gradient"
    assert by_kind(pair) == expected
    names = [node["name"] for node in nodes(pair)]
    assert len(set(names)) == len(names)
    assert {row["name"] for row in pair.documents.outputs or []} >= {"updated_seen"}
    assert unmapped(verify(pair)) == set()


class Difference(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a - b


class Negated(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return b - a


@pytest.mark.parametrize("mode", ROUTES)
def test_one_tensor_for_two_arguments(mode: Any) -> None:
    """An example of them does not say that they are always equal."""
    one = torch.ones(3, 4)
    pair = capture(
        lambda r, w: Negated(), lambda: (one, one), world_size=2, mode=mode, jobs=0,
        sequential=lambda r, w: Difference(),
    )  # fmt: skip
    assert by_kind(pair) == {"a": "input", "b": "input"}
    assert not verify(pair).refines


class Shadowed(nn.Module):
    """A parameter and an argument of one name."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.ones(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x - self.x


class Exchanged(Shadowed):
    def forward(self, x: Tensor) -> Tensor:
        return self.x - x


@pytest.mark.parametrize("mode", ROUTES)
def test_an_argument_that_is_called_as_a_parameter_is(mode: Any) -> None:
    for build, refines in ((Shadowed, True), (Exchanged, False)):
        pair = capture(
            lambda r, w, build=build: build(), tokens, world_size=2, mode=mode, jobs=0,
            sequential=lambda r, w: Shadowed(),
        )  # fmt: skip
        assert verify(pair).refines == refines


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.table(ids)).square().sum()


@pytest.mark.parametrize("mode", ROUTES)
def test_tied_weights_are_one_input(mode: Any) -> None:
    pair = capture(
        lambda r, w: Tied(), lambda: (torch.zeros(3, dtype=torch.int64),), world_size=1,
        mode=mode, backward=True, jobs=0,
    )  # fmt: skip
    weights = [name for name, kind in by_kind(pair).items() if kind in ("parameter", "attribute")]
    assert weights == ["table.weight"]
    assert [r["name"] for r in pair.documents.outputs or [] if "grad" in r["name"]] == [
        "grad_table.weight"
    ]
    assert unmapped(verify(pair)) == set()


class Counts(nn.Module):
    """Running numbers, changed in place and replaced."""

    def __init__(self, rank: int = 0, world: int = 1) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.zeros(()))
        self.world = world

    def forward(self, x: Tensor) -> Tensor:
        now = x.mean(0)
        if self.world > 1:
            dist.all_reduce(now, op=dist.ReduceOp.AVG)
        self.mean.mul_(0.9).add_(now, alpha=0.1)
        self.steps = self.steps + 1
        return x - self.mean


def test_buffers_that_change_are_results() -> None:
    pair = capture(
        Counts, lambda r, w: (torch.ones(4 // w, 4),), world_size=2, mode="eager", jobs=0
    )
    names = {row["name"] for row in pair.documents.outputs or []}
    assert names == {"output", "updated_mean", "updated_steps"}
    assert unmapped(verify(pair)) == set()


HALF = torch.tensor(0.5)


@pytest.mark.parametrize("mode", ROUTES)
def test_constants_have_their_value(mode: Any) -> None:
    pair = taken(lambda x, _: x * HALF + torch.tensor(3), rows=replicas, mode=mode)
    values = [node.get("value") for node in nodes(pair) if node["op"] == "get_attr"]
    assert values == [0.5, 3]


# ---- lines and modules
class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return helper(self.up(x))


def helper(x: Tensor) -> Tensor:
    return torch.relu(x)  # the line of relu


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.program = Inner()
        self.layers = nn.ModuleList([Inner(), Inner()])

    def forward(self, x: Tensor) -> Tensor:
        x = self.program(x)
        for layer in self.layers:
            x = layer(x)
        return x.sum()  # the line of the sum


def doubled(loss: Tensor, x: Tensor) -> Tensor:
    return loss * 2


@pytest.mark.parametrize("mode", ROUTES)
@pytest.mark.parametrize("loss", [None, doubled])
def test_lines_and_modules(mode: Any, loss: Any) -> None:
    pair = capture(
        lambda r, w: Outer(), tokens, world_size=1, mode=mode, backward=True, loss=loss, jobs=0
    )
    made = [n for n in nodes(pair) if n["op"] == "call_function"]
    paths = ["program", "layers.0", "layers.1"]
    forward = [n for n in made if n["target"] == "aten.relu.default"]
    backward = [n for n in made if n["target"] == "aten.threshold_backward.default"]
    assert [n.get("module") for n in forward] == paths
    assert [n.get("module") for n in backward] == paths[::-1]
    for node in (*forward, *backward):
        assert node["source"].endswith(" in helper: return torch.relu(x)  # the line of relu")
        assert node["source"].startswith("tests/capture/test_routes.py:") or "/" in node["source"]
    products = [n.get("module") for n in made if n["target"] == "aten.mm.default"]
    assert products[:3] == [f"{path}.up" for path in paths]
    assert set(products[3:]) == {f"{path}.up" for path in paths}
    (total,) = (n for n in made if n["target"] == "aten.sum.default")
    assert "the line of the sum" in total["source"] and "module" not in total
    assert {n[n["kind"]] for n in nodes(pair) if n.get("kind") == "parameter"} == {
        f"{path}.up.weight" for path in paths
    }


# ---- processes
def test_processes_give_the_same_documents() -> None:
    def told(text: str) -> None:
        said.append(text)

    said: list[str] = []
    arguments: Json = {"world_size": 2, "mode": "eager", "backward": True, "loss": scored}
    here = capture(Layer, tokens, jobs=0, **arguments)
    there = capture(Layer, tokens, jobs=2, progress=told, **arguments)
    again = capture(Layer, tokens, jobs=0, **arguments)
    for other in (there, again):
        for name in ("seq", "dist", "groups", "relations", "outputs"):
            assert getattr(here.documents, name) == getattr(other.documents, name)
    assert said[0] == "capturing 3 programs"
    assert sorted(text.partition(" (")[0] for text in said[1:]) == [
        "captured rank 0", "captured rank 1", "captured the sequential program",
    ]  # fmt: skip
    assert [r.who for r in there.records] == ["the sequential program", "rank 0", "rank 1"]


def test_the_environment_is_that_of_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "17")
    seen = []

    def build(rank: int, world: int) -> nn.Module:
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        seen.append((rank, world, [os.environ[n] for n in names], dist.get_rank()))
        return Calls(lambda x, _: x * 2)

    capture(build, tokens, world_size=2, jobs=0)
    assert seen == [(r, w, [str(r), str(r), str(w)], r) for r, w in ((0, 1), (0, 2), (1, 2))]
    assert os.environ["RANK"] == "17" and "LOCAL_RANK" not in os.environ


def test_a_process_group_that_is_there_already() -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        with pytest.raises(InputError, match="a process group is there already") as found:
            taken(lambda x, _: x * 2, rows=replicas)
    finally:
        dist.destroy_process_group()
    assert found.value.hint


# ---- what is saved
def test_a_saved_case(tmp_path: Path) -> None:
    from gg_datalog.extract import case_files

    pair = trained("eager", step=descend)
    files = pair.save(tmp_path / "case")
    assert files == case_files(tmp_path / "case")
    about = json.loads((tmp_path / "case" / "capture.json").read_text())
    assert about["route"] == "eager" and about["torch"] == torch.__version__
    assert about["world_size"] == 2 and about["ranks"] == [0, 1]
    assert {"program", "seconds", "memory", "calls", "collectives"} == set(about["programs"][0])
    assert repr(pair) == "<Pair of 2 ranks, eager>"
    replayed(pair, tmp_path)


class Head(nn.Module):
    """x @ w, of which every rank has some columns, as rows or as columns of its own tensor."""

    def __init__(self, rank: int, world: int, turned: bool) -> None:
        super().__init__()
        self.turned = turned
        shape = (6 // world, 4) if turned else (4, 6 // world)
        self.weight = nn.Parameter(torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight.t() if self.turned else self.weight)


def test_a_transposed_weight_verifies_and_replays(tmp_path: Path) -> None:
    from gg_datalog.extract import case_files
    from gg_datalog.extract.table import load_table
    from gg_datalog.replay.documents import load
    from gg_datalog.replay.shrink import shrink

    row = {"name": "weight", "placement": "shard(1)", "transposed": True}
    pair = capture(
        lambda r, w: Head(r, w, True), tokens, world_size=2, mode="eager", jobs=0,
        sequential=lambda r, w: Head(r, w, False), relations={"relation": [row]},
    )  # fmt: skip
    rows = [r for r in pair.documents.relations or [] if r["seq"] == "weight"]
    assert [r["permute"] for r in rows] == [[1, 0], [1, 0]]
    found = replayed(pair, tmp_path)
    assert all(found.agrees(place) for place in range(len(found.report.outputs)))
    small = shrink(load(case_files(tmp_path / "case")), load_table([])).case
    small.write(tmp_path / "small")  # the boxes follow the sizes
    assert verify(tmp_path / "small").refines


# ---- verdicts in Python
def test_a_result(tmp_path: Path) -> None:
    said: list[str] = []
    pair = taken(lambda x, _: x.sum(0), lambda x, _: x.sum(0) * 1, shards)
    result = verify(pair, result=tmp_path / "result", progress=said.append)
    assert not result.refines and result.verdict == "does-not-refine"
    assert [row.status for row in result.outputs] == ["unmapped"]
    assert result.findings[0].level == "error" and said
    assert [row.kind for row in result.assumptions] == ["guessed relation"]
    assert str(result).startswith("DOES NOT REFINE: ") and result.findings[0].message in str(result)
    assert repr(result) == f"<Result does-not-refine, {len(result.findings)} findings>"
    assert (tmp_path / "result" / "report.json").is_file()


@pytest.mark.parametrize(
    ("given", "text"),
    [({"engine": "prolog"}, "prolog"), ({"operators": ["missing.toml"]}, "missing.toml"),
     ({"timeout": 1e-9}, "second")],
)  # fmt: skip
def test_what_verify_refuses(given: Json, text: str) -> None:
    from gg_datalog.foundation.errors import GGError

    with pytest.raises(GGError, match=text) as found:
        verify(taken(lambda x, _: x * 2, rows=replicas), **given)
    assert found.value.hint or found.value.where


def test_no_case(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such case folder"):
        verify(tmp_path / "missing")
