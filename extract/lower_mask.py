"""Lowering of what is chosen by masks."""

from __future__ import annotations

import re
from dataclasses import replace
from math import isnan
from typing import Any

from gg_datalog.extract.context import Context, Unsupported, Value, in_type, lowers
from gg_datalog.extract.dtypes import valued
from gg_datalog.extract.halves import Half, over_base, seen_as
from gg_datalog.extract.lower_lookup import masked_lookup
from gg_datalog.extract.lower_math import integer_pair, kinds
from gg_datalog.extract.lower_movement import stretched, zeros_of
from gg_datalog.extract.lower_positions import counted
from gg_datalog.extract.notes import Cleared, Tabled
from gg_datalog.extract.records import Operator
from gg_datalog.extract.scale import ONE, Scale, scale
from gg_datalog.extract.side import _as_term
from gg_datalog.extract.signature import packet_of
from gg_datalog.extract.view import Base, View, broadcast, compose

EQUAL = re.compile(r"(eq|ne)\(%, ([^%,]+)\)")


def operands_of(gives: Base) -> tuple[View, View] | None:
    """Both operands of an operator, with the dimensions of what it gives."""
    made = gives.made
    if not isinstance(made, Operator) or len(made.operands) != 2:
        return None
    if made.signature.startswith("cat("):  # flat buffers: it is put together from pieces
        return None
    terms = [_as_term(v, m, made.labels) for v, m in zip(made.operands, made.maps, strict=True)]
    first, second = (replace(t, dims=tuple(t.dims[k] for k in made.gives[0][1])) for t in terms)
    return first, second


@lowers("aten.bitwise_and", "aten.logical_and", "aten.bitwise_or", "aten.logical_or")
def boolean(ctx: Context) -> Value:
    a, b = ctx.tensor("self"), ctx.tensor("other")
    op = "and" if "and" in ctx.node.target else "or"
    if any(ctx.dtype(name) != "bool" for name in ("self", "other")):
        name = packet_of(ctx.node.target)
        return ctx.elementwise(f"{name.split('.')[-1]}(%, %){kinds(ctx)}", [a, b])[0]
    out = ctx.elementwise(f"logical_{op}", [a, b])[0]
    integer_pair(ctx, out, op, a, b)
    return out


@lowers("aten.bitwise_not", "aten.logical_not")
def invert(ctx: Context) -> Value:
    x = ctx.tensor("self")
    if ctx.dtype("self") != "bool":
        name = packet_of(ctx.node.target)
        return ctx.elementwise(f"{name.split('.')[-1]}(%){kinds(ctx)}", [x])[0]
    return inverted(ctx, x)


def inverted(ctx: Context, x: View) -> View:
    """Where a mask is not true."""
    if ctx.side.is_zero(x) or (ctx.side.is_one(x) and x.scale == ONE):
        return stretched(ctx.side.constant(scale(int(ctx.side.is_zero(x)))), x.shape)
    if (before := _inverse_of(x)) is not None:
        return before
    unequal = _unequal(ctx, x)
    out = unequal or ctx.elementwise("logical_not", [x])[0]
    ctx.side.notes.truths.add(out.base)
    half = ctx.side.notes.halves.get(x.base)
    if half is not None and x.scale == ONE and (seen := seen_as(half, x)) is not None:
        found = over_base(seen.otherwise(), out)
        if found is not None:
            ctx.side.notes.halves.setdefault(out.base, found)
    if x.scale == ONE and unequal is None:
        ctx.side.integers.nots.append((out.base, x.base))
        _invert_table(ctx, out, x)
    return out


def _invert_table(ctx: Context, out: View, x: View) -> None:
    """Notes where a function of one integer each is not true, as a table as well."""
    table = ctx.side.notes.tables.get(x.base)
    if table is not None and (out.dims, out.base.shape) == (x.dims, x.base.shape):
        values = tuple(int(not value) for value in table.values)
        ctx.side.notes.tables.setdefault(out.base, Tabled(table.of, values))


def _inverse_of(x: View) -> View | None:
    """What a mask says the opposite of, where it was made of another one."""
    made = x.base.made
    if not isinstance(made, Operator) or made.signature != "logical_not" or x.scale != ONE:
        return None
    term = _as_term(made.operands[0], made.maps[0], made.labels)
    return compose(x, tuple(term.dims[k] for k in made.gives[0][1]), term.base, term.scale)


