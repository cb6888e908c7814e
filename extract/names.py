"""Names of operators: without overload, aliases resolved, operands in their places."""

from __future__ import annotations

from dataclasses import replace

from gg_datalog.extract.context import Context
from gg_datalog.extract.graph import Node, extents

COLLECTIVE_SPACES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d")
HIGHER_ORDER = ("auto_functionalized", "auto_functionalized_v2")
SECOND = ("other", "mat2", "vec", "tensor2")


def is_collective(name: str) -> bool:
    """Does the operator wait for other ranks (waiting for its result is not one)?"""
    space, _, kernel = name.partition(".")
    return space in COLLECTIVE_SPACES and kernel != "wait_tensor"


def positional(node: Node) -> Node:
    """The node with its first two operands in their places, where they are keywords."""
    if node.op != "call_function":
        return node
    shape = extents(node.shape)
    if shape != node.shape:
        node = replace(node, shape=shape)
    if not node.kwargs or not node.target.startswith("aten."):
        return node
    args, kwargs = list(node.args), dict(node.kwargs)
    if not args and "self" in kwargs and "grad_output" not in kwargs:
        args.append(kwargs.pop("self"))
    named = [k for k in SECOND if k in kwargs]
    if len(args) == 1 and len(named) == 1:
        args.append(kwargs.pop(named[0]))
    return replace(node, args=tuple(args), kwargs=kwargs)


def in_place(name: str) -> bool:
    """Does the operator write into its first operand? `add_`, `__iadd__`."""
    kernel = name.rpartition(".")[2]
    if kernel.startswith("__") and kernel.endswith("__"):
        return kernel.startswith("__i") and kernel != "__index__"
    return name.count(".") == 1 and name.endswith("_")


def kernel_of(node: Node) -> str:
    """The target; of a functionalised kernel the kernel's own."""
    if node.target in HIGHER_ORDER and node.args and isinstance(node.args[0], str):
        return node.args[0]
    return node.target


def name_of(ctx: Context, node: Node) -> str:
    """Namespace and name without overload, aliases resolved. An overload that reads the bits as
    another type is another operator."""
    target = kernel_of(node)
    if target.endswith(".dtype"):
        return target
    name = target.rpartition(".")[0] if target.count(".") > 1 else target
    return ctx.table.aliases.get(name, name)
