"""What torch itself has for tensor parallelism, together: its styles, `loss_parallel`, `fully_shard`
over a mesh of two dimensions, recomputed layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

from gg_datalog import capture, verify

from .frameworks import Averaged

ROWS, WIDTH, INNER, WORDS = 8, 4, 8, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, again: bool = False) -> None:
        super().__init__()
        self.words, self.block = nn.Embedding(WORDS, WIDTH), Block()
        self.out, self.again = nn.Linear(WIDTH, WORDS), again

    def forward(self, ids: Tensor, labels: Tensor | None = None) -> Tensor:
        x = self.words(ids)
        return self.out(
            checkpoint(self.block, x, use_reentrant=False) if self.again else self.block(x)
        )


class Loss(nn.Module):
    """The mean over the labels; ``group`` has the ranks that have other ones."""

    def __init__(self, net: nn.Module, parallel: bool = False, group: Any = None) -> None:
        super().__init__()
        self.net, self.parallel, self.group = net, parallel, group

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        out = self.net(ids)
        if not self.parallel:
            loss = F.cross_entropy(out.flatten(0, 1), labels.flatten(), reduction="sum")
        else:
            with loss_parallel():
                loss = F.cross_entropy(out.flatten(0, 1), labels.flatten(), reduction="sum")
        loss = (loss.full_tensor() if isinstance(loss, DTensor) else loss) / labels.numel()
        return loss if self.group is None else Averaged.apply(loss)


def tensor_parallel(net: Net, mesh: DeviceMesh) -> None:
    """Rows of the table, sequence, columns and rows of the block, columns of the head."""
    plan = {
        "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "block.norm": SequenceParallel(),
        "block.up": ColwiseParallel(input_layouts=Shard(1)),
        "block.down": RowwiseParallel(output_layouts=Shard(1)),
        "out": ColwiseParallel(
            input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False
        ),
    }
    parallelize_module(net, mesh, plan)


def inputs(rank: int, world: int) -> tuple[Tensor, Tensor]:
    """All of the batch, on every rank."""
    return torch.zeros(2, ROWS, dtype=torch.long), torch.zeros(2, ROWS, dtype=torch.long)


def build(again: bool = False) -> Callable[[int, int], nn.Module]:
    def made(rank: int, world: int) -> nn.Module:
        net = Net(again)
        if world > 1:
            tensor_parallel(net, init_device_mesh("cpu", (world,)))
        return Loss(net, world > 1)

    return made


@pytest.mark.parametrize("mode", ["eager", "dynamo"])
def test_a_loss_in_its_context(mode: Any) -> None:
    """The backward pass, which capture calls, runs in the context that the program opened."""
    result = verify(capture(build(), inputs, world_size=2, mode=mode, backward=True))
    assert result.refines, str(result)


def test_a_loss_in_its_context_that_capture_is_given() -> None:
    def loss(out: Tensor, ids: Tensor, labels: Tensor) -> Tensor:
        with loss_parallel():
            return F.cross_entropy(out.flatten(0, 1), labels.flatten(), reduction="sum")

    def made(rank: int, world: int) -> nn.Module:
        one = build()(rank, world)
        return one.net

    def sequential(rank: int, world: int) -> nn.Module:
        return Net()

    pair = capture(
        made, inputs, world_size=2, mode="eager", backward=True, sequential=sequential, loss=loss
    )
    assert verify(pair).refines


def test_a_context_that_was_open_stays_open() -> None:
    handlers = DTensor._op_dispatcher._custom_op_handlers
    with loss_parallel():
        before = dict(handlers)
        capture(build(), inputs, world_size=2, mode="eager", backward=True, jobs=0)
        assert handlers == before
    assert torch.ops.aten.nll_loss_forward.default not in handlers


@pytest.mark.parametrize(("again", "divided_by"), [(False, 0.0), (True, 0.0), (False, 1.0)])
def test_sharded_parameters_over_a_second_dimension(again: bool, divided_by: float) -> None:
    """FSDP2 over two ranks, of what is tensor parallel over two."""

    def made(rank: int, world: int) -> nn.Module:
        net = Net(again)
        if world == 1:
            return Loss(net)
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
        tensor_parallel(net, mesh["tensor"])
        for one in (net.block, net):
            fully_shard(one, mesh=mesh["data"])
            if divided_by:
                one.set_gradient_divide_factor(divided_by)
        return Loss(net, True, mesh["data"].get_group())

    def parts(rank: int, world: int) -> tuple[Tensor, Tensor]:
        rows = 2 // min(world, 2)
        ids = torch.zeros(rows, ROWS, dtype=torch.long)
        return ids, torch.zeros_like(ids)

    pair = capture(made, parts, world_size=4, mode="eager", backward=True)
    result = verify(pair, confirm=0, repairs=False)
    assert result.refines is not bool(divided_by), str(result)


class Attending(nn.Module):
    """Called with what its plan says, by keyword, too."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x))) * gate


@pytest.mark.parametrize("open_result", [False, True])
def test_inputs_that_a_plan_prepares(open_result: bool) -> None:
    def made(rank: int, world: int) -> nn.Module:
        net = nn.ModuleList([Attending()])
        if world > 1:
            mesh = init_device_mesh("cpu", (world,))
            given = PrepareModuleInput(
                input_layouts=(Shard(0),),
                desired_input_layouts=(Replicate(),),
                input_kwarg_layouts={"gate": Shard(0)},
                desired_input_kwarg_layouts={"gate": Shard(0)},
                use_local_output=False,
            )
            plan = {
                "0": given,
                "0.up": ColwiseParallel(use_local_output=False),
                "0.down": RowwiseParallel(output_layouts=Shard(0), use_local_output=False),
            }
            parallelize_module(net, mesh, plan)
        return Called(net)

    class Called(nn.Module):
        def __init__(self, net: nn.ModuleList) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Tensor, gate: Tensor) -> Tensor:
            out = self.net[0](x, gate=gate)
            return out.to_local() if isinstance(out, DTensor) else out

    def parts(rank: int, world: int) -> tuple[Tensor, Tensor]:
        rows = 4 if open_result else ROWS // world
        return torch.zeros(rows, WIDTH), torch.zeros(rows, WIDTH)

    pair = capture(made, parts, world_size=2, mode="eager")
    result = verify(pair, confirm=0, repairs=False)
    # with as many rows on one device as on each of two, these are other rows
    assert result.refines is not open_result, str(result)
