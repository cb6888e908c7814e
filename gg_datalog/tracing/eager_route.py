"""The route of eager code: ``make_fx`` around forward, backward and what comes after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.distributed.tensor import Partial

from gg_datalog.tracing.collective_mode import Watched, drop_unread, never_waited
from gg_datalog.tracing.extremes import extremes_as_operators
from gg_datalog.tracing.fully_sharded import Unpacked
from gg_datalog.tracing.functional import functionalized
from gg_datalog.tracing.inputs import Input, attributes_of, local_of
from gg_datalog.tracing.loss_context import loss_context
from gg_datalog.tracing.private import (
    FakeTensorMode,
    fx_traceback,
    inline_compiled,
    make_fx,
    module_paths,
    source_lines,
    storage_of,
)
from gg_datalog.tracing.program import Program, named
from gg_datalog.tracing.record import result_of
from gg_datalog.tracing.refusal import Refused
from gg_datalog.tracing.statistics import statistics_as_operators
from gg_datalog.tracing.tracer import lazy_modules, plain_calls
from gg_datalog.tracing.unmoved import MemoryKept
from gg_datalog.tracing.wrapped import all_used, buckets_made, buffers_sent, plain_names

NO_GRADIENT = (
    "nothing that the program returns depends on a parameter that needs a gradient",
    "return the loss, give loss=, or capture without backward",
)
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
        buckets_made(module)
        with extremes_as_operators(), statistics_as_operators():
            returned.extend(_executed(program, module, args, kwargs))
        never_waited()
        return [local_of(tensor) for _, tensor in returned]

    locals_ = [one.tensor for one in inputs]
    memory = [storage_of(tensor) for tensor in locals_]
    with (
        _recording(module, mode), Watched(), Unpacked(), buffers_sent(), MemoryKept(locals_),
    ):  # fmt: skip
        trace = make_fx(forward, tracing_mode="real", _disable_torch_fn_metadata_mode=True)
        graph = trace(*locals_)
    _check_unmoved(inputs, memory)
    _check_constants(graph)
    _modules_of_backward(graph.graph)
    pending = {name: found for name, tensor in returned if (found := open_reductions(tensor))}
    functional = functionalized(graph, locals_, mode)
    drop_unread(functional)
    names = [name for name, _ in returned]
    return Traced(functional, inputs, [*names, *_returned_updates(functional, inputs)], pending)


@contextmanager
def _recording(module: nn.Module, mode: FakeTensorMode) -> Iterator[None]:
    with ExitStack() as stack:
        for one in (mode, fx_traceback.preserve_node_meta(), source_lines(), inline_compiled()):
            stack.enter_context(one)
        stack.enter_context(lazy_modules())
        stack.enter_context(plain_calls(as_written=True))
        stack.enter_context(module_paths(module))
        yield


def _executed(
    program: Program, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """What the program returns: outputs, gradients, and what it has replaced of its state."""
    plain = plain_names(module)
    parameters, before = dict(module.named_parameters()), dict(_state(module))
    with loss_context() as context:
        output = module(*args, **kwargs)
        if program.loss is not None:
            output = program.loss(output, *args, **kwargs)
        if program.backward:
            with context.again():
                _differentiate(output, module)
            all_used(module)
    if program.step is not None:
        program.step(module)
    yield from named(output, "output")
    for name, parameter in parameters.items():
        gradient = gradient_of(parameter)
        if program.backward and gradient is not None:
            yield f"grad_{plain(name)}", gradient
    for name, tensor in _state(module):
        if before.get(name) is not tensor:
            yield f"updated_{plain(name)}", tensor


def _state(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()
    yield from attributes_of(module)


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
        raise Refused(*NO_GRADIENT)


def gradient_of(parameter: nn.Parameter) -> torch.Tensor | None:
    """The gradient, also where a framework keeps it in a buffer of its own (Megatron-Core)."""
    kept = getattr(parameter, "main_grad", None)
    return parameter.grad if kept is None or parameter.grad is not None else kept


def open_reductions(tensor: torch.Tensor) -> list[Reduction]:
    """Of a DTensor whose local tensors are yet to be added up: by what, over which group."""
    found = []
    for axis, placement in enumerate(getattr(tensor, "placements", ())):
        if not placement.is_partial():
            continue
        # Other kinds (of norms, of masked rows) are not reduced by one all-reduce.
        if type(placement) is not Partial or placement.reduce_op not in REDUCES:
            raise Refused(
                f"a result is a DTensor placed as {placement}, whose reduction is not known here",
                "redistribute it to Replicate or Shard before it is returned",
            )
        group = tensor.device_mesh.get_group(axis).group_name
        found.append((str(placement.reduce_op), str(group)))
    return found


REDUCES = ("sum", "avg", "max", "min")


def _check_constants(graph: fx.GraphModule) -> None:
    """A tensor that a trace takes for a constant is none where it shares memory with others of the
    program: it is one of them under another class (`as_subclass`), and the trace lost it."""
    known = {
        storage_of(value)
        for node in graph.graph.nodes
        if node.op != "get_attr" and isinstance(value := node.meta.get("val"), torch.Tensor)
    }
    for node in graph.graph.find_nodes(op="get_attr"):
        value = getattr(graph, node.target, None)
        if isinstance(value, torch.Tensor) and storage_of(value) in known:
            raise Refused(
                "a tensor of the program is used under another class (`as_subclass`, "
                "`_make_subclass`), which a trace does not follow",
                "use the tensor itself",
            )


def _returned_updates(graph: fx.GraphModule, inputs: Sequence[Input]) -> list[str]:
    """What the program writes into its state, or into its arguments, is a result of it: the names
    of those that were added to the graph's. Functionalization writes into inputs at the end."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    output = graph.graph.output_node()
    found: dict[fx.Node, Any] = {}
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        if not node.users:
            found[node.args[0]] = node.args[1]
            graph.graph.erase_node(node)
    names, values = [], list(output.args[0])
    for node, one in zip(placeholders, inputs, strict=True):
        if node in found:
            _check_unshared(one, inputs)
            names.append(f"updated_{result_of(one.kind, one.name)}")
            values.append(found[node])
    output.args = (values,)
    graph.recompile()
    return names


def _modules_of_backward(graph: fx.Graph) -> None:
    """A node of the backward pass belongs to the module of the operator it differentiates: the
    first with its number in autograd's sequence."""
    modules: dict[int, Any] = {}
    for node in graph.nodes:
        number, custom = node.meta.get("seq_nr"), node.meta.get("custom")
        if number is None or node.op != "call_function":
            continue
        if not node.meta.get("autograd_backward"):
            modules.setdefault(number, custom)
        elif not custom and modules.get(number):
            node.meta["custom"] = modules[number]


def _check_unmoved(inputs: Sequence[Input], memory: Sequence[int]) -> None:
    """A trace does not see that ``tensor.data`` becomes another tensor."""
    for one, before in zip(inputs, memory, strict=True):
        if storage_of(one.tensor) != before:
            raise Refused(
                f"the program gives `{one.name}` other memory (`.data = ...`), which a trace does "
                "not see",
                "write into it: .data.copy_(...)",
            )


def _check_unshared(one: Input, inputs: Sequence[Input]) -> None:
    """Inputs are taken as separate: a write into one must not be seen in another."""
    for other in inputs:
        if other is not one and storage_of(other.tensor) == storage_of(one.tensor):
            raise Refused(
                f"`{one.name}` and `{other.name}` share memory, and the program writes into it",
                "let the program hold one of them, and derive the other from it where it is used",
            )