def _unequal(ctx: Context, x: View) -> View | None:
    """Where something is not a number, if the mask says where it is; or the other way round."""
    made = x.base.made
    found = EQUAL.fullmatch(made.signature) if isinstance(made, Operator) else None
    if found is None or not isinstance(made, Operator) or len(made.operands) != 1 or x.scale != ONE:
        return None
    term = _as_term(made.operands[0], made.maps[0], made.labels)
    of = replace(term, dims=tuple(term.dims[k] for k in made.gives[0][1]))
    other = "ne" if found[1] == "eq" else "eq"
    out = ctx.elementwise(f"{other}(%, {found[2]})", [of])[0]
    return compose(x, out.dims, out.base, ONE)


@lowers("aten.where", "hlo.select")
def where(ctx: Context) -> Value:

    mask = ctx.tensor("condition")
    first, second = (number_in(ctx.argument(name)) for name in ("self", "other"))
    if (same := _everywhere(ctx, mask)) is not None:
        return same
    if is_infinite(second) and not is_infinite(first) and ctx.dtype("condition") == "bool":
        return masked_infinite(ctx, ctx.operand("self"), inverted(ctx, mask), second)
    if is_infinite(first) and not is_infinite(second):
        return masked_infinite(ctx, ctx.operand("other"), mask, first)
    a, b = (
        infinite(ctx, value) if is_infinite(value) else ctx.operand(name)
        for name in ("self", "other")
        for value in [ctx.argument(name)]
    )
    if ctx.side.is_zero(a):
        return masked(ctx, b, mask, scale(0))
    if ctx.side.is_zero(b) and mask.base in ctx.side.notes.truths:
        return masked(ctx, a, inverted(ctx, mask), scale(0))
    views = [stretched(v, broadcast([mask, a, b])) for v in (mask, a, b)]
    return ctx.elementwise("select", views)[0]


def _everywhere(ctx: Context, mask: View) -> View | None:
    """What is chosen everywhere, where a mask is known to hold one value."""
    number, given = ctx.as_number(mask), [ctx.argument(name) for name in ("self", "other")]
    if number is None or any(is_infinite(value) for value in given):
        return None
    both = [ctx.operand(name) for name in ("self", "other")]
    return stretched(both[1 if number.zero else 0], broadcast([mask, *both]))


@lowers("aten.masked_fill")
def masked_fill(ctx: Context) -> Value:

    x, mask, given = ctx.tensor("self"), ctx.tensor("mask"), ctx.argument("value")
    if is_infinite(given):
        return masked_infinite(ctx, x, mask, given)
    value = ctx.number("value")
    if value is None:
        raise Unsupported("its fill value is not known")
    return masked(ctx, x, mask, value)


def masked(ctx: Context, x: View, mask: View, value: Scale) -> View:
    """``value`` where ``mask`` is true, else x."""

    in_type(ctx, value)
    if ctx.side.is_zero(mask):
        return stretched(x, broadcast([x, mask]))
    if value.zero and x.scale != ONE:  # a factor stays outside, where other forms find it
        return masked(ctx, replace(x, scale=ONE), mask, value).scaled(x.scale)
    shape = broadcast([x, mask])
    x, mask = (stretched(valued(ctx, v), shape) for v in (x, mask))
    out = ctx.elementwise(f"masked_fill({value})", [x, mask], linear=(0,) if value.zero else ())[0]
    same = x.dims == mask.dims and x.base.shape == mask.base.shape == out.base.shape
    if same and x.scale == mask.scale == ONE and value.integer is not None:
        ctx.side.integers.fills.append((out.base, x.base, mask.base, value.integer))
    if value.zero:
        masked_lookup(ctx, out.base, x, mask)
        note_cleared(ctx, out.base)
        if ctx.side.name == "seq" and out.base in ctx.side.notes.taken:
            _hidden_again(ctx, out, x, mask)
    return out


