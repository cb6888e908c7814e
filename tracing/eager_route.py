"""The route of eager code: ``make_fx`` around forward, backward and what comes after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from gg_datalog.tracing.collective_mode import FunctionalCollectives
from gg_datalog.tracing.inputs import Input, local_of
from gg_datalog.tracing.private import (
    FakeTensorMode,
    fx_traceback,
    inline_compiled,
    make_fx,
    module_paths,
    source_lines,
)
from gg_datalog.tracing.program import Program, named
from gg_datalog.tracing.refusal import Refused

Reduction = tuple[str, str]  # which one, and the name of the group


@dataclass(frozen=True)
class Traced:
    """A graph, its inputs in placeholder order and the names of what it returns, in order.

    ``open`` names those that are DTensors whose local tensors are yet to be added up: by which
    reductions, over which groups.
    """

    module: fx.GraphModule
    inputs: Sequence[Input]
    returned: Sequence[str]
    open: Mapping[str, Sequence[Reduction]] = field(default_factory=dict)


def trace_eager(
    program: Program,
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: Sequence[Input],
    mode: FakeTensorMode,
) -> Traced:
    """Runs the program as it is, and records every operator that reaches the tensors."""
    returned: list[tuple[str, torch.Tensor]] = []

    def forward(*_: torch.Tensor) -> list[torch.Tensor]:
        returned.extend(_executed(program, module, args, kwargs))
        return [local_of(tensor) for _, tensor in returned]

    locals_ = [one.tensor for one in inputs]
    with _recording(module, mode), FunctionalCollectives():
        graph = make_fx(forward, tracing_mode="real", record_stack_traces=True)(*locals_)
    pending = {name: found for name, tensor in returned if (found := open_reductions(tensor))}
    functional = _functionalized(graph, locals_, mode)
    return Traced(functional, inputs, [name for name, _ in returned], pending)


@contextmanager
def _recording(module: nn.Module, mode: FakeTensorMode) -> Iterator[None]:
    with ExitStack() as stack:
        for one in (mode, fx_traceback.preserve_node_meta(), source_lines(), inline_compiled()):
            stack.enter_context(one)
        stack.enter_context(module_paths(module))
        yield


def _executed(
    program: Program, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """What the program returns: outputs, gradients, and parameters that it has changed."""
    before = {name: p._version for name, p in module.named_parameters()}
    output = module(*args, **kwargs)
    if program.loss is not None:
        output = program.loss(output, *args, **kwargs)
    if program.backward:
        _differentiate(output, module)
    if program.step is not None:
        program.step(module)
    yield from named(output, "output")
    for name, parameter in module.named_parameters():
        gradient = gradient_of(parameter)
        if program.backward and gradient is not None:
            yield f"grad_{name}", gradient
        if parameter._version != before[name]:
            yield f"updated_{name}", parameter


def _differentiate(output: Any, module: nn.Module) -> None:
    tensors = [t for _, t in named(output)]
    open_ones = [t for t in tensors if t.requires_grad]
    if open_ones:
        if len(open_ones) > 1 or open_ones[0].numel() != 1:
            shapes = ", ".join(str(tuple(t.shape)) for t in open_ones)
            raise Refused(
                f"the gradient needs one scalar loss, the program returns {shapes}",
                "give capture a function: loss(output, *inputs)",
            )
        torch.autograd.backward(open_ones)
    elif not any(gradient_of(p) is not None for p in module.parameters()):
        raise Refused(
            "nothing that the program returns depends on a parameter that needs a gradient",
            "return the loss, give loss=, or capture without backward",
        )


def gradient_of(parameter: nn.Parameter) -> torch.Tensor | None:
    """The gradient, also where a framework keeps it in a buffer of its own (Megatron-Core)."""
    kept = getattr(parameter, "main_grad", None)
    return parameter.grad if kept is None or parameter.grad is not None else kept


def open_reductions(tensor: torch.Tensor) -> list[Reduction]:
    """Of a DTensor whose local tensors are yet to be added up: by what, over which group."""
    placements = getattr(tensor, "placements", ())
    return [
        (str(p.reduce_op), str(tensor.device_mesh.get_group(axis).group_name))
        for axis, p in enumerate(placements)
        if p.is_partial()
    ]


def _functionalized(
    graph: fx.GraphModule, tensors: Sequence[torch.Tensor], mode: FakeTensorMode
) -> fx.GraphModule:
    """The same graph without writes into operands; lines and modules stay."""

    def forward(*args: torch.Tensor) -> Any:
        return fx.Interpreter(graph).run(*args)

    fresh = [tensor.detach() for tensor in tensors]
    with mode, fx_traceback.preserve_node_meta(), torch.no_grad():
        call = torch.func.functionalize(forward, remove="mutations")
        functional = make_fx(call, tracing_mode="real")(*fresh)
    for node in reversed(functional.graph.nodes):
        if node.target is torch.ops.aten.copy_.default and not node.users:
            functional.graph.erase_node(node)  # the write back into an input, at the end
    functional.recompile()
    return functional
