"""A traced graph without writes into operands.

torch's functionalization runs a graph once more. Only what has to do with memory that is written is
run; all other nodes stay what they are, and are carried over.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from gg_datalog.tracing.private import FakeTensor, FakeTensorMode, fx_traceback, make_fx, storage_of
from gg_datalog.tracing.tracer import (
    as_functional,
    current_tracer,
    has_kernel,
    lazy_modules,
    node_of_functional,
    plain_node,
    track,
)

SPLITS = {
    torch.ops.aten.unsafe_split.Tensor: torch.ops.aten.split.Tensor,
    torch.ops.aten.unsafe_split_with_sizes.default: torch.ops.aten.split_with_sizes.default,
    torch.ops.aten.unsafe_chunk.default: torch.ops.aten.chunk.default,
}
WAIT = torch.ops._c10d_functional.wait_tensor.default
FRESH = torch.ops.aten.lift_fresh_copy.default
SAME = (torch.ops.aten._unsafe_view.default, torch.ops.aten._to_copy.default)
DETACHED = torch.ops.aten.view.dtype  # comes with a second operator, whenever it is run


def functionalized(
    graph: fx.GraphModule, tensors: Sequence[torch.Tensor], mode: FakeTensorMode
) -> fx.GraphModule:
    """The same graph without writes into operands; lines and modules stay."""

    def forward(*args: torch.Tensor) -> Any:
        return _Aliasing(graph).run(*args)

    fresh = [tensor.detach() for tensor in tensors]
    with mode, fx_traceback.preserve_node_meta(), torch.no_grad(), lazy_modules():
        call = torch.func.functionalize(forward, remove="mutations")
        return make_fx(call, tracing_mode="real", _disable_torch_fn_metadata_mode=True)(*fresh)


@dataclass(frozen=True, eq=False, slots=True)
class _Carried:
    """What a node gives that was carried over: the new node, and the tensor that is known of it."""

    node: fx.Node
    value: torch.Tensor


class _Aliasing(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph with the aliases that there are: functionalization believes schemas, and those
    of some operators have no mark. Chunks that are called unsafe are views, and what is waited for
    is the operand itself."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.stay = set(_untouched(module.graph))

    def run_node(self, n: fx.Node) -> Any:
        """As the node says, or as the operator that has the mark."""
        if n in self.stay:
            return self._carried(n)
        for one in n.all_input_nodes:
            if isinstance(carried := self.env[one], _Carried):
                track(carried.value, carried.node)
                self.env[one] = as_functional(carried.value)
        if n.target in SPLITS:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            with self._set_current_node(n):
                return SPLITS[n.target](*args, **kwargs)
        if n.target is not WAIT or _is_first(n):
            return super().run_node(n)
        (operand,), _ = self.fetch_args_kwargs_from_env(n)
        if _is_there(n.args[0]):
            return operand  # waiting once more, or for what nothing is to come into
        return operand.copy_(super().run_node(n))

    def _carried(self, n: fx.Node) -> Any:
        if n.target is operator.getitem:
            of, place = n.args
            return self.env[of][place]
        args, kwargs = (fx.node.map_arg(given, self._new) for given in (n.args, n.kwargs))
        node = plain_node(current_tracer().graph, n.target, args, kwargs)
        node.meta = dict(n.meta)
        value = n.meta["val"]
        if isinstance(value, torch.Tensor):
            return _Carried(node, value)
        return [self._item(node, place, one) for place, one in enumerate(value)]

    def _item(self, node: fx.Node, place: int, value: Any) -> Any:
        """One of several results, which has a node whether it is read or not."""
        item = node.graph.create_node("call_function", operator.getitem, (node, place))
        item.meta = {**node.meta, "val": value}
        return _Carried(item, value)

    def _new(self, n: fx.Node) -> fx.Node:
        value = self.env[n]
        return value.node if isinstance(value, _Carried) else node_of_functional(value)


def _untouched(graph: fx.Graph) -> Iterator[fx.Node]:
    """The nodes that functionalization leaves as they are: plain operators that do not look at
    memory of others. None where a constant is used as it is: its memory is not known."""
    constants = graph.find_nodes(op="get_attr")
    if any(user.target is not FRESH for one in constants for user in one.users):
        return
    calls = [node for node in graph.nodes if node.op == "call_function"]
    others = [node for node in calls if not _is_plain(node)]
    touched = {s for one in others for node in (*one.all_input_nodes, one) for s in _memory(node)}
    found: set[fx.Node] = set()
    for node in calls:
        if node.target is operator.getitem:
            untouched = node.args[0] in found
        else:
            near = (*node.all_input_nodes, node)
            untouched = _is_plain(node) and touched.isdisjoint(s for n in near for s in _memory(n))
        if untouched:
            found.add(node)
            yield node


def _is_plain(node: fx.Node) -> bool:
    """Does functionalization leave the operator as it is, where nobody writes into its memory?"""
    if node.target is operator.getitem:
        return True
    if node.target is WAIT and not _is_first(node):
        return False
    known = isinstance(node.target, torch._ops.OpOverload) and _stays(node.target)
    value = node.meta.get("val")
    several = value if isinstance(value, (list, tuple)) else [value]
    return known and all(type(one) is FakeTensor for one in several)


@cache
def _stays(target: torch._ops.OpOverload) -> bool:
    schema = target._schema
    if schema.is_mutable or target in SPLITS or target in (FRESH, DETACHED):
        return False
    is_view = any(result.alias_info is not None for result in schema.returns)
    known = is_view or target in SAME or not has_kernel(target, "Functionalize")
    return known and not has_kernel(target, "CompositeImplicitAutograd")


def _memory(node: fx.Node) -> list[int]:
    """The storages of what a node gives."""
    values = pytree.tree_leaves(node.meta.get("val"))
    return [storage_of(one) for one in values if isinstance(one, torch.Tensor)]


def _is_there(node: Any) -> bool:
    """Is it surely no result of a collective that is under way, nor an item of such results?"""
    computed = getattr(node.target, "namespace", "") == "aten"
    return node.op == "placeholder" or node.target is WAIT or computed


def _is_first(wait: fx.Node) -> bool:
    """Is it the only one that looks at what a collective gives? Then it has no other name."""
    (of,) = wait.args
    return not _is_there(of) and len(of.users) == 1
