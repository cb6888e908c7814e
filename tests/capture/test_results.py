"""Results that only some of the programs have: what counts, and what is left out and said so."""

from __future__ import annotations

from collections.abc import Callable
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
Tensor = torch.Tensor
ROUTES = ("eager", "dynamo")


class Net(nn.Module):
    """Two layers and a counter; ``run`` is the forward pass, which knows rank and world."""

    def __init__(self, run: Callable[[Any, Tensor], Any], rank: int, world: int) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.register_buffer("count", torch.zeros(4))
        self.run, self.rank, self.world = run, rank, world

    def forward(self, x: Tensor) -> Any:
        return self.run(self, x)


def plain(net: Any, x: Tensor) -> Tensor:
    """The loss of both layers."""
    return net.b(net.a(x)).square().sum()


def captured(run: Any = plain, mode: Any = "eager", world_size: int = 2, **more: Any) -> Pair:
    """Every rank runs the same on whole inputs, but for what ``run`` makes of its rank."""
    return capture(
        lambda rank, world: Net(run, rank, world), lambda: (torch.ones(3, 4),),
        world_size=world_size, mode=mode, jobs=0, **more,
    )  # fmt: skip


def returned(pair: Pair, name: str) -> dict[str, str]:
    """What the ranks return for a result."""
    (row,) = (row for row in pair.documents.outputs or [] if row["name"] == name)
    return dict(row["dist"])


def warnings(pair: Pair) -> list[str]:
    """What capture warns of."""
    return list(pair.documents.about["warnings"])


# ---- gradients
@pytest.mark.parametrize("mode", ROUTES)
def test_gradients_are_said_to_be_some(mode: Any) -> None:
    pair = captured(mode=mode, backward=True)
    rows = pair.documents.outputs or []
    kinds = {row["name"]: row["kind"] for row in rows if "kind" in row}
    assert len(rows) == 3
    assert kinds == {"grad_a.weight": "gradient", "grad_b.weight": "gradient"}


def detached(net: Any, x: Tensor) -> Tensor:
    h = net.a(x)
    return net.b(h if net.world == 1 else h.detach()).square().sum()


@pytest.mark.parametrize("mode", ROUTES)
def test_a_gradient_that_no_rank_computes(mode: Any) -> None:
    pair = captured(detached, mode, backward=True)
    assert returned(pair, "grad_a.weight") == {}
    result = verify(pair)
    assert not result.refines and unmapped(result) == {"grad_a.weight"}
    first, *others = result.findings
    assert first.level == "error" and "in detached" in (first.seq_source or "")
    assert any(f.code == "GG130" and "(`grad_a.weight`)" in f.message for f in others)


def test_replay_of_a_gradient_that_no_rank_computes(tmp_path: Path) -> None:
    from gg_datalog.extract import case_files
    from gg_datalog.replay.command import as_document, as_lines, replay

    captured(detached, backward=True).save(tmp_path / "case")
    found = replay(case_files(tmp_path / "case"), [], 0, False, lambda text: None)
    assert found.report.verdict == "does-not-refine" and found.wrong == []
    lost = [o.status != "mapped" for o in found.report.outputs]
    assert [found.agrees(place) for place in range(len(lost))] == [not one for one in lost]
    assert as_document(found) and "unmapped" in as_lines(found)


def one_rank_detaches(net: Any, x: Tensor) -> Tensor:
    h = net.a(x)
    return net.b(h.detach() if net.rank else h).square().sum()


@pytest.mark.parametrize("mode", ROUTES)
def test_a_gradient_that_only_some_ranks_return(mode: Any) -> None:
    """Replicas drift apart with the next step, unless the program is meant so (ZeRO: the others
    are told of it later)."""
    pair = captured(one_rank_detaches, mode, backward=True)
    result = verify(pair)
    assert result.verdict == "does-not-refine" and warnings(pair) == []
    (found,) = result.findings
    assert (found.code, found.dist) == ("GG156", ("r1.a_weight",))
    assert found.message == (
        "rank 0 alone returns `grad_a.weight`, and rank 1 uses the parameter, too"
    )
    meant = captured(
        one_rank_detaches, mode, backward=True, relations={"gradients_in_part": ["a.*"]}
    )
    assert verify(meant).refines


def form_alone(net: Any, x: Tensor) -> Tensor:
    """One rank takes the form of a parameter, and none of its values."""
    h = net.a(x) if net.rank == 0 else net.a.weight.new_zeros(3, 4)
    return net.b(h).square().sum()


def values_too(net: Any, x: Tensor) -> Tensor:
    h = net.a(x) if net.rank == 0 else net.a(x).detach() * 0
    return net.b(h).square().sum()


