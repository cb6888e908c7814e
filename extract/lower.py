"""Lowering one rank's graph, node by node, to base tensors and operators on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from gg_datalog.extract import (
    lower_along,
    lower_attention,
    lower_backward,
    lower_bits,
    lower_channels,
    lower_contract,
    lower_errors,
    lower_experts,
    lower_index,
    lower_lookup,
    lower_loss,
    lower_mask,
    lower_math,
    lower_movement,
    lower_norms,
    lower_optimizer,
    lower_positions,
    lower_product,
    lower_random,
    lower_reduce,
    lower_select,
    lower_softmax,
)
from gg_datalog.extract.context import (
    HANDLERS,
    SENSELESS,
    Context,
    Unsupported,
    Value,
    _ints,
    attributes,
    result_shapes,
    senseless,
    used,
)
from gg_datalog.extract.dtypes import cast, is_integer, valued, within
from gg_datalog.extract.flight import arrive, depart
from gg_datalog.extract.graph import HIGHER_ORDER, Node, Ref, extents, references
from gg_datalog.extract.late import divided_late
from gg_datalog.extract.lower_rule import by_rule
from gg_datalog.extract.memory import mutates, overwritten, share, writes
from gg_datalog.extract.names import (
    TALKING_SPACES,
    functional,
    is_collective,
    kernel_of,
    name_of,
    space_of,
)
from gg_datalog.extract.scale import ONE, finite
from gg_datalog.extract.side import At
from gg_datalog.extract.signature import Unbound, bound, packet_of
from gg_datalog.extract.tabulated import tabulated
from gg_datalog.extract.view import View
from gg_datalog.foundation.errors import InputError

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
# What a tensor is in memory, not what it holds, decides these.
STORAGE = frozenset(["as_strided", "set_", "resize_", "data_ptr", "storage_offset", "stride"])
# Operators that give elements for tensors of none: what is put behind each other or has something
# around it, sums (0), and what is only of their type.
OF_NOTHING = frozenset(
    ["aten.cat", "aten.concat", "aten.concatenate", "hlo.concatenate", "aten.sum", "aten.mm",
     "aten.slice_backward", "aten.constant_pad_nd", "aten.new_zeros", "aten.new_ones",
     "aten.new_full", "aten.new_empty"]
)  # fmt: skip
EMPTY = re.compile(r"\.(new_)?_?empty")  # memory that nobody has written
# They register handlers.
_ = (
    lower_along,
    lower_attention,
    lower_backward,
    lower_bits,
    lower_channels,
    lower_contract,
    lower_errors,
    lower_experts,
    lower_index,
    lower_loss,
    lower_lookup,
    lower_mask,
    lower_math,
    lower_movement,
    lower_norms,
    lower_optimizer,
    lower_positions,
    lower_product,
    lower_random,
    lower_reduce,
    lower_select,
    lower_softmax,
)


@dataclass(frozen=True)
class Call:
    """A collective that waits for the other members of its group, or what waits for a transfer
    that was started: then ``of`` is its node."""

    node: Node
    name: str
    of: str = ""


def lower(ctx: Context) -> Iterator[Call]:
    """Lowers the graph; yields at each collective: the caller puts its result in ``ctx.values``."""
    for captured in ctx.graph.nodes.values():
        ctx.node = node = _prepared(ctx, captured)
        ctx.side.at = At(ctx.rank, node.name, kernel_of(node))
        if node.draw:
            seed, state, form = (*node.draw.split(":"), "")[:3]
            told = ("-", "") if seed == "-" else (f"{seed}:{state}", form)
            ctx.side.streams[ctx.rank, node.name] = told
        if node.op == "output":
            continue
        name = name_of(ctx, node)
        if node.op == "call_function" and is_collective(name):
            yield Call(node, name.split(".")[1].rstrip("_"))
            ctx.node = node
        else:
            for one in _transfers(ctx, node, name):
                yield Call(node, "wait_tensor", one)
                ctx.node = node
            arrive(ctx, node, name)
            value = checked(ctx, node, value_of(ctx, node, name))
            if isinstance(value, View) and ctx.side.is_one(value):
                value = within(value, node.dtype or "")
            value = tabulated(ctx, node, name, value)
            ctx.values[node.name] = value
            _typed(ctx, node, value)
            divided_late(ctx, node, functional(name), value, _described)
        if node.op != "call_function":
            if isinstance(ctx.values[node.name], View):
                ctx.sources[node.name] = ctx.values[node.name]
            continue
        share(ctx, node, name)
        into = list(writes(ctx, node, name))
        for written, place in into:
            overwritten(ctx, node, written, place)
        depart(ctx, node, name, [written for written, _ in into])


def _transfers(ctx: Context, node: Node, name: str) -> list[str]:
    """The transfers that a node waits for."""
    if not name.endswith(".wait_tensor"):
        return []
    return [one for one in node.references if one in ctx.started]


def _typed(ctx: Context, node: Node, value: Value) -> None:
    """Notes the type of what the node gives with its base, unless that had one before."""
    if not isinstance(value, View) or not node.dtype or value.base.kind == "constant":
        return
    if not value.base.dtype and value.scale == ONE:
        value.base.dtype = node.dtype
    if node.dtype == "bool" and value.scale == ONE:
        ctx.side.notes.truths.add(value.base)


def _prepared(ctx: Context, node: Node) -> Node:
    """The node with sizes for symbols; a kernel that the table calls by another name has the
    arguments of that one."""
    shape = extents(node.shape)
    if shape != node.shape:
        node = replace(node, shape=shape)
    if node.signature is not None or node.op != "call_function" or node.target in HIGHER_ORDER:
        return node
    for other in ctx.table.links(packet_of(node.target))[1:]:
        try:
            found = bound(other, node.args, node.kwargs)
        except Unbound:
            break
        if found is not None:
            return replace(node, bound=dict(found[1]))
    return node


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
    except ValueError as error:
        raise senseless(ctx, error) from error
    except SENSELESS as error:
        signature = ctx.node.signature
        if signature is not None and signature.fits(ctx.node.bound):
            return _opaque(ctx, node, f"its arguments are not described ({error})")
        raise senseless(ctx, error) from error


def _given(ctx: Context, node: Node) -> bool:
    """Do the input relations name a node without tensor operands?"""
    return node.name in ctx.related and not node.references


def _literal(ctx: Context, node: Node) -> View | None:
    """Integers that the graph holds, where no input relation speaks of them."""
    if node.op != "get_attr" or not isinstance(node.value, list) or node.name in ctx.related:
        return None
    values = _integers(node)
    return None if values is None else lower_positions.literal(ctx, values, _ints(node.shape or ()))


def _integers(node: Node) -> tuple[int, ...] | None:
    """The integers that a node of an integer type holds, row by row, where the graph says them."""
    if not isinstance(node.value, list) or not is_integer(node.dtype or ""):
        return None
    flat = tuple(_flat(node.value))
    whole = all(type(n) is int for n in flat)
    return flat if whole and len(flat) == prod(_ints(node.shape or ())) else None


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        yield from _flat(value) if isinstance(value, list) else (value,)


def _source(ctx: Context, node: Node) -> Value:
    shape = node.shape
    if node.op == "get_attr" and isinstance(node.value, (int, float)) and finite(node.value):
        return lower_movement.need(
            ctx.side.constant(ctx.scale(node.value)).expanded([int(e) for e in shape or ()])
        )
    if (known := _literal(ctx, node)) is not None:
        return known
    if shape is None:
        return None
    if any(isinstance(e, str) for e in shape):
        _note_opaque(ctx, node, "its size is symbolic")
        return None
    kind = "input" if node.name in ctx.related else "opaque"
    view = ctx.side.source([int(e) for e in shape], kind)
    view.base.dtype = node.dtype or ""
    if node.name in ctx.ids:
        ctx.side.notes.ids[view.base] = ctx.ids[node.name]
    if (values := _integers(node)) is not None and len(values) > 1 == len(view.dims):
        ctx.side.notes.known[view.base] = values
    if kind == "opaque":
        _note_opaque(ctx, node, "no input relation speaks of it")
    return view


def _note_opaque(ctx: Context, node: Node, reason: str) -> None:
    ctx.notes.opaque.append((ctx.side.name, ctx.rank, node.name, reason))


def _is_nothing(ctx: Context, node: Node, place: Any) -> bool:
    """Is it a result that an operator has, but here no tensor (the gradient of a bias that is
    not there)?"""
    (of, _) = node.args
    made = ctx.graph.nodes.get(of.name) if isinstance(of, Ref) else None
    signature = None if made is None else made.signature
    known = signature is not None and isinstance(place, int) and place < len(signature.results)
    return known and node.shape is None


def _item(ctx: Context, node: Node) -> Value:
    of, place = (ctx.value(a) for a in node.args)
    if isinstance(of, dict):
        return of.get(place)
    if isinstance(of, tuple) and isinstance(place, int) and -len(of) <= place < len(of):
        return of[place]
    if isinstance(of, tuple) and of and _is_nothing(ctx, node, place):
        return None
    if isinstance(of, tuple) and of:
        raise InputError(f"item {place!r} of {len(of)} results", ctx.where(), "capture it again")
    return None


def _operator(ctx: Context, node: Node, name: str) -> Value:
    ctx.consumed.clear()
    if _uses_nothing(ctx, node):
        sizes = node.shape or ()
        if 0 in sizes and all(isinstance(extent, int) for extent in sizes):
            return lower_movement.zeros_of(ctx, _ints(sizes))
        if functional(name) not in OF_NOTHING:
            raise Unsupported("what it gives of tensors without elements is not known")
    made = _described(ctx, node, functional(name))
    if node.target not in HIGHER_ORDER:
        used(ctx)
    return made


def _uses_nothing(ctx: Context, node: Node) -> bool:
    """Has one of its operands no elements?"""
    given = (ctx.values.get(name) for name in node.references)
    return any(isinstance(value, View) and 0 in value.shape for value in given)


def _described(ctx: Context, node: Node, name: str) -> Value:
    table = ctx.table
    if name in table.rows:
        if node.target not in HIGHER_ORDER and mutates(ctx, node, name):
            raise Unsupported("it writes into its operands: capture it functionalised")
        if is_random(ctx, kernel_of(node)):
            raise Unsupported("it draws random numbers")
        ctx.consumed.update(node.bound)
        return lower_norms.spelled(ctx, name, by_rule(ctx, table.rows[name]))
    if name in table.identity:
        return _identity(ctx, node, table.identity[name])
    if name in HANDLERS:
        ctx.node = _renamed(node, name)
        return HANDLERS[name](ctx)
    if name in table.elementwise:
        if node.signature is not None and len(node.signature.results) > 1:
            raise Unsupported(
                "it has several results: [elementwise] is for one, [[operator]] for more"
            )
        ctx.node = _renamed(node, name)
        return lower_math.plain(ctx)
    raise Unsupported("not in the operator table")


def _renamed(node: Node, name: str) -> Node:
    kernel = kernel_of(node)
    overload = kernel.rpartition(".")[2] if kernel.count(".") > 1 else "default"
    target = f"{name}.{overload}"
    return node if target == node.target else replace(node, target=target)


def _identity(ctx: Context, node: Node, which: int | str) -> Value:
    """The input itself: casts between float types, and what only moves or logs a tensor."""
    if node.target in HIGHER_ORDER:
        return _functionalised(ctx, node)
    name = ctx.named(which)
    if name not in node.bound:
        raise ValueError(f"argument {which} is not there")
    value, before = ctx.argument(name), ctx.dtype(name)
    if node.signature is None:  # what a kernel is told beside the tensor that it gives back
        ctx.consumed.update(node.bound)
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
    ctx.node = node  # a lowering that gave up may have looked at it in another form
    side = ctx.side
    names = list(references(tuple(ctx.read().values())))
    views = [ctx.values.get(n) for n in names]
    flat = [v for value in views for v in (value if isinstance(value, tuple) else (value,))]
    flat = [valued(ctx, v) if isinstance(v, View) else v for v in flat]
    kernel = kernel_of(node)
    ctx.notes.unsupported.append((side.name, ctx.rank, node.name, kernel, reason))
    shapes = result_shapes(ctx, node)
    needs = [v.base for v in flat if isinstance(v, View)]
    stored = bool(STORAGE & set(kernel.split("."))) or EMPTY.search(kernel) is not None
    stored = stored or space_of(kernel) in TALKING_SPACES
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
    types = [ctx.dtype_of(Ref(n)) for n in names] + [node.dtype or ""]
    asked = node.bound.get("dtype")
    signature = f"{kernel}({attributes(ctx)}) {given} {types} {asked} -> {created}"

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return letter, "created" if letter in created else "whole"

    made = side.operator(signature, operands, letters, naming, created)
    if made is None:
        made = [side.source(s or (), "opaque", needs) for s in shapes]
    kept = [None if s is None else v for v, s in zip(made, shapes, strict=True)]
    return kept[0] if node.shape is not None else tuple(kept)


def is_random(ctx: Context, kernel: str) -> bool:
    """Does the kernel draw random numbers: as torch says, by its name, by a dropout probability?"""
    drawn = ctx.node.signature is not None and ctx.node.signature.random
    if drawn and ctx.node.bound.get("dropout_p", 1.0) != 0:
        return True
    words = {w for part in kernel.split(".") for w in part.split("_")}
    rates = [v for k, v in ctx.node.bound.items() if "dropout" in str(k)]
    if ctx.node.signature is None and words & {"attention", "attn"}:
        # a dropout probability, or a scale: who knows
        rates += [v for v in ctx.node.args if isinstance(v, float) and v <= 1]
    return bool(words & RANDOM) or any(isinstance(v, float) and v > 0 for v in rates)


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
