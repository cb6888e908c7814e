"""Lowering of products and quotients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gg_datalog.extract.context import Context, Value, lowers
from gg_datalog.extract.dtypes import arithmetic, interval, is_float, is_integer, learn
from gg_datalog.extract.dtypes import product as bounds_of_product
from gg_datalog.extract.exponent_rules import product
from gg_datalog.extract.exponents import is_finite
from gg_datalog.extract.finite import may_be_infinite
from gg_datalog.extract.lower_lookup import masked_lookup
from gg_datalog.extract.lower_mask import inverted, operands_of
from gg_datalog.extract.lower_math import FINITE, integer_pair, is_bounded, kinds, times, vanishes
from gg_datalog.extract.lower_movement import stretched, zeros_of
from gg_datalog.extract.notes import Cleared
from gg_datalog.extract.quotients import as_quotient, divided, shortened, term_by_term
from gg_datalog.extract.records import Operator
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.side import _as_term
from gg_datalog.extract.stacks import by_member
from gg_datalog.extract.view import Base, View, broadcast, compose


@lowers("aten.mul", "aten.multiply")
def mul(ctx: Context) -> Value:
    a, b = ctx.operand("self"), ctx.operand("other")
    shape = broadcast([a, b])
    for x, by in ((a, ctx.number("other")), (b, ctx.number("self"))):
        if by is not None:
            return times(ctx, x, by, shape)
    return multiplied(ctx, a, b)


def multiplied(ctx: Context, a: View, b: View) -> View:
    """The product of two tensors."""
    dtype = ctx.node.dtype or ""
    if not is_integer(dtype) and (stack := _of_members(ctx, a, b, multiplied)) is not None:
        return stack
    truths = ctx.side.notes.truths
    by = a.scale * b.scale
    if by != ONE and is_float(dtype) and (a.base in truths or b.base in truths):
        # a factor stays outside, where other forms find it
        return multiplied(ctx, replace(a, scale=ONE), replace(b, scale=ONE)).scaled(by)
    if not is_integer(dtype) and (ctx.side.is_zero(a) or ctx.side.is_zero(b)):
        other = b if ctx.side.is_zero(a) else a
        if not may_be_infinite(other.base):
            vanishes(ctx, other)
            return zeros_of(ctx, broadcast([a, b]))
    short = shortened(ctx, a, b, broadcast([a, b]), "mul")
    if short is not None:
        return short
    found = bounds_of_product(interval(a, dtype), interval(b, dtype)) if is_integer(dtype) else None
    a, b = arithmetic(ctx, [a, b], dtype, found)
    out = ctx.elementwise("mul", [a, b], linear=(0, 1), formal=True)[0]
    if ctx.side.name == "dist" and not out.base.ring:
        ctx.side.as_contraction(out.base)
    if is_integer(dtype):
        if not out.base.ring:
            learn(out, found)
        integer_pair(ctx, out, "mul", a, b)
        return out
    for x, mask in ((a, b), (b, a)):
        if mask.base in truths:
            _also_filled(ctx, out, x, mask)
    if (a.base in truths) != (b.base in truths):
        _masked_product(ctx, out.base)
    else:
        as_quotient(ctx, out, a, b)
        for x, other in ((a, b), (b, a)):
            term_by_term(ctx, out, x, other, "mul")
        return product(ctx, out, a, b)
    return out


def _of_members(
    ctx: Context, a: View, b: View, one: Callable[[Context, View, View], View]
) -> View | None:
    """A product (or a quotient) with a stack, member by member."""
    shape = broadcast([a, b])
    wide = [stretched(v, shape) for v in (a, b)]
    found = by_member(ctx.side, wide, lambda row: [one(ctx, *row)])
    return None if found is None else found[0]


def _also_filled(ctx: Context, made: View, x: View, mask: View) -> None:
    """Notes that a product with a mask is the other factor, 0 where the mask is not true: where
    a program fills in zeros itself, or where it is known which positions those are."""
    notes = ctx.side.notes
    if not (ctx.side.fills or mask.base in notes.halves):
        return
    if mask.scale != ONE or x.base.ring or not is_finite(ctx, x.base):
        return
    if not is_bounded(x):
        ctx.notes.assume(*FINITE)
    shape = broadcast([x, mask])
    views = [stretched(v, shape) for v in (x, inverted(ctx, mask))]
    filled = ctx.elementwise("masked_fill(0)", views, linear=(0,))[0]
    ctx.side.alternative(made, filled)


def _masked_product(ctx: Context, gives: Base) -> None:
    """Notes that a product with a mask is 0 where the mask is not true."""
    found = operands_of(gives)
    if found is None or any(term.scale != ONE for term in found):
        return
    x, mask = found[::-1] if found[0].base in ctx.side.notes.truths else found
    if may_be_infinite(x.base):
        if not is_finite(ctx, x.base):
            return
        ctx.notes.assume(*FINITE)
    if any(d.dim < 0 for dim in x.dims for d in dim):
        return
    hidden = inverted(ctx, mask)
    ctx.side.notes.cleared.setdefault(gives, Cleared(x, hidden))
    masked_lookup(ctx, gives, x, hidden)
    if gives in ctx.side.notes.taken:
        gives.needs.append(hidden.base)


@lowers("aten.div", "aten.divide", "aten.true_divide")
def div(ctx: Context) -> Value:
    mode = ctx.argument("rounding_mode")
    if mode is not None:
        return rounded_quotient(ctx, str(mode))
    a, b = ctx.operand("self"), ctx.operand("other")
    by = ctx.number("other")
    if by is not None and not by.zero:
        return times(ctx, a, by.inverse(), broadcast([a, b]))
    made = _of_members(ctx, a, b, divided) or divided(ctx, a, b)
    _by_root(ctx, made, a, b)
    return made


def _by_root(ctx: Context, made: View, a: View, b: View) -> None:
    """Notes a quotient by a square root as a product with what is 1 over that root."""
    of = b.base.made
    if not isinstance(of, Operator) or of.signature != "sqrt(%)" or b.scale != ONE:
        return
    term = _as_term(of.operands[0], of.maps[0], of.labels)
    under = compose(b, tuple(term.dims[k] for k in of.gives[0][1]), term.base, term.scale)
    if under is not None:
        both = [a, ctx.elementwise("rsqrt(%)", [under])[0]]
        ctx.side.alternative(made, ctx.elementwise("mul", both, linear=(0, 1))[0])


@lowers("aten.reciprocal")
def reciprocal(ctx: Context) -> Value:
    x = ctx.operand("self")
    return divided(ctx, stretched(ctx.side.constant(ONE), x.shape), x)


@lowers("aten.floor_divide")
def floor_divide(ctx: Context) -> Value:
    return rounded_quotient(ctx, "floor")


def rounded_quotient(ctx: Context, mode: str) -> View:
    """A quotient that is rounded: of integers a function of their numbers and their type."""
    both = [ctx.tensor("self"), ctx.tensor("other")]
    name = "floor_divide(%, %)" if mode == "floor" else f"div(%, %, rounding_mode={mode!r})"
    return ctx.elementwise(f"{name}{kinds(ctx)}", both)[0]