@pytest.mark.parametrize("forward", [form_alone, values_too])
def test_a_parameter_of_which_the_form_is_used(forward: Any) -> None:
    codes = [f.code for f in verify(captured(forward, "eager", backward=True)).findings]
    assert ("GG156" in codes) is (forward is values_too)


def descend(net: Any, *left_out: str) -> None:
    """Gradient descent, but for these."""
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if name not in left_out and parameter.grad is not None:
                parameter -= 0.1 * parameter.grad


def shared_descent(net: Any) -> None:
    """ZeRO: a rank keeps the gradient of one layer, updates it, and tells the other."""
    if net.world == 1:
        return descend(net)
    ours, theirs = (net.a, net.b) if net.rank == 0 else (net.b, net.a)
    theirs.weight.grad = None
    with torch.no_grad():
        ours.weight -= 0.1 * ours.weight.grad
        dist.broadcast(net.a.weight, 0)
        dist.broadcast(net.b.weight, 1)


def test_gradients_and_updates_that_are_shared_among_the_ranks() -> None:
    pair = captured(backward=True, step=shared_descent)
    assert len(returned(pair, "grad_a.weight")) == len(returned(pair, "grad_b.weight")) == 1
    assert len(returned(pair, "updated_a.weight")) == 2
    assert unmapped(verify(pair)) == set() and warnings(pair) == []


# ---- state
def test_a_stale_replica() -> None:
    pair = captured(backward=True, step=lambda net: descend(net, *(["a.weight"] * net.rank)))
    assert returned(pair, "updated_a.weight")["1"] == "a_weight"
    assert unmapped(verify(pair)) == {"updated_a.weight"}
    assert warnings(pair) == ["not updated on rank 1, though elsewhere: `a.weight`"]


def test_a_stale_replica_of_which_not_all_ranks_are_captured() -> None:
    pair = captured(
        backward=True, world_size=3, ranks=[0, 1],
        step=lambda net: descend(net, *(["a.weight"] * net.rank)),
    )  # fmt: skip
    assert unmapped(verify(pair)) == {"updated_a.weight"}


def test_what_ranks_that_are_not_captured_may_return() -> None:
    pair = captured(detached, backward=True, ranks=[1])
    assert verify(pair).refines
    assert warnings(pair) == ["no rank returns anything for `grad_a.weight`: it is not checked"]


def counted(ranks: tuple[int, ...]) -> Callable[[Any, Tensor], Tensor]:
    """A program that reads a buffer, and counts in it on these ranks (-1: sequentially)."""

    def run(net: Any, x: Tensor) -> Tensor:
        y = net.a(x) + net.count
        if (net.rank if net.world > 1 else -1) in ranks:
            net.count.add_(1)
        return y

    return run


@pytest.mark.parametrize("mode", ROUTES)
@pytest.mark.parametrize(
    ("ranks", "refines"),
    [((-1, 0, 1), True), ((-1,), False), ((-1, 0), False), ((0, 1), False), ((), True)],
)
def test_a_buffer_that_is_updated_on_some_ranks(mode: Any, ranks: Any, refines: bool) -> None:
    assert verify(captured(counted(ranks), mode)).refines == refines


def told(net: Any) -> None:
    """Rank 0 tells the others what they have already."""
    if net.world > 1:
        for parameter in net.parameters():
            dist.broadcast(parameter.data, 0)


def scaled(net: Any) -> None:
    """Makes a weight smaller, on ranks alone."""
    if net.world > 1:
        net.a.weight.data.mul_(0.5)


def test_parameters_that_only_ranks_write_into() -> None:
    pair = captured(backward=True, step=told)
    assert len(returned(pair, "updated_a.weight")) == 2
    assert unmapped(verify(pair)) == set() and warnings(pair) == []
    assert unmapped(verify(captured(backward=True, step=scaled))) == {"updated_a.weight"}


def in_scratch(net: Any, x: Tensor) -> Tensor:
    """Ranks have room for what they receive, sequentially it lies idle."""
    y = net.a(x)
    if net.world > 1:
        net.count.copy_(y[0])
        dist.broadcast(net.count, 0)
    return y


def test_a_buffer_that_only_ranks_use() -> None:
    pair = captured(in_scratch)
    assert verify(pair).refines
    assert warnings(pair) == ["`updated_count` is returned by ranks only: it is not checked"]


def copied(net: Any, x: Tensor) -> Tensor:
    """Ranks have a second copy of the one layer that there is sequentially."""
    layer = net.b if net.world > 1 else net.a
    return layer(net.a(x)).square().sum()


