"""Optimizer steps and gradient norms, tensor by tensor and in lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from gg_datalog.extract.context import HANDLERS, Context, Unsupported, Value, lowers, used
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.graph import Ref
from gg_datalog.extract.lower_math import added, factor, plain
from gg_datalog.extract.lower_product import multiplied
from gg_datalog.extract.lower_reduce import reduced
from gg_datalog.extract.records import Concat, Operator, Slice, Sum
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.side import _as_term
from gg_datalog.extract.signature import Signature, overloads
from gg_datalog.extract.view import Base, View, compose, identity

ROOT = "sqrt(%)"
ABS = "abs(%)"
FOREACH = "aten._foreach_"


@lowers("aten.addcmul")
def addcmul(ctx: Context) -> Value:
    product = multiplied(ctx, ctx.operand("tensor1"), ctx.operand("tensor2"))
    return added(ctx, [(ctx.operand("self"), ONE), (product, factor(ctx, "value"))])


@lowers("aten.addcdiv")
def addcdiv(ctx: Context) -> Value:
    both = [ctx.operand("tensor1"), ctx.operand("tensor2")]
    ratio = ctx.elementwise("div", both, linear=(0,))[0]
    return added(ctx, [(ctx.operand("self"), ONE), (ratio, factor(ctx, "value"))])


@lowers("aten.lerp")
def lerp(ctx: Context) -> Value:
    weight = ctx.argument("weight")
    x, end = ctx.tensor("self"), ctx.tensor("end")
    if isinstance(weight, View) and is_float(ctx.node.dtype or ""):
        part = multiplied(ctx, weight, added(ctx, [(end, ONE), (x, scale(-1))]))
        return added(ctx, [(x, ONE), (part, ONE)])
    if not isinstance(weight, (int, float)):
        raise Unsupported("its weight is not known")
    return added(ctx, [(x, ctx.scale(1 - weight)), (end, ctx.scale(weight))])


@lowers("aten.pow")
def power(ctx: Context) -> Value:
    exponent = ctx.argument("exponent")
    floats = is_float(ctx.node.dtype or "float") and is_float(ctx.dtype("self") or "float")
    if not isinstance(ctx.argument("self"), View) or not floats:
        return plain(ctx)
    x = ctx.tensor("self")
    if exponent == 1:
        return x
    if exponent == 2:
        return squared(ctx, x)
    if exponent == -0.5:
        return ctx.elementwise("rsqrt(%)", [x])[0]
    return root(ctx, x) if exponent == 0.5 else plain(ctx)


@lowers("aten.square")
def square(ctx: Context) -> Value:
    return squared(ctx, ctx.tensor("self"))


@lowers("aten.sqrt")
def sqrt(ctx: Context) -> Value:
    return root(ctx, ctx.operand("self"))


def root(ctx: Context, x: View) -> View:
    """The square root; of what may be negative it is no number, which no maximum passes."""
    passes = ((0, "max"), (0, "min")) if never_negative(x) else ()
    return ctx.elementwise(ROOT, [x], passes=passes)[0]


def squared(ctx: Context, x: View) -> View:
    """The square; of a square root of what is never negative, what is under it; of a magnitude that
    of the number itself."""
    under = under_root(x)
    if under is not None:
        return under
    of = _seen_under(x, x.base.made) if is_magnitude(x.base.made) else None
    if of is not None:
        return squared(ctx, of)
    return multiplied(ctx, x, x)


def is_magnitude(made: object) -> bool:
    """Does the operator give the magnitude of a number, which is no complex one?"""
    return isinstance(made, Operator) and made.signature == ABS


def _seen_under(x: View, made: Operator | Any) -> View | None:
    """What an elementwise operator of one operand is given, as seen by ``x``, and its scale."""
    term = _as_term(made.operands[0], made.maps[0], made.labels)
    dims = tuple(term.dims[k] for k in made.gives[0][1])
    return compose(x, dims, term.base, term.scale)


@lowers("aten.abs")
def absolute(ctx: Context) -> Value:
    if ctx.dtype("self").startswith("complex"):
        return ctx.elementwise("abs of complex(%)", [ctx.tensor("self")])[0]
    if not is_float(ctx.dtype("self") or "float"):
        return plain(ctx)
    return magnitude(ctx, ctx.operand("self"))


def magnitude(ctx: Context, x: View) -> View:
    """The magnitude; of what is never negative, the number itself."""
    return x if never_negative(x) else ctx.elementwise(ABS, [x])[0]


def under_root(x: View) -> View | None:
    """What a square root is taken of, as seen by ``x``, times the square of its scale."""
    made = x.base.made
    if not isinstance(made, Operator) or made.signature != ROOT:
        return None
    if not never_negative(made.operands[0]):
        return None
    term = _as_term(made.operands[0], made.maps[0], made.labels)
    dims = tuple(term.dims[k] for k in made.gives[0][1])
    return compose(View(x.base, x.dims, x.scale * x.scale), dims, term.base, term.scale)


def never_negative(x: View) -> bool:
    """Is it a sum of squares?"""
    made = x.base.made
    if x.scale.ratio < 0 or any(atom.startswith("-") for atom, _ in x.scale.atoms):
        return False
    if isinstance(made, Operator):
        views = [(v.base, v.dims, v.scale) for v in made.operands]
        if made.signature == "mul":
            return len(views) == 2 and views[0] == views[1] and made.maps[0] == made.maps[1]
        if made.signature in ("sum", "max", "min"):
            return never_negative(made.operands[0])
        return made.signature in (ROOT, ABS, "exp(%)")
    if isinstance(made, Sum):
        return all(never_negative(t) for t in made.terms)
    if isinstance(made, Slice):
        return never_negative(made.of)
    return isinstance(made, Concat) and all(never_negative(v) for v, _ in made.members)


def sum_of_squares(ctx: Context, x: View) -> View:
    """Over all elements. Of a list of norms, the sum of what is under their roots."""
    made = x.base.made
    if isinstance(made, Concat) and _whole(x, x.base):
        members = [sum_of_squares(ctx, v) for v, _ in made.members]
        by = x.scale * x.scale
        return added(ctx, [(m, by) for m in members])
    square = squared(ctx, x)
    return reduced(ctx, square, range(len(square.dims)), "sum", False)


def _whole(x: View, base: Base) -> bool:
    """Does the view show every element of the base once?"""
    flat = [d for dim in x.dims for d in dim]
    return flat == [d for dim in identity(base).dims for d in dim]


@lowers("aten.linalg_vector_norm", "aten.norm")
def vector_norm(ctx: Context) -> Value:
    x, order = ctx.tensor("self"), ctx.argument("ord", "p", default=2)
    if not is_float(ctx.dtype("self") or "float"):
        raise Unsupported("a norm of integers")
    if order not in (1, 2, None, inf) or isinstance(order, bool):
        raise Unsupported(f"a norm of order {order}")
    asked = ctx.argument("dim")
    keep = bool(ctx.argument("keepdim", default=False))
    if order in (1, inf):
        dims = ctx.dims(len(x.dims), "dim")
        return reduced(ctx, magnitude(ctx, x), dims, "sum" if order == 1 else "max", keep)
    if asked in (None, ()):
        total = sum_of_squares(ctx, x)
        for dim in range(len(x.dims)) if keep else ():
            total = total.unsqueezed(dim)
        return root(ctx, total)
    dims = ctx.dims(len(x.dims), "dim")
    return root(ctx, reduced(ctx, squared(ctx, x), dims, "sum", keep))


# ---- lists of tensors
# What an operator on lists calls the arguments of the operator on one tensor.
NAMES = {"scalar": "other", "tensors1": "end", "weights": "weight"}
SCALARS = {"addcmul": "value", "addcdiv": "value"}


def foreach(ctx: Context) -> Value:
    """An operator on lists, as the same operator on every tensor."""
    node, name = ctx.node, ctx.node.target.removeprefix(FOREACH).split(".")[0]
    target = f"aten.{name}"
    lists = [a for a in node.bound.values() if isinstance(a, tuple)]
    if not lists or len({len(a) for a in lists}) > 1:
        raise Unsupported("lists of different lengths")
    if HANDLERS.get(target) is None and target not in ctx.table.elementwise:
        raise Unsupported("not in the operator table")
    found, types = [], _item_types(ctx)
    for i in range(len(lists[0])):
        given = {
            SCALARS.get(name, "other") if k == "scalars" else NAMES.get(str(k), k): (
                a[i] if isinstance(a, tuple) else a
            )
            for k, a in node.bound.items()
        }
        one = replace(node, target=f"{target}.Tensor", bound=given, signature=_single(name, given))
        of = next((a for a in given.values() if isinstance(a, Ref)), None)
        known = ctx.dtype_of(of) or None if of is not None else None
        ctx.node = replace(one, dtype=types.get(i, known))
        handler = HANDLERS.get(target)
        found.append(handler(ctx) if handler is not None else plain(ctx))
        used(ctx)
    ctx.node = node
    ctx.consumed.update(node.bound)
    return tuple(found)


def _item_types(ctx: Context) -> dict[int, str | None]:
    """The types of the results, as the items taken from the list tell; a list that is written to
    keeps its own."""
    return {
        user.args[1]: user.dtype
        for user in ctx.graph.nodes.values()
        if "getitem" in user.target and len(user.args) == 2 and user.args[0] == Ref(ctx.node.name)
    }


def _single(name: str, given: Mapping[Any, Any]) -> Signature | None:
    """The signature of the operator on one tensor: the overload that takes tensors where these
    are."""
    tensors = {k for k, value in given.items() if isinstance(value, Ref)}
    fits = (
        s
        for s in overloads(f"aten.{name}")
        if {p.name for p in s.parameters if p.tensor} == tensors
    )
    return next(fits, None)


for _name in (
    "abs", "add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "div", "exp", "lerp", "maximum",
    "minimum", "mul", "neg", "norm", "pow", "reciprocal", "sign", "sqrt", "sub",
):  # fmt: skip
    HANDLERS[f"{FOREACH}{_name}"] = foreach
