"""Lowering one rank's graph, node by node, to base tensors and operators on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from gg_datalog.errors import InputError
from gg_datalog.extract import (
    lower_backward,
    lower_index,
    lower_math,
    lower_movement,
    lower_optimizer,
)
from gg_datalog.extract.context import (
    HANDLERS,
    SENSELESS,
    Context,
    Unsupported,
    Value,
    attributes,
    senseless,
)
from gg_datalog.extract.dtypes import cast, is_float
from gg_datalog.extract.graph import Node, Ref, extents, references
from gg_datalog.extract.lower_rule import by_rule
from gg_datalog.extract.scale import ONE, finite, scale
from gg_datalog.extract.side import At
from gg_datalog.extract.view import View

COLLECTIVE_SPACES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d")
HIGHER_ORDER = ("auto_functionalized", "auto_functionalized_v2")
RANDOM = frozenset(
    [
        "bernoulli",
        "binomial",
        "cauchy",
        "dirichlet",
        "dropout",
        "exponential",
        "geometric",
        "multinomial",
        "normal",
        "poisson",
        "rand",
        "random",
        "randint",
        "randn",
        "randperm",
        "rrelu",
        "uniform",
    ]
)
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
# What a tensor is in memory, not what it holds, decides these.
STORAGE = frozenset(["as_strided", "set_", "resize_", "data_ptr", "storage_offset", "stride"])
SECOND = ("other", "mat2", "vec", "tensor2")
_ = (lower_backward, lower_index, lower_movement, lower_optimizer)  # they register handlers


@dataclass(frozen=True)
class Call:
    """A collective that waits for the other members of its group."""

    node: Node
    name: str


def lower(ctx: Context) -> Iterator[Call]:
    """Lowers the graph; yields at each collective: the caller puts its result in ``ctx.values``."""
    for captured in ctx.graph.nodes.values():
        ctx.node = node = positional(captured)
        ctx.side.at = At(ctx.rank, node.name, kernel_of(node))
        if node.op == "output":
            continue
        name = name_of(ctx, node)
        if node.op == "call_function" and is_collective(name):
            yield Call(node, name.split(".")[1].rstrip("_"))
            ctx.node = node
        else:
            ctx.values[node.name] = value = checked(ctx, node, value_of(ctx, node, name))
            if node.dtype == "bool" and isinstance(value, View) and value.scale == ONE:
                ctx.side.truths.add(value.base)
        if node.op != "call_function":
            if isinstance(ctx.values[node.name], View):
                ctx.sources[node.name] = ctx.values[node.name]
            continue
        if aliases(ctx, name):
            _share(ctx, node)
        for written in writes(ctx, node, name):
            overwritten(ctx, node, written)


def is_collective(name: str) -> bool:
    """Does the operator wait for other ranks (waiting for its result is not one)?"""
    space, _, kernel = name.partition(".")
    return space in COLLECTIVE_SPACES and kernel != "wait_tensor"


def positional(node: Node) -> Node:
    """The node with its first two operands in their places, where they are keywords."""
    if node.op != "call_function":
        return node
    node = replace(node, shape=extents(node.shape))
    if not node.target.startswith("aten."):
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


def aliases(ctx: Context, name: str) -> bool:
    """May the result lie in the memory of the first operand?"""
    kernel = name.rpartition(".")[2].removesuffix("_copy")
    return kernel in ALIASING or "getitem" in kernel or name in ctx.table.identity or in_place(name)


def _share(ctx: Context, node: Node) -> None:
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
            ctx.values[name] = _unknown(ctx, value)
            reason = f"it may share memory with what `{node.name}` writes in place"
            ctx.notes.unsupported.append((ctx.side.name, ctx.rank, name, node.target, reason))
    result = ctx.values.get(node.name)
    whole = in_place(name_of(ctx, node)) and node.args[0] == Ref(target)
    if whole and isinstance(before, View) and isinstance(result, View):
        ctx.values[target] = result
    else:
        ctx.values[target] = _unknown(ctx, before)


def _unknown(ctx: Context, value: Value) -> Value:
    """Something unknown in the form of ``value``."""
    if isinstance(value, tuple):
        return tuple(_unknown(ctx, v) for v in value)
    return ctx.side.source(value.shape, "opaque") if isinstance(value, View) else value


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


def value_of(ctx: Context, node: Node, name: str) -> Value:
    """What a node that is no collective stands for."""
    if node.op in ("placeholder", "get_attr") or _given(ctx, node):
        return _source(ctx, node)
    if name in ("<built-in function getitem>", "getitem", "_operator.getitem"):
        return _item(ctx, node)
    if name in ("builtin", "<built-in function mul>"):
        return None
    try:
        return _operator(ctx, node, name)
    except Unsupported as reason:
        return _opaque(ctx, node, str(reason))
    except SENSELESS as error:
        raise senseless(ctx, error) from error


def _given(ctx: Context, node: Node) -> bool:
    """Do the input relations name a node without tensor operands?"""
    return node.name in ctx.related and not any(references((node.args, node.kwargs)))


def _source(ctx: Context, node: Node) -> Value:
    shape = node.shape
    if node.op == "get_attr" and isinstance(node.value, (int, float)) and finite(node.value):
        return lower_movement.need(
            ctx.side.constant(scale(node.value)).expanded([int(e) for e in shape or ()])
        )
    if shape is None:
        return None
    if any(isinstance(e, str) for e in shape):
        _note_opaque(ctx, node, "its size is symbolic")
        return None
    kind = "input" if node.name in ctx.related else "opaque"
    view = ctx.side.source([int(e) for e in shape], kind)
    view.base.dtype = node.dtype or ""
    if kind == "opaque":
        _note_opaque(ctx, node, "no input relation speaks of it")
    return view


def _note_opaque(ctx: Context, node: Node, reason: str) -> None:
    ctx.notes.opaque.append((ctx.side.name, ctx.rank, node.name, reason))


def _item(ctx: Context, node: Node) -> Value:
    of, place = ctx.argument(0, ""), ctx.argument(1, "")
    if isinstance(of, dict):
        return of.get(place)
    if isinstance(of, tuple) and isinstance(place, int) and -len(of) <= place < len(of):
        return of[place]
    if isinstance(of, tuple) and of:
        raise InputError(f"item {place!r} of {len(of)} results", ctx.where(), "capture it again")
    return None


def _operator(ctx: Context, node: Node, name: str) -> Value:
    table = ctx.table
    name = name.removesuffix("_") if in_place(name) else name
    ctx.consumed.clear()
    made = _described(ctx, node, name)
    known = ctx.consumed | set(table.placement)
    for keyword, value in ctx.node.kwargs.items():
        if node.target not in HIGHER_ORDER and keyword not in known and value is not None:
            raise Unsupported(f"keyword `{keyword}` is not described")
    return made


def _described(ctx: Context, node: Node, name: str) -> Value:
    table = ctx.table
    if name in table.rows:
        if node.target not in HIGHER_ORDER and mutates(ctx, node, name):
            raise Unsupported("it writes into its operands: capture it functionalised")
        if is_random(ctx, kernel_of(node)):
            raise Unsupported("it draws random numbers")
        ctx.consumed.update(node.kwargs)
        return by_rule(ctx, table.rows[name])
    if name in table.identity:
        return _identity(ctx, node, table.identity[name])
    if name in HANDLERS:
        node_name = node.target
        renamed = _renamed(node, name) if name not in node_name else node
        ctx.node = renamed
        return HANDLERS[name](ctx)
    if name in table.elementwise:
        ctx.node = _renamed(node, name)
        return lower_math.plain(ctx)
    raise Unsupported("not in the operator table")


def _renamed(node: Node, name: str) -> Node:
    overload = kernel_of(node).rpartition(".")[2] if node.target.count(".") > 1 else "default"
    return replace(node, target=f"{name}.{overload}")


def _identity(ctx: Context, node: Node, which: int | str) -> Value:
    """The input itself: casts between float types, and what only moves or logs a tensor."""
    if node.target in HIGHER_ORDER:
        return _functionalised(ctx, node)
    place, keyword = (which, "self") if isinstance(which, int) else (99, which)
    if place >= len(node.args) and keyword not in node.kwargs:
        raise ValueError(f"argument {which} is not there")
    value = ctx.argument(place, keyword)
    of = node.args[place] if place < len(node.args) else node.kwargs[keyword]
    before = ctx.dtype_of(of)
    after = node.dtype or before
    if not isinstance(value, View) or before == after or not before:
        return value
    return cast(ctx, value, before, after)


def _functionalised(ctx: Context, node: Node) -> Value:
    """(result, what the kernel wrote into ...) of a kernel that leaves its tensors alone."""
    bases = ctx.value(node.kwargs.get("_all_bases", ()))
    if not bases:
        bases = tuple(v for v in map(ctx.value, node.kwargs.values()) if isinstance(v, View))
    return (None, *bases)


def _opaque(ctx: Context, node: Node, reason: str) -> Value:
    """An uninterpreted operator: equal operands give equal results, and nothing more."""
    side = ctx.side
    names = list(references((node.args, node.kwargs)))
    views = [ctx.values.get(n) for n in names]
    flat = [v for value in views for v in (value if isinstance(value, tuple) else (value,))]
    kernel = kernel_of(node)
    ctx.notes.unsupported.append((side.name, ctx.rank, node.name, kernel, reason))
    shapes = result_shapes(ctx, node)
    needs = [v.base for v in flat if isinstance(v, View)]
    stored = bool(STORAGE & set(kernel.split(".")))
    if any(v is None for v in flat) or not shapes or stored or is_random(ctx, kernel):
        outs = [None if s is None else side.source(s, "opaque", needs) for s in shapes]
        return outs[0] if node.shape is not None and outs else tuple(outs)
    ctx.notes.assume(
        "uninterpreted operator", f"{kernel} is a function of its operands and attributes"
    )
    operands = [(v, [f"o{i}.{k}" for k in range(len(v.dims))]) for i, v in enumerate(flat)]
    letters = [[f"r{i}.{k}" for k in range(len(s or ()))] for i, s in enumerate(shapes)]
    created = {
        n: e
        for row, s in zip(letters, shapes, strict=True)
        for n, e in zip(row, s or (), strict=True)
    }
    given = [v.shape for v in flat]
    types = [_class(ctx.dtype_of(Ref(n))) for n in names] + [_class(node.dtype or "")]
    asked = node.kwargs.get("dtype")
    signature = f"{kernel}({attributes(ctx)}) {given} {types} {asked} -> {created}"

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return letter, "created" if letter in created else "whole"

    made = side.operator(signature, operands, letters, naming, created)
    if made is None:
        made = [side.source(s or (), "opaque", needs) for s in shapes]
    kept = [None if s is None else v for v, s in zip(made, shapes, strict=True)]
    return kept[0] if node.shape is not None else tuple(kept)


def _class(dtype: str) -> str:
    return "float" if is_float(dtype) else dtype


def is_random(ctx: Context, kernel: str) -> bool:
    """Does the kernel draw random numbers, by its name or by a dropout probability?"""
    words = {w for part in kernel.split(".") for w in part.split("_")}
    rates = [v for k, v in ctx.node.kwargs.items() if "dropout" in k]
    if "attention" in words or "attn" in words:  # a dropout probability, or a scale: who knows
        rates += [v for v in ctx.node.args if isinstance(v, float) and v <= 1]
    return bool(words & RANDOM) or any(isinstance(v, float) and v > 0 for v in rates)


def result_shapes(ctx: Context, node: Node) -> list[tuple[int, ...] | None]:
    """Shapes of the results: of the node, or as the items taken from it tell."""
    if node.shape is not None:
        return [] if any(isinstance(e, str) for e in node.shape) else [_ints(node.shape)]
    found: dict[int, tuple[int, ...] | None] = {}
    for user in ctx.graph.nodes.values():
        item = len(user.args) == 2 and user.args[0] == Ref(node.name) and "getitem" in user.target
        shape = extents(user.shape)
        if item and isinstance(user.args[1], int) and shape is not None:
            symbolic = any(isinstance(e, str) for e in shape)
            found[user.args[1]] = None if symbolic else _ints(shape)
    return [found.get(i) for i in range(max(found) + 1)] if found else []


def _ints(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(int(e) for e in shape)


def checked(ctx: Context, node: Node, value: Value) -> Value:
    """The value, if its shape is what the graph says."""
    if not isinstance(value, View) or node.shape is None or value.shape == node.shape:
        return value
    if any(isinstance(e, str) for e in node.shape):
        return None
    if prod(value.shape) == prod(_ints(node.shape)):
        again = value.reshaped(_ints(node.shape))
        if again is not None and "getitem" in node.target:
            return again
    raise InputError(
        f"its shape is given as {list(node.shape)}, its operands make it {list(value.shape)}",
        ctx.where(),
        "the shapes of the graph do not add up: capture it again",
    )
