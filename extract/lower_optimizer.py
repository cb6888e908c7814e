"""Optimizer steps and gradient norms, tensor by tensor and in lists."""

from __future__ import annotations

from dataclasses import replace

from gg_datalog.extract.context import HANDLERS, Context, Unsupported, Value, lowers
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.graph import Ref
from gg_datalog.extract.lower_math import added, factor, plain, reduced
from gg_datalog.extract.records import Concat, Operator, Slice, Sum
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.side import _as_term
from gg_datalog.extract.view import Base, View, compose, identity

ROOT = "sqrt(%)"
FOREACH = "aten._foreach_"


@lowers("aten.addcmul")
def addcmul(ctx: Context) -> Value:
    product = ctx.elementwise("mul", [ctx.tensor(1), ctx.tensor(2)], linear=(0, 1))[0]
    return added(ctx, [(ctx.tensor(0), ONE), (product, factor(ctx, 3, "value"))])


@lowers("aten.addcdiv")
def addcdiv(ctx: Context) -> Value:
    ratio = ctx.elementwise("div", [ctx.tensor(1), ctx.tensor(2)], linear=(0,))[0]
    return added(ctx, [(ctx.tensor(0), ONE), (ratio, factor(ctx, 3, "value"))])


@lowers("aten.lerp")
def lerp(ctx: Context) -> Value:
    weight = ctx.argument(2, "weight")
    if not isinstance(weight, (int, float)):
        raise Unsupported("its weight is not known")
    return added(ctx, [(ctx.tensor(0), scale(1 - weight)), (ctx.tensor(1, "end"), scale(weight))])


@lowers("aten.pow")
def power(ctx: Context) -> Value:
    exponent = ctx.argument(1, "exponent")
    if not isinstance(ctx.argument(0, "self"), View) or not is_float(ctx.node.dtype or "float"):
        return plain(ctx)
    x = ctx.tensor(0)
    if exponent == 1:
        return x
    if exponent == 2:
        return squared(ctx, x)
    return root(ctx, x) if exponent == 0.5 else plain(ctx)


@lowers("aten.square")
def square(ctx: Context) -> Value:
    return squared(ctx, ctx.tensor(0))


@lowers("aten.sqrt")
def sqrt(ctx: Context) -> Value:
    return root(ctx, ctx.tensor(0))


def root(ctx: Context, x: View) -> View:
    """The square root."""
    return ctx.elementwise(ROOT, [x], passes=((0, "max"), (0, "min")))[0]


def squared(ctx: Context, x: View) -> View:
    """The square; of a square root of what is never negative, what is under it."""
    under = under_root(x)
    if under is not None:
        return under
    return ctx.elementwise("mul", [x, x], linear=(0, 1))[0]


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
        if made.signature == "sum":
            return never_negative(made.operands[0])
        return made.signature == ROOT or made.signature == "exp(%)"
    if isinstance(made, Sum):
        return made.kind == "sum" and all(never_negative(t) for t in made.terms)
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
    x, order = ctx.tensor(0), ctx.argument(1, "ord" if "linalg" in ctx.node.target else "p", 2)
    if not is_float(ctx.dtype_of(ctx.node.args[0]) or "float"):
        raise Unsupported("a norm of integers")
    if order not in (2, None) or isinstance(order, bool):
        raise Unsupported(f"a norm of order {order}")
    asked = ctx.argument(2, "dim")
    keep = bool(ctx.argument(3, "keepdim", False))
    if asked in (None, ()):
        total = sum_of_squares(ctx, x)
        for dim in range(len(x.dims)) if keep else ():
            total = total.unsqueezed(dim)
        return root(ctx, total)
    dims = ctx.dims(2, "dim", len(x.dims))
    return root(ctx, reduced(ctx, squared(ctx, x), dims, "sum", keep))


# ---- lists of tensors
def foreach(ctx: Context) -> Value:
    """An operator on lists, as the same operator on every tensor."""
    node, name = ctx.node, ctx.node.target.removeprefix(FOREACH).split(".")[0]
    handler = HANDLERS.get(f"aten.{name}")
    lists = [a for a in node.args if isinstance(a, tuple)]
    if not lists or len({len(a) for a in lists}) > 1:
        raise Unsupported("lists of different lengths")
    found = []
    for i in range(len(lists[0])):
        args = tuple(a[i] if isinstance(a, tuple) else a for a in node.args)
        dtype = ctx.dtype_of(args[0]) if isinstance(args[0], Ref) else None
        target = f"aten.{name}.Tensor"
        ctx.node = replace(node, target=target, args=args, dtype=dtype or None)
        if handler is None and f"aten.{name}" not in ctx.table.elementwise:
            raise Unsupported("not in the operator table")
        found.append(handler(ctx) if handler is not None else plain(ctx))
    ctx.node = node
    return tuple(found)


for _name in (
    "abs", "add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "div", "exp", "lerp", "maximum",
    "minimum", "mul", "neg", "norm", "pow", "reciprocal", "sign", "sqrt", "sub",
):  # fmt: skip
    HANDLERS[f"{FOREACH}{_name}"] = foreach
