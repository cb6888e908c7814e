"""Quotients by a number that depends on data, divided late: ``f(x / n)`` is ``f(x) / n`` where f is
linear.

A program that takes the mean over tokens divides its loss, and so every gradient comes of something
that was divided before. Ranks that do not know the number of all tokens yet add up gradients first
and divide them in the end. Where some rank divides a tensor so, each operator of the sequential
program that is linear in what was divided is lowered once more, of what it is a multiple of, and it
is noted that what it gives is the quotient of that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gg_datalog.extract.context import SENSELESS, Context, Unsupported, Value
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.exponents import over, wide
from gg_datalog.extract.graph import Graph, Node, Ref
from gg_datalog.extract.notes import Divided
from gg_datalog.extract.view import Base, View, compose, identity

# Arguments in which an operator is linear: of x / n it gives what it gives of x, divided by n.
LINEAR = {
    "aten.mul": ("self", "other"),
    "aten.mm": ("self", "mat2"),
    "aten.bmm": ("self", "mat2"),
    **dict.fromkeys(
        ["aten.div", "aten.sum", "aten.neg", "aten.slice", "aten.select", "aten.index_select"],
        ("self",),
    ),
}
# A derivative, whatever of, is linear in the gradient that it is given.
DERIVATIVE = re.compile(r"aten\.(?!.*double)\w+_backward(_data)?$")
GRADIENT = ("grad_output", "grad_out")
SUMS = ("aten.add", "aten.sub")  # of which all terms have to be divided

Lowering = Callable[[Context, Node, str], Value]


def divides_late(graphs: Iterable[Graph]) -> bool:
    """Does some program divide a tensor by a number that depends on data?"""
    return any(_divides(graph, node) for graph in graphs for node in graph.nodes.values())


def _divides(graph: Graph, node: Node) -> bool:
    if not node.shape or not re.match(r"aten\.(mul|div)_?\b", node.target):
        return False
    return any(graph.nodes[name].shape == () for name in node.references)


def note_divided(ctx: Context, made: View, x: View, by: View) -> None:
    """Notes that ``made`` is ``x`` divided by a number that depends on data."""
    if not ctx.side.late or by.base.shape or by.base.kind == "constant" or made.base.ring:
        return
    of = over(made, wide(x, made.shape))
    if of is not None:
        of = of.scaled((by.scale * made.scale).inverse())
        ctx.side.notes.divided.setdefault(made.base, Divided(of, by.base))


def divided_late(ctx: Context, node: Node, name: str, value: Value, lowering: Lowering) -> None:
    """Notes what a node gives as a quotient of what it gives of undivided operands."""
    if not ctx.side.late or node.op != "call_function":
        return
    change = _undivided(ctx, node, name)
    if change is None:
        return
    again = _lowered_again(ctx, node, name, change.views, lowering)
    for made, of in zip(_views(value), _views(again), strict=False):
        if isinstance(made, View) and isinstance(of, View):
            also_divided(ctx, made, of, View(change.by, ()))


class Undivided(NamedTuple):
    """Operands before they were divided by ``by``, by the names of their nodes."""

    views: dict[str, View]
    by: Base


def _undivided(ctx: Context, node: Node, name: str) -> Undivided | None:
    """The operands that may be divided after, if any: each is used once."""
    if node.bound.get("rounding_mode") is not None or not is_float(node.dtype or "float"):
        return None  # it is rounded, or cut off
    used = Counter(node.references)
    found = {}
    for place in _places(name):
        ref = node.bound.get(place)
        one = _before(ctx, ctx.values.get(ref.name)) if isinstance(ref, Ref) else None
        if isinstance(ref, Ref) and one is not None and used[ref.name] == 1:
            found[ref.name] = one
    if name in SUMS:
        together = len(found) == 2 == len({*used}) and len({by for _, by in found.values()}) == 1
        chosen = list(found) if together else []
    else:
        chosen = list(found)[:1]
    views = {ref: found[ref][0] for ref in chosen}
    return Undivided(views, found[chosen[0]][1]) if chosen else None


def _places(name: str) -> Sequence[str]:
    if DERIVATIVE.match(name):
        return GRADIENT
    return ("self", "other") if name in SUMS else LINEAR.get(name, ())


def _before(ctx: Context, value: Value) -> tuple[View, Base] | None:
    """What a tensor was before it was divided, and what by."""
    note = ctx.side.notes.divided.get(value.base) if isinstance(value, View) else None
    if note is None:
        return None
    found = compose(value, note.of.dims, note.of.base, note.of.scale)
    return None if found is None else (found, note.by)


def _lowered_again(
    ctx: Context, node: Node, name: str, instead: dict[str, View], lowering: Lowering
) -> Value:
    """What the node gives with other values for some of its operands; None where it is not
    described."""
    before = {ref: ctx.values[ref] for ref in instead}
    ctx.values.update(instead)
    try:
        return lowering(ctx, node, name)
    except (Unsupported, *SENSELESS):
        return None
    finally:
        ctx.values.update(before)
        ctx.node = node


def _views(value: Value) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else (value,)


def also_divided(ctx: Context, made: View, of: View, by: View) -> None:
    """Notes that ``made`` is ``of`` divided by a number, and that it may be computed so."""
    if made.base in ctx.side.notes.divided or made.shape != of.shape:
        return
    note_divided(ctx, made, of, by)
    note = ctx.side.notes.divided.get(made.base)
    if note is None:
        return
    plain = ctx.elementwise("div", [note.of, View(note.by, ())], linear=(0,))[0]
    if plain.base is not made.base:
        ctx.notes.assume("divisors", f"`{note.by.node}` is not 0: it may divide at any place")
        ctx.side.alternative(identity(made.base), plain)
