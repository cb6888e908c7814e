"""Captures one rank: build, trace, write down."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from torch import fx, nn

from gg_datalog.tracing.backends import any_backend
from gg_datalog.tracing.draws import Draws, unseeded
from gg_datalog.tracing.dynamo_route import trace_dynamo
from gg_datalog.tracing.eager_route import Traced, trace_eager
from gg_datalog.tracing.export import (
    graph_document,
    groups_of,
    is_collective,
    reduce_results,
    rename_placeholders,
)
from gg_datalog.tracing.inputs import Input, program_inputs, with_samples
from gg_datalog.tracing.objects import Awaited, objects_by_post
from gg_datalog.tracing.private import FakeTensorMode, quiet, real_meshes, votes_by_objects
from gg_datalog.tracing.program import Program
from gg_datalog.tracing.record import InputRecord, RankRecord, named, result_of
from gg_datalog.tracing.refusal import Refused, refusal
from gg_datalog.tracing.unmoved import storages_kept
from gg_datalog.tracing.values import Computed, packed
from gg_datalog.tracing.world import rank_of
from gg_datalog.tracing.wrapped import built_alone, hooked

ROUTES: dict[str, Callable[..., Traced]] = {"dynamo": trace_dynamo, "eager": trace_eager}


def capture_rank(program: Program, rank: int, world_size: int, route: str) -> RankRecord:
    """The graph of one rank. ``rank`` is -1 for the sequential program, rank 0 of 1."""
    who = named(rank)
    doing = "building the program"
    started = perf_counter()
    try:
        with (
            rank_of(max(rank, 0), world_size), unseeded(), storages_kept(), objects_by_post(),
            votes_by_objects(), any_backend(),
        ):  # fmt: skip
            mode = FakeTensorMode(allow_non_fake_inputs=True)
            computed = Computed()
            with mode, Draws(), computed, real_meshes(), built_alone(), quiet():
                module = program.module(max(rank, 0), world_size)
            with mode, real_meshes(), quiet():
                args, kwargs = program.inputs(max(rank, 0), world_size)
            doing = "capture"
            with mode, quiet():
                inputs = program_inputs(module, args, kwargs, computed)
            inputs = with_samples(inputs, program, module, max(rank, 0), world_size)
            notes = []
            found = hooked(module)
            if route == "dynamo" and found:
                route, notes = "eager", [_taken_eager(found)]
            with quiet():
                traced = ROUTES[route](program, module, args, kwargs, inputs, mode)
            hooked(module)  # some are made by the first forward
            notes += _uncaptured(module, route, program)
            return replace(_record(traced, rank, notes, started), route=route)
    except (KeyboardInterrupt, Awaited):
        raise
    except BaseException as error:
        raise refusal(error, who, doing) from error


def _record(traced: Traced, rank: int, notes: Sequence[str], started: float) -> RankRecord:
    graph = traced.module.graph
    if traced.open:
        reduce_results(graph, traced)
        notes = [*notes, _added_up(traced)]
    nodes = rename_placeholders(graph, [_short(one) for one in traced.inputs])
    known = {node: one.document() for node, one in zip(nodes, traced.inputs, strict=True)}
    document = graph_document(traced.module, max(rank, 0), known)
    return RankRecord(
        rank=rank,
        graph=document,
        groups=groups_of(graph),
        inputs=[_input(n, one, traced) for n, one in zip(nodes, traced.inputs, strict=True)],
        outputs=list(_outputs(graph, traced.returned)),
        notes=notes,
        seconds=perf_counter() - started,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        counts=_counts(graph),
    )


def _taken_eager(modules: Sequence[str]) -> str:
    return (
        f'captured with mode="eager": the communication of {", ".join(modules)} runs in hooks, '
        "which torch.compile leaves to eager code"
    )


def _added_up(traced: Traced) -> str:
    names = ", ".join(f"`{name}`" for name in traced.open)
    return (
        f"results that are DTensors placed as Partial are taken as reduced, as their next use "
        f"reduces them: {names}"
    )


def _short(one: Input) -> str:
    return one.name if one.kind != "attribute" else f"attribute_{one.name}"


def _counts(graph: fx.Graph) -> dict[str, int]:
    calls = [node for node in graph.nodes if node.op == "call_function"]
    collectives = [node for node in calls if is_collective(node)]
    return {"calls": len(calls), "collectives": len(collectives)}


def _outputs(graph: fx.Graph, names: Sequence[str]) -> Any:
    values = graph.output_node().args[0]
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise Refused(
            f"two results would be called `{twice[0]}`",
            "rename a key of what the program returns",
        )
    for name, value in zip(names, values, strict=True):
        if isinstance(value, fx.Node):
            yield name, value.name


def _input(node: str, one: Input, traced: Traced) -> InputRecord:
    """``one`` as plain data. What a program writes holds nothing for good."""
    stays = f"updated_{result_of(one.kind, one.name)}" not in traced.returned
    sizes = tuple(e if isinstance(e, int) else str(e) for e in one.tensor.shape)
    return InputRecord(
        node=node,
        name=one.name,
        kind=one.kind,
        dtype=str(one.tensor.dtype).removeprefix("torch."),
        local=sizes,
        shape=tuple(e if isinstance(e, int) else str(e) for e in one.shape),
        pieces=one.pieces,
        because=one.because,
        passed=one.passed,
        value=packed(one.value) if one.value is not None and stays else None,
        saved=one.saved,
    )


def _uncaptured(module: nn.Module, route: str, program: Program) -> list[str]:
    """What runs in the user's program and is not in the graph."""
    if route != "dynamo" or not program.backward:
        return []
    return [*_parameter_hooks(module), *_module_hooks(module)]


def _parameter_hooks(module: nn.Module) -> list[str]:
    found = []
    for name, parameter in module.named_parameters():
        hooks = [*(parameter._backward_hooks or {}).values()]
        hooks += [*(getattr(parameter, "_post_accumulate_grad_hooks", None) or {}).values()]
        found += [
            f"the hook {getattr(h, '__qualname__', h)} on the gradient of parameter `{name}` is "
            'not captured (mode="eager" captures it)'
            for h in hooks
        ]
    return found


def _module_hooks(module: nn.Module) -> list[str]:
    return [
        f"a backward hook of module `{path or 'the module'}` may not be captured "
        '(mode="eager" captures it)'
        for path, one in module.named_modules()
        if one._backward_hooks or one._backward_pre_hooks
    ]
