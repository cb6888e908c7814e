"""Programs that train with torch's own wrappers, run with gloo or captured as they are.

Run as a script it is one rank: ``frameworks.py WORLD RANK PORT`` prints what the rank was given and
what it had in the end, of every program of so many ranks.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.nn.parallel import DistributedDataParallel

ROWS, WIDTH, INNER, MICRO = 8, 4, 6, 4


class Block(nn.Module):
    def __init__(self, inner: int = INNER) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, inner), nn.Linear(inner, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(x)))


class Net(nn.Module):
    def __init__(self, inner: int = INNER) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(inner) for _ in range(2))

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return F.mse_loss(x, target)


class Twice(nn.Module):
    """Two backward passes; ``late``: only the second one reduces gradients."""

    def __init__(self, net: nn.Module, late: bool) -> None:
        super().__init__()
        self.net, self.late = net, late

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        parts = list(zip(x.chunk(2), target.chunk(2), strict=True))
        wrapped = isinstance(self.net, DistributedDataParallel)
        with self.net.no_sync() if wrapped and self.late else nullcontext():
            first = self.net(*parts[0]) / 2
            first.backward()
        second = self.net(*parts[1]) / 2
        second.backward()
        return mean_loss(first.detach() + second.detach())


class Counted(nn.Module):
    """Has a buffer, which DDP sends from the first rank before each forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()
        self.register_buffer("scale", torch.full((WIDTH,), 2.0))

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return self.net(x * self.scale, target)


def replicated(make: Callable[[], nn.Module] = Net, **options: Any) -> Callable[..., nn.Module]:
    def build(rank: int, world: int) -> nn.Module:
        return DistributedDataParallel(make(), **options) if world > 1 else make()

    return build


Hook = Callable[[Any, dist.GradBucket], Any]  # DDP looks at annotations: theirs have none


def hooked(hook: Hook = default_hooks.allreduce_hook) -> Callable[[int, int], nn.Module]:
    def build(rank: int, world: int) -> nn.Module:
        if world == 1:
            return Net()
        wrapped = DistributedDataParallel(Net())
        wrapped.register_comm_hook(None, hook)
        return wrapped

    return build


def divided_after(state, bucket):  # type: ignore[no-untyped-def]
    started = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return started.then(lambda f: f.value()[0].div_(dist.get_world_size()))


def not_divided(state, bucket):  # type: ignore[no-untyped-def]
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future()


def not_waited_for(state, bucket):  # type: ignore[no-untyped-def]
    buffer = bucket.buffer().div_(dist.get_world_size())
    dist.all_reduce(buffer, async_op=True).get_future()
    ready: torch.futures.Future[Tensor] = torch.futures.Future()
    ready.set_result(buffer)
    return ready


def in_two_passes(late: bool) -> Callable[[int, int], nn.Module]:
    return lambda rank, world: Twice(replicated()(rank, world), late)


def sharded(
    inner: int = INNER, mesh: tuple[int, ...] = (2,), divided_by: float = 0, **options: Any
) -> Callable[..., Any]:
    def build(rank: int, world: int) -> nn.Module:
        net = Net(inner)
        if world > 1:
            names = ("replicate", "shard")[-len(mesh) :]
            devices = init_device_mesh("cpu", mesh, mesh_dim_names=names)
            for layer in net.layers:
                fully_shard(layer, mesh=devices, **options)
                if divided_by:
                    layer.set_gradient_divide_factor(divided_by)
            fully_shard(net, mesh=devices, **options)
        return net

    return build


class Alone(nn.Module):
    """What a pipeline computes, on one device."""

    def __init__(self, stages: int) -> None:
        super().__init__()
        self.stages = nn.ModuleDict({str(n): Block() for n in range(stages)})

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        for stage in self.stages.values():
            x = stage(x)
        loss = F.mse_loss(x, target)
        loss.backward()
        return loss.detach()


class Pipelined(nn.Module):
    def __init__(
        self, rank: int, world: int, schedule: Any, of: int, static: bool, **options: Any
    ) -> None:
        super().__init__()
        self.rank = rank
        mine = range(rank, of, world)
        self.stages = nn.ModuleDict({str(n): Block() for n in mine})
        stages = [
            PipelineStage(self.stages[str(n)], n, of, torch.device("cpu"), **shapes(n, static))
            for n in mine
        ]
        given = stages if of > world else stages[0]
        object.__setattr__(self, "schedule", schedule(given, MICRO, loss_fn=F.mse_loss, **options))

    def forward(self, x: Tensor, target: Tensor) -> Tensor | None:
        losses: list[Tensor] = []
        if self.rank == 0:
            self.schedule.step(x)
            return None
        self.schedule.step(target=target, losses=losses)
        return torch.stack(losses).mean().detach()


