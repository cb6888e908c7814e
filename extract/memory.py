"""Memory that nodes share, and what is written into it, as the signatures of operators say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gg_datalog.extract.context import Context, Value
from gg_datalog.extract.graph import HIGHER_ORDER, Node, Ref, references
from gg_datalog.extract.names import TALKING_SPACES, in_place, name_of, space_of
from gg_datalog.extract.side import At
from gg_datalog.extract.view import View

PURE_SPACES = ("hlo", "_operator", "builtins")  # their operators return memory of their own


def origins(ctx: Context, node: Node, name: str) -> Iterator[str]:
    """The nodes in whose memory a result may lie."""
    if node.target in HIGHER_ORDER or _copied(ctx, node):
        return
    if "getitem" in node.target:
        whole = list(references(node.args[:1]))
        yield from _siblings(ctx, node, *whole) if _is_own(ctx, whole) else whole
    elif node.signature is not None:
        for parameter in node.signature.parameters:
            if parameter.tensor and node.signature.returned(parameter.name):
                yield from references((node.bound[parameter.name],))
    elif space_of(name) not in PURE_SPACES and name not in ctx.table.rows:
        yield from node.references


def _is_own(ctx: Context, whole: Sequence[str]) -> bool:
    """Are they the results of a collective each of whose results is memory of its own?"""
    if len(whole) != 1 or whole[0] not in ctx.collectives:
        return False
    signature = ctx.graph.nodes[whole[0]].signature
    return signature is not None and not any(signature.results)


def _siblings(ctx: Context, item: Node, whole: str) -> Iterator[str]:
    """The nodes before it that take the same result."""
    for other in ctx.graph.users[whole]:
        if other.name == item.name:
            return
        if other.target == item.target and other.args == item.args:
            yield other.name


def _copied(ctx: Context, node: Node) -> bool:
    """Is the result surely memory of its own: a copy that was asked for, or of another type?"""
    if node.signature is None or node.bound.get("copy") is True:
        return node.signature is not None
    first = next(iter(node.bound.values()), None)
    before, after = ctx.dtype_of(first), node.dtype or ""
    casts = "dtype" in node.bound or node.target.startswith(CASTS)
    return casts and bool(before) and bool(after) and before != after


CASTS = ("aten.type_as.", "aten.to.", "aten._cast_")


def share(ctx: Context, node: Node, name: str) -> None:
    """Notes in whose memory the results of the node may lie."""
    whole = {node.name}
    for origin in origins(ctx, node, name):
        whole |= ctx.memory.get(origin, {origin})
    if len(whole) > 1:
        for one in whole:
            ctx.memory[one] = whole


def writes(ctx: Context, node: Node, name: str) -> Iterator[tuple[str, int | None]]:
    """The nodes whose memory the operator writes into, and the place of the result that they are
    afterwards (None: unknown)."""
    if node.target in HIGHER_ORDER:
        return
    if name.endswith(".batch_p2p_ops"):  # what it receives may come into the given memory
        kinds, tensors = node.bound["op_list"], node.bound["tensors"]
        pairs = zip(kinds, tensors, strict=False)
        yield from ((n, None) for k, t in pairs if k == "irecv" for n in references((t,)))
    elif node.signature is not None:
        yield from _written(node)
    else:
        found = list(references(node.args[:1])) if in_place(name) else []
        found += [n for k, v in node.kwargs.items() if _is_out(k) for n in references((v,))]
        if mutates(ctx, node, name):
            found += node.references
        yield from ((n, None) for n in dict.fromkeys(found))


def _is_out(keyword: str) -> bool:
    return keyword == "out" or keyword.startswith("out_") or keyword.endswith("_out")


def _written(node: Node) -> Iterator[tuple[str, int | None]]:
    """By the signature: a single tensor is afterwards the result that shares its memory."""
    assert node.signature is not None
    for parameter in node.signature.parameters:
        if parameter.name not in node.signature.written(node.bound):
            continue
        value = node.bound[parameter.name]
        shared = [i for i, r in enumerate(node.signature.results) if r & parameter.aliases]
        place = shared[0] if len(shared) == 1 and isinstance(value, Ref) else None
        yield from ((name, place) for name in references((value,)))


def mutates(ctx: Context, node: Node, name: str) -> bool:
    """Is it a kernel without a known signature that writes into its operands and was captured as
    it is? The table describes such kernels by what they write; others give nothing back."""
    rows = ctx.table.rows.get(name)
    if rows is not None:
        return all(bool(row.results) and min(row.results) > 0 for row in rows)
    return (
        "." in name
        and node.signature is None
        and space_of(name) not in (*PURE_SPACES, "prims", *TALKING_SPACES)
        and node.shape is None
        and not any(Ref(node.name) in user.args for user in ctx.graph.nodes.values())
    )


def overwritten(ctx: Context, node: Node, target: str, place: int | None) -> None:
    """After a write the operand is the result in ``place``; whatever else may share its memory is
    not known any more."""
    before = ctx.values.get(target)
    for name in set(ctx.memory.get(target, ())) - {node.name, target}:
        if name not in ctx.values:
            continue
        ctx.side.at = At(ctx.rank, name, "overwritten")
        ctx.values[name] = unknown(ctx, ctx.values[name])
        reason = f"it may share memory with what `{node.name}` writes in place"
        ctx.notes.unsupported.append((ctx.side.name, ctx.rank, name, node.target, reason))
    result = ctx.values.get(node.name)
    if isinstance(result, tuple) and place is not None:
        result = result[place] if place < len(result) else None
    known = place is not None and isinstance(before, View) and isinstance(result, View)
    if known and isinstance(result, View) and result.shape == before.shape:  # type: ignore[union-attr]
        ctx.values[target] = result
        return
    ctx.values[target] = unknown(ctx, before)
    if all(user.name == node.name for user in ctx.graph.users.get(target, ())):
        return  # nothing looks at it
    reason = f"`{node.name}` writes into it in a way that is not described"
    ctx.notes.unsupported.append((ctx.side.name, ctx.rank, target, name_of(ctx, node), reason))


def unknown(ctx: Context, value: Value) -> Value:
    """Something unknown in the form of ``value``."""
    if isinstance(value, tuple):
        return tuple(unknown(ctx, v) for v in value)
    return ctx.side.source(value.shape, "opaque") if isinstance(value, View) else value