def gradients_added(net: Any) -> None:
    """The copies' gradients are those of one parameter."""
    if net.world > 1:
        net.a.weight.grad += net.b.weight.grad
        net.b.weight.grad = net.a.weight.grad
    descend(net)


@pytest.mark.parametrize(
    ("step", "lost"),
    [
        (None, {"grad_a.weight", "grad_b.weight"}),
        (gradients_added, set()),
        (lambda net: gradients_added(net) if net.world == 1 else descend(net, "b.weight"),
         {"grad_a.weight", "grad_b.weight", "updated_a.weight", "updated_b.weight"}),
    ],
)  # fmt: skip
def test_a_second_copy_on_a_rank(step: Any, lost: set[str]) -> None:
    declared = {"name": "b.weight", "sequential": "a.weight", "placement": "replicate"}
    pair = captured(copied, backward=True, step=step, relations={"relation": [declared]})
    assert unmapped(verify(pair)) == lost
    assert not any("something of" in text for text in warnings(pair))


def mastered(refreshed: bool) -> Callable[[Any], None]:
    """A step that updates a copy of a weight (in another precision), and then the weight."""

    def step(net: Any) -> None:
        descend(net, "a.weight")
        with torch.no_grad():
            master = net.master if net.world > 1 else net.a.weight
            master -= 0.1 * net.a.weight.grad
            if refreshed and net.world > 1:
                net.a.weight.copy_(master)

    return step


class Mastered(Net):
    """On ranks with a master copy of the first weight."""

    def __init__(self, rank: int, world: int) -> None:
        super().__init__(plain, rank, world)
        if world > 1:
            self.register_buffer("master", torch.zeros(4, 4))


@pytest.mark.parametrize("refreshed", [True, False])
def test_a_copy_without_a_gradient(refreshed: bool) -> None:
    declared = {"name": "master", "sequential": "a.weight", "placement": "replicate"}
    pair = capture(
        Mastered, lambda: (torch.ones(3, 4),), world_size=2, mode="eager", jobs=0, backward=True,
        step=mastered(refreshed), relations={"relation": [declared]},
    )  # fmt: skip
    assert unmapped(verify(pair)) == (set() if refreshed else {"updated_a.weight"})
    told = "no rank returns anything for `grad_master`: it is not checked"
    assert told in warnings(pair)


def staged(net: Any, x: Tensor) -> Any:
    """Two stages that are built as a whole."""
    if net.world == 1:
        return {"y": net.b(net.a(x))}
    if net.rank == 0:
        dist.send(net.a(x), 1)
        return {}
    y = torch.empty_like(x)
    dist.recv(y, 0)
    return {"y": net.b(y)}


def decayed(net: Any) -> None:
    """A step without gradients, of a stage's own layer."""
    with torch.no_grad():
        for place, layer in enumerate((net.a, net.b)):
            if net.world == 1 or place == net.rank:
                layer.weight *= 0.5


def test_parameters_of_another_stage_are_nobodys_business() -> None:
    pair = captured(staged, step=decayed)
    assert returned(pair, "updated_a.weight").keys() == {"0"}
    assert returned(pair, "updated_b.weight").keys() == {"1"}
    assert unmapped(verify(pair)) == set() and warnings(pair) == []
    assert any("neither reads nor updates" in a.text for a in verify(pair).assumptions)


def test_a_parameter_that_no_stage_updates() -> None:
    pair = captured(staged, step=lambda net: decayed(net) if net.world == 1 or net.rank else None)
    assert unmapped(verify(pair)) == {"updated_a.weight"}


