"""The tracer of torch's ``make_fx``, of which nothing is public. See also ``private.py``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._C import _functorch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import _lazy_graph_module
from torch.fx import traceback as fx_traceback
from torch.fx.experimental import proxy_tensor

from gg_datalog.tracing.remembered import performed, snapshot
from gg_datalog.tracing.source import traced_line


def lazy_modules() -> Any:
    """A context in which traced graphs become modules whose Python code nobody writes."""
    return _lazy_graph_module._use_lazy_graph_module(True)


def current_tracer() -> Any:
    """The tracer of the trace that goes on."""
    return proxy_tensor.get_proxy_mode().tracer


def track(tensor: torch.Tensor, node: fx.Node) -> None:
    """What is done with the tensor from now on is done with the result of the node."""
    tracer = current_tracer()
    tracer.tensor_tracker[tensor] = proxy_tensor._ProxyTensor(fx.Proxy(node, tracer), None)


def as_functional(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as functionalization has those that are computed under it."""
    return _functorch._wrap_functional_tensor(tensor, _functorch.current_level())


def node_of_functional(tensor: torch.Tensor) -> fx.Node:
    """The node of a tensor that functionalization has, which nothing has written into."""
    inner = _functorch._unwrap_functional_tensor(tensor, True)
    return current_tracer().tensor_tracker[inner].proxy.node


@cache
def has_kernel(target: torch._ops.OpOverload, key: str) -> bool:
    """Has the operator a kernel of its own for this key of the dispatcher?"""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key))


# ---- recording
PLAIN = (
    int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout,
    torch.memory_format,
)  # fmt: skip
ASIDE = (
    torch.ops.aten.lift_fresh.default,
    torch.ops.aten.is_nonzero.default,
    torch.ops.prim.device.default,
)
STAYS = ("custom", "nn_module_stack", "fwd_nn_module_stack")
GRADIENTS_ADDED = fx_traceback.GRADIENT_ACC_SPECIAL_STACK
KNOWN = ("aten", "prims", "_c10d_functional", "gg_datalog")


@contextmanager
def plain_calls(as_written: bool) -> Iterator[None]:
    """Operators on tensors that the trace knows are recorded here, in one walk over their
    arguments; torch's own way, which has many, is for constants, decompositions and the rest.

    ``as_written``: it is the user's code that runs, so that a node belongs to the line, the module
    and the node of autograd at which it is made. Where a graph is run again, torch knows more.
    """
    noted = _noted if as_written else _noted_by_torch
    mode: Any = proxy_tensor.ProxyTorchDispatchMode
    original = mode.__torch_dispatch__

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _is_recorded_here(func) or not _is_simple(self, func):
            return original(self, func, types, args, kwargs)
        tracked, tensors = self.tracer.tensor_tracker, list[Any]()
        try:
            given = _argument(args, tracked, tensors)
            named = {k: _argument(v, tracked, tensors) for k, v in kwargs.items()}
        except LookupError:
            return original(self, func, types, args, kwargs)
        node = noted(self.tracer, func, given, named)
        return _known_by(self.tracer, node, performed(func, args, kwargs, tensors))

    mode.__torch_dispatch__ = dispatch
    try:
        yield
    finally:
        mode.__torch_dispatch__ = original


@cache
def _is_recorded_here(func: Any) -> bool:
    """Is it an operator whose node is all that a trace has of it?"""
    if not isinstance(func, torch._ops.OpOverload) or func in ASIDE or func.namespace not in KNOWN:
        return False
    dependent = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & {*func.tags}
    return not dependent and not has_kernel(func, "CompositeImplicitAutograd")


def _is_simple(mode: Any, func: Any) -> bool:
    """Does the trace record the operator as it is?"""
    kept = proxy_tensor._is_proxy_tensor_update_tensor_tracker_disabled()
    changed = mode.pre_dispatch or func in mode.decomposition_table or mode.emulate_precision_casts
    return not (kept or changed)


def _argument(value: Any, tracked: Any, tensors: list[Any]) -> Any:
    """An argument with nodes for tensors, which are added to those that are given; LookupError for
    what is recorded in torch's own way."""
    kind = type(value)
    if kind is FakeTensor:
        found = tracked[value]
        if found.constant is not None or value._has_symbolic_sizes_strides:
            raise LookupError
        tensors.append(value)
        return found.proxy.node
    if kind in PLAIN:
        return value
    if kind is list or kind is tuple:
        return kind([_argument(item, tracked, tensors) for item in value])
    raise LookupError


def _noted(tracer: Any, func: Any, given: Any, named: Any) -> fx.Node:
    """A node of the operator, with what is known of it at this place: its line, its module, and
    its place in autograd's sequence."""
    node = plain_node(tracer.graph, func, given, named)
    meta = fx_traceback.current_meta
    for field in STAYS:
        if field in meta:
            node.meta[field] = meta[field]
    node.meta["seq_nr"] = _place_in_sequence(meta)
    stack = meta.get("stack_trace")
    line, in_backward = traced_line()
    node.meta["stack_trace"] = line if in_backward or not stack else stack
    if meta.get("autograd_backward") or (stack and GRADIENTS_ADDED in stack):
        node.meta["autograd_backward"] = True
    return node


def _noted_by_torch(tracer: Any, func: Any, given: Any, named: Any) -> fx.Node:
    name = tracer.graph._target_to_str(func.overloadpacket.__name__)
    node: fx.Node = tracer.create_node("call_function", func, given, named, name)
    return node


def plain_node(graph: fx.Graph, func: Any, args: Any, kwargs: Any) -> fx.Node:
    """A node of an operator at the end of the graph. Arguments come into it afterwards: those that
    it is made with are searched for symbols, and plain ones have none."""
    name = graph._target_to_str(func.overloadpacket.__name__)
    node = graph.create_node("call_function", func, name=name)
    node.args = args
    if kwargs:
        node.kwargs = kwargs
    return node


def _place_in_sequence(meta: dict[str, Any]) -> int:
    """The number of the node of autograd that runs, or of the one that was just made."""
    if meta.get("in_grad_fn", 0) > 0:
        return int(meta["grad_fn_seq_nr"][-1])
    return int(torch.autograd._get_sequence_nr()) - 1


def _known_by(tracer: Any, node: fx.Node, out: Any) -> Any:
    """What the operator gave; the tensors in it are known by its node."""
    proxy = fx.Proxy(node, tracer)
    if type(out) is FakeTensor and not out._has_symbolic_sizes_strides:
        tracer.tensor_tracker[out] = proxy_tensor._ProxyTensor(proxy, None)
        node.meta["val"] = snapshot(out)
        return out
    return proxy_tensor.track_tensor_tree(out, proxy, constant=None, tracer=tracer)