def _hidden_again(ctx: Context, out: View, x: View, mask: View) -> None:
    """Notes that what a lookup gives is hidden once where it is hidden twice, and where it is in a
    sum that is hidden."""
    notes, signature = ctx.side.notes, f"masked_fill({scale(0)})"
    terms = [compose(x, t.dims, t.base, t.scale) for t in notes.summed.get(x.base, ())]
    rows = [t for t in terms if t is not None]
    sums = [out]
    if rows and len(rows) == len(terms) and any(t.base in notes.taken for t in rows):
        found = [masked(ctx, t, mask, scale(0)) if t.base in notes.taken else t for t in rows]
        total = ctx.side.sum([stretched(t, x.shape) for t in found])
        sums += [] if total is None or total.scale != ONE else [total]
    for of in sums:
        ctx.side.alternative(out, ctx.elementwise(signature, [of, mask], linear=(0,))[0])


def note_cleared(ctx: Context, gives: Base) -> None:
    """Remembers what a tensor was before it was set to 0 under a mask."""
    found = operands_of(gives)
    if found is not None:
        ctx.side.notes.cleared[gives] = Cleared(*found)


# ---- infinity: a constant that is no number, so that nothing is ever computed with it here
def infinite(ctx: Context, value: float) -> View:
    """The constant inf or -inf, of no dimensions."""
    if isnan(value):
        raise Unsupported("a constant that is not a number")

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return letter, "created"

    return ctx.apply(f"constant({value})", [], [[]], naming, created={})[0]


def is_infinite(value: Any) -> bool:
    """Is this a number without bounds (or none at all)?"""
    return isinstance(value, float) and (isnan(value) or value in (float("inf"), -float("inf")))


def number_in(value: Value) -> Value:
    """The infinite number of which a tensor is full, if it is; else what was given."""
    made = value.base.made if isinstance(value, View) else None
    if not isinstance(made, Operator) or value.scale != ONE:
        return value
    found = FULL.fullmatch(made.signature)
    return value if found is None else float(found[1])


FULL = re.compile(r"constant\((-?inf)\)")


def masked_infinite(ctx: Context, x: View, mask: View, value: float) -> View:
    """``value``, which is infinite, where ``mask`` is true, else x."""
    if isnan(value):
        raise Unsupported("a fill that is not a number")
    shape = broadcast([x, mask])
    if ctx.side.is_zero(mask):
        return stretched(x, shape)
    if ctx.side.is_one(mask):
        return stretched(infinite(ctx, value), shape)
    views = [stretched(v, shape) for v in (x, mask)]
    return ctx.elementwise(f"masked_fill({value})", views)[0]


# ---- one side of a diagonal
def _side_of(upper: bool, by: int) -> Half:
    return Half(0, 1, by) if upper else Half(1, 0, -by)


def diagonal(ctx: Context, rows: int, columns: int, upper: bool, by: int) -> View:
    """What is true from a diagonal on to the upper right (or lower left)."""
    ends = counted(ctx, 0, 1, columns), counted(ctx, by, 1, rows).unsqueezed(1)
    mask = ctx.elementwise("ge" if upper else "le", list(ends))[0]
    ctx.side.notes.truths.add(mask.base)
    found = over_base(_side_of(upper, by), mask)
    if found is not None:
        ctx.side.notes.halves.setdefault(mask.base, found)
    return mask


@lowers("aten.triu", "aten.tril")
def triangle(ctx: Context) -> Value:
    """What lies above (below) a diagonal, and 0 on its other side; of ones a comparison of columns
    with rows."""
    x, by = ctx.operand("self"), ctx.argument("diagonal", default=0)
    if type(by) is not int or len(x.dims) < 2 or x.base.ring:
        raise Unsupported("its diagonal is not known")
    rows, columns = x.shape[-2:]
    upper = "triu" in ctx.node.target
    known = _side_of(upper, by).everywhere([rows, columns])
    if known:
        return x
    if known is not None:
        return zeros_of(ctx, x.shape)
    mask = diagonal(ctx, rows, columns, upper, by)
    if ctx.side.is_one(x):
        return stretched(mask, x.shape).scaled(x.scale)
    return masked(ctx, x, inverted(ctx, mask), scale(0))


@lowers("aten.eye")
def eye(ctx: Context) -> Value:
    """Ones on the diagonal: what lies on it or above, without what lies above it."""
    rows = ctx.argument("n")
    columns = ctx.argument("m", default=rows)
    if type(rows) is not int or type(columns) is not int or min(rows, columns) < 1:
        raise Unsupported("its size is not known")
    above = inverted(ctx, diagonal(ctx, rows, columns, False, 0))
    return masked(ctx, diagonal(ctx, rows, columns, True, 0), above, scale(0))
