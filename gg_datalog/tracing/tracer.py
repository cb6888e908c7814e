"""The tracer of torch's ``make_fx``, of which nothing is public. See also ``private.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._C import _functorch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import _lazy_graph_module
from torch.fx.experimental import proxy_tensor


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
KNOWN = ("aten", "prims", "_c10d_functional", "gg_datalog")


@contextmanager
def plain_calls() -> Iterator[None]:
    """Operators on tensors that the trace knows are recorded here, in one walk over their
    arguments; torch's own way, which has many, is for constants, decompositions and the rest."""
    mode: Any = proxy_tensor.ProxyTorchDispatchMode
    original = mode.__torch_dispatch__

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _is_recorded_here(func) or not _is_simple(self, func):
            return original(self, func, types, args, kwargs)
        try:
            given = _argument(args, self.tracer.tensor_tracker)
            named = {k: _argument(v, self.tracer.tensor_tracker) for k, v in kwargs.items()}
        except LookupError:
            return original(self, func, types, args, kwargs)
        return _recorded(self.tracer, func, (given, named), lambda: func(*args, **kwargs))

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


def _argument(value: Any, tracked: Any) -> Any:
    """An argument with nodes for tensors; LookupError for what is recorded in torch's own way."""
    kind = type(value)
    if kind is FakeTensor:
        found = tracked[value]
        if found.constant is not None or value._has_symbolic_sizes_strides:
            raise LookupError
        return found.proxy.node
    if kind in PLAIN:
        return value
    if kind is list or kind is tuple:
        return kind([_argument(item, tracked) for item in value])
    raise LookupError


def _recorded(tracer: Any, func: Any, given: Any, call: Callable[[], Any]) -> Any:
    """What the operator gives; the tensors in it are known by its node."""
    name = tracer.graph._target_to_str(func.overloadpacket.__name__)
    node = tracer.create_node("call_function", func, *given, name)
    out = call()
    proxy = fx.Proxy(node, tracer)
    if type(out) is FakeTensor and not out._has_symbolic_sizes_strides:
        tracer.tensor_tracker[out] = proxy_tensor._ProxyTensor(proxy, None)
        node.meta["val"] = proxy_tensor.snapshot_fake(out)
        return out
    return proxy_tensor.track_tensor_tree(out, proxy, constant=None, tracer=tracer)
