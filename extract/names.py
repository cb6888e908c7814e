"""Names of operators: without overload, aliases resolved."""

from __future__ import annotations

from gg_datalog.extract.context import Context
from gg_datalog.extract.graph import HIGHER_ORDER, Node
from gg_datalog.extract.signature import packet_of

# Operators that give values when waited for, of the spaces that captured graphs are written in.
COLLECTIVE_SPACES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional")
# Operators that talk to other ranks in ways that no graph describes.
TALKING_SPACES = (*COLLECTIVE_SPACES, "c10d", "symm_mem")
WAITS = ("wait_tensor", "_wrap_tensor_autograd", "in_flight", "in_memory_order", "misused")


def space_of(name: str) -> str:
    """The namespace of an operator."""
    return name.partition(".")[0]


def is_collective(name: str) -> bool:
    """Does the operator wait for other ranks (waiting for its result is not one)?"""
    space, _, kernel = name.partition(".")
    return space in COLLECTIVE_SPACES and kernel not in WAITS


def in_place(name: str) -> bool:
    """Does the operator write into its first operand, by its name? `add_`, `__iadd__`."""
    kernel = name.rpartition(".")[2]
    if kernel.startswith("__") and kernel.endswith("__"):
        return kernel.startswith("__i") and kernel != "__index__"
    return name.count(".") == 1 and name.endswith("_")


def functional(name: str) -> str:
    """The operator that gives what one in place writes: `aten.add` of `aten.add_`."""
    return name.removesuffix("_") if in_place(name) else name


def kernel_of(node: Node) -> str:
    """The target with its overload; of a functionalised kernel the kernel's own."""
    if node.target in HIGHER_ORDER and node.args and isinstance(node.args[0], str):
        return node.args[0]
    return node.target if node.signature is None else node.signature.target


def name_of(ctx: Context, node: Node) -> str:
    """Namespace and name without overload, aliases resolved. An overload that reads the bits as
    another type is another operator."""
    target = kernel_of(node)
    if target in BITS:
        return target
    return ctx.table.called(packet_of(target))


BITS = ("aten.view.dtype", "aten.view_copy.dtype", "prims.view_of_dtype.default")
