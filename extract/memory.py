"""Memory that nodes share, and what is written into it."""

from __future__ import annotations

from gg_datalog.extract.context import Context, Value
from gg_datalog.extract.graph import Node, Ref, references
from gg_datalog.extract.names import COLLECTIVE_SPACES, HIGHER_ORDER, in_place, name_of
from gg_datalog.extract.side import At
from gg_datalog.extract.view import View

# Results that may lie in the memory of the first operand, beside those that are the operand.
# fmt: off
ALIASING = frozenset([
    "_reshape_alias", "_unsafe_view", "as_strided", "chunk", "diagonal", "expand", "expand_as",
    "flatten", "getitem", "movedim", "narrow", "permute", "ravel", "real", "imag", "reshape",
    "reshape_as", "select", "slice", "split", "split_with_sizes", "squeeze", "swapaxes",
    "swapdims", "t", "tensor_split", "transpose", "unbind", "unflatten", "unfold", "unsqueeze",
    "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "view", "view_as",
    "wait_tensor",
])
# fmt: on


def aliases(ctx: Context, name: str) -> bool:
    """May the result lie in the memory of the first operand?"""
    kernel = name.rpartition(".")[2].removesuffix("_copy")
    return kernel in ALIASING or "getitem" in kernel or name in ctx.table.identity or in_place(name)


def share(ctx: Context, node: Node) -> None:
    """Notes that the result may lie in the memory of the first operand."""
    whole = {node.name}
    for name in references(node.args[:1]):
        whole |= ctx.memory.get(name, {name})
    for name in whole:
        ctx.memory[name] = whole


def writes(ctx: Context, node: Node, name: str) -> list[str]:
    """The nodes whose memory the operator writes into."""
    found: list[str] = []
    if in_place(name):
        found += references(node.args[:1])
    for keyword, value in node.kwargs.items():
        if keyword == "out" or keyword.startswith("out_") or keyword.endswith("_out"):
            found += references((value,))
    if name.endswith(".irecv"):  # it may be received into the memory of the operand
        found += references(node.args[:1])
    if name.endswith(".batch_p2p_ops"):
        kinds, tensors = node.args[0], node.args[3]
        found += references([t for k, t in zip(kinds, tensors, strict=True) if k == "irecv"])
    if node.target not in HIGHER_ORDER and mutates(ctx, node, name):
        found += references((node.args, node.kwargs))
    return list(dict.fromkeys(found))


def mutates(ctx: Context, node: Node, name: str) -> bool:
    """Is it a kernel that writes into its operands and was captured as it is? The table describes
    such kernels by what they write; others give nothing back."""
    rows = ctx.table.rows.get(name)
    if rows is not None:
        return all(bool(row.results) and min(row.results) > 0 for row in rows)
    space, _, _ = name.partition(".")
    return (
        "." in name
        and space not in ("aten", "prims", "hlo", "_operator", "builtins", *COLLECTIVE_SPACES)
        and node.shape is None
        and not any(Ref(node.name) in user.args for user in ctx.graph.nodes.values())
    )


def overwritten(ctx: Context, node: Node, target: str) -> None:
    """After a write the operand is the result, where there is one result for one operand; whatever
    else may share its memory is not known any more."""
    before = ctx.values.get(target)
    shared = set(ctx.memory.get(target, ())) | {target}
    for name, value in ctx.values.items():
        same = isinstance(value, View) and isinstance(before, View) and value.base is before.base
        if name not in (node.name, target) and (same or name in shared):
            ctx.side.at = At(ctx.rank, name, "overwritten")
            ctx.values[name] = unknown(ctx, value)
            reason = f"it may share memory with what `{node.name}` writes in place"
            ctx.notes.unsupported.append((ctx.side.name, ctx.rank, name, node.target, reason))
    result = ctx.values.get(node.name)
    whole = in_place(name_of(ctx, node)) and node.args[0] == Ref(target)
    if whole and isinstance(before, View) and isinstance(result, View):
        ctx.values[target] = result
    else:
        ctx.values[target] = unknown(ctx, before)


def unknown(ctx: Context, value: Value) -> Value:
    """Something unknown in the form of ``value``."""
    if isinstance(value, tuple):
        return tuple(unknown(ctx, v) for v in value)
    return ctx.side.source(value.shape, "opaque") if isinstance(value, View) else value