def shapes(stage: int, static: bool) -> dict[str, Any]:
    """What a stage is told of its inputs and outputs, so that it need not ask."""
    if not static:
        return {}
    rows = ROWS // MICRO
    given = torch.empty(rows, WIDTH, requires_grad=stage > 0)
    return {
        "input_args": (given,),
        "output_args": (torch.empty(rows, WIDTH, requires_grad=True),),
    }


def pipelined(
    schedule: Any, stages: int = 2, static: bool = False, **options: Any
) -> Callable[..., nn.Module]:
    def build(rank: int, world: int) -> nn.Module:
        if world == 1:
            return Alone(stages)
        return Pipelined(rank, world, schedule, stages, static, **options)

    return build


def parts(rank: int, world: int) -> tuple[Tensor, Tensor]:
    """The rows of a rank."""
    return torch.randn(ROWS // world, WIDTH), torch.randn(ROWS // world, WIDTH)


def whole(rank: int, world: int) -> tuple[Tensor, Tensor]:
    """All rows, on every rank."""
    return torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)


class Averaged(torch.autograd.Function):
    """The mean over ranks of a loss, whose gradient is that of the own loss."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor) -> Tensor:
        loss = loss.clone()
        dist.all_reduce(loss)
        return loss / dist.get_world_size()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def mean_loss(loss: Tensor, *inputs: Tensor) -> Tensor:
    return Averaged.apply(loss) if dist.get_world_size() > 1 else loss


def summed_loss(loss: Tensor, *inputs: Tensor) -> Tensor:
    """Not the mean of the ranks' losses, but their sum: twice that of all rows on one device."""
    return Averaged.apply(loss) * dist.get_world_size()


@dataclass(frozen=True)
class Case:
    """A program: how it is built, what it is given, whether its forward pass has the backward."""

    build: Callable[[int, int], nn.Module]
    inputs: Callable[[int, int], tuple[Tensor, ...]] = parts
    world: int = 2
    trains: bool = False


HALF = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
CASES = {
    "ddp": Case(replicated()),
    "ddp_views": Case(replicated(gradient_as_bucket_view=True)),
    "ddp_small_buckets": Case(replicated(bucket_cap_mb=1e-4)),
    "ddp_hook": Case(hooked()),
    "ddp_own_hook": Case(hooked(divided_after)),
    "ddp_static": Case(replicated(static_graph=True)),
    "ddp_unused": Case(replicated(find_unused_parameters=True)),
    "ddp_buffers": Case(replicated(Counted)),
    "ddp_no_sync": Case(in_two_passes(late=True), trains=True),
    "ddp_twice": Case(in_two_passes(late=False), trains=True),
    "fsdp": Case(sharded()),
    "fsdp_kept": Case(sharded(reshard_after_forward=False)),
    "fsdp_uneven": Case(sharded(inner=5)),
    "fsdp_mixed": Case(sharded(mp_policy=HALF)),
    "hsdp": Case(sharded(mesh=(2, 2)), world=4),
    "gpipe": Case(pipelined(ScheduleGPipe), whole, trains=True),
    "one_f_one_b": Case(pipelined(Schedule1F1B), whole, trains=True),
    "one_f_one_b_static": Case(pipelined(Schedule1F1B, static=True), whole, trains=True),
    "interleaved": Case(pipelined(ScheduleInterleaved1F1B, 4), whole, trains=True),
}


def local(tensor: Tensor) -> Tensor:
    return getattr(tensor, "_local_tensor", tensor).detach().clone()


def plain(name: str) -> str:
    """Without what DDP adds."""
    return name.removeprefix("module.").replace("net.module.", "net.")


def run(name: str, rank: int) -> dict[str, Any]:
    """What a rank is given and what it has after a step, by name."""
    case = CASES[name]
    torch.manual_seed(0)
    module = case.build(rank, case.world)
    state = dict([*module.named_parameters(), *module.named_buffers()])
    given = {plain(key): local(value) for key, value in state.items()}
    torch.manual_seed(10 + rank)
    inputs = case.inputs(rank, case.world)
    given |= dict(zip(("x", "target"), inputs, strict=True))
    out = module(*inputs)
    if not case.trains:
        out = mean_loss(out)
        out.backward()
    found = {"output": out} if out is not None else {}
    found |= {
        f"grad_{plain(key)}": local(value.grad)
        for key, value in module.named_parameters()
        if value.grad is not None
    }
    return {"given": numbers(given), "results": numbers(found)}


def numbers(tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {name: tensor.double().tolist() for name, tensor in tensors.items()}


if __name__ == "__main__":
    world, place, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=place, world_size=world)
    mine = [name for name, case in CASES.items() if case.world == world]
    print(json.dumps({name: run(name, place) for name in mine}))
    dist.destroy_process_group()