class Counter(nn.Module):
    """The same function, with state of another name, and other steps to count in."""

    def __init__(self, name: str, step: int) -> None:
        super().__init__()
        self.name, self.step = name, step
        self.register_buffer(name, torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.step:
            getattr(self, self.name).add_(self.step)
        return x.exp()


def renamed(step: int = 1, **more: Any) -> Pair:
    """The sequential program calls it `ours`, the ranks `theirs`."""
    return capture(
        lambda rank, world: Counter("theirs", step), lambda: (torch.ones(3, 4),), world_size=2,
        mode="eager", jobs=0, sequential=lambda rank, world: Counter("ours", 1), **more,
    )  # fmt: skip


def test_state_that_one_side_alone_has() -> None:
    pair = renamed()
    assert verify(pair).refines
    assert set(warnings(pair)) == {
        "no rank returns anything for `updated_ours`: it is not checked",
        "`updated_theirs` is returned by ranks only: it is not checked",
        "no rank has an input that holds `ours`",
    }


@pytest.mark.parametrize("step", [0, 1, 2])
def test_state_of_another_name_that_is_declared(step: int) -> None:
    declared = {"name": "theirs", "sequential": "ours", "placement": "replicate"}
    pair = renamed(step, relations={"relation": [declared]})
    assert len(returned(pair, "updated_ours")) == 2
    assert unmapped(verify(pair)) == (set() if step == 1 else {"updated_ours"})


# ---- arguments and outputs
def written(ranks: tuple[int, ...]) -> Callable[[Any, Tensor], Tensor]:
    """A program that writes into its argument."""

    def run(net: Any, x: Tensor) -> Tensor:
        y = net.a(x)
        if (net.rank if net.world > 1 else -1) in ranks:
            x.add_(1)
        return y

    return run


@pytest.mark.parametrize("mode", ROUTES)
@pytest.mark.parametrize(("ranks", "refines"), [((-1, 0, 1), True), ((-1,), False)])
def test_an_argument_that_is_written_into(mode: Any, ranks: Any, refines: bool) -> None:
    pair = captured(written(ranks), mode)
    assert len(returned(pair, "updated_input_x")) == 2
    assert verify(pair).refines == refines


def two_outputs(net: Any, x: Tensor) -> Any:
    found = {"y": net.a(x), "z": net.b(x)}
    return found if net.world == 1 else {"y": found["y"]}


def test_an_output_that_no_rank_returns() -> None:
    pair = captured(two_outputs)
    assert returned(pair, "output_z") == {} and unmapped(verify(pair)) == {"output_z"}


def test_programs_that_return_nothing_in_common() -> None:
    with pytest.raises(InputError, match="no result of the sequential program"):
        captured(lambda net, x: {"z" if net.world == 1 else "y": net.a(x)})


# ---- inputs that are one sequentially, and several on a rank
class Fused(nn.Module):
    """Two layers whose weights are one parameter sequentially, and on ranks one each."""

    def __init__(self, world: int, wrong: str = "") -> None:
        super().__init__()
        self.world, self.wrong = world, wrong
        if world == 1:
            self.both = nn.Parameter(torch.zeros(4, 6))
        else:
            self.left = nn.Parameter(torch.zeros(4, 2))
            self.right = nn.Parameter(torch.zeros(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        both = self.both if self.world == 1 else torch.cat([self.left, self.right], 1)
        if self.wrong == "detached":
            both = torch.cat([self.left, self.right.detach()], 1)
        return (x @ both).square().sum()


PIECES = [
    {"name": name, "sequential": "both",
     "pieces": [{"sequential": [[0, 4], [lo, hi]], "distributed": [[0, 4], [0, hi - lo]]}]}
    for name, lo, hi in (("left", 0, 2), ("right", 2, 6))
]  # fmt: skip


def unfused(wrong: str = "", **more: Any) -> Pair:
    """The two parts are declared."""
    return capture(
        lambda rank, world: Fused(world, wrong if world > 1 else ""), lambda: (torch.ones(3, 4),),
        world_size=2, mode="eager", jobs=0, backward=True, relations={"relation": PIECES}, **more,
    )  # fmt: skip


def part_forgotten(net: Any) -> None:
    """A step that leaves out one of the parts on the ranks."""
    descend(net, "right")


def test_gradients_of_parts() -> None:
    pair = unfused(step=descend)
    names = {row["name"] for row in pair.documents.outputs or []}
    assert names == {"output", "grad_left", "grad_right", "updated_left", "updated_right"}
    assert unmapped(verify(pair)) == set() and warnings(pair) == []


@pytest.mark.parametrize(
    ("wrong", "more", "lost"),
    [
        ("detached", {}, {"grad_right"}),
        ("", {"step": part_forgotten, "sequential_step": descend}, {"updated_right"}),
    ],
)
def test_parts_that_are_lost(wrong: str, more: Any, lost: set[str]) -> None:
    pair = unfused(wrong, **more)
    assert unmapped(verify(pair)) == lost


def test_a_part_of_which_nothing_is_declared() -> None:
    pair = capture(
        lambda rank, world: Fused(world), lambda: (torch.ones(3, 4),), world_size=2, mode="eager",
        jobs=0, backward=True, relations={"relation": PIECES[:1]},
    )  # fmt: skip
    assert "output" in unmapped(verify(pair))


class Convolution(nn.Module):
    """Has no bias, so its backward gives a result that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(4, 4, 3, groups=4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).square().mean()


def test_a_result_that_is_no_tensor() -> None:
    pair = capture(
        lambda rank, world: Convolution(),
        lambda: (torch.ones(2, 4, 6),),
        world_size=2,
        mode="eager",
        backward=True,
    )
    items = [n for n in pair.documents.seq["nodes"] if "getitem" in n["target"]]
    assert any("shape" not in item for item in items)
    assert verify(pair, confirm=0).refines
