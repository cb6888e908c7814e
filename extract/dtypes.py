"""Element types: what a change of type does to the values, and integers modulo their width.

An integer tensor is lowered in one of two ways. Where its value is known to fit its type (masks,
counts, positions, whatever an operator gives that is no arithmetic) its base tensor holds that
value, and casts to wider types and to floats are the identity. Else its base tensor is *formal*:
``base.ring`` names the type, and the tensor is the base modulo the width of that type. Sums,
products and movement stay formal, since the integers modulo a power of two are a ring; everything
else is a function of the value and gets it from :func:`valued`, an operator that is linear in
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.view import Base, View

if TYPE_CHECKING:
    from gg_datalog.extract.context import Context

FLOATS = ("float", "bfloat", "half", "double")
WIDTHS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
PLAIN_IDS = ("int32", "int64")  # types in which sums of ids and offsets stay what they are
Interval = tuple[int, int]


def is_float(dtype: str) -> bool:
    """Is it a floating-point type?"""
    return dtype.startswith(FLOATS)


def is_integer(dtype: str) -> bool:
    """Is it an integer type (truth values are none)?"""
    return dtype in WIDTHS


def span(dtype: str) -> Interval | None:
    """The least and the largest number of an integer type or of truth values."""
    if dtype == "bool":
        return 0, 1
    if dtype not in WIDTHS:
        return None
    bits = WIDTHS[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def fits(values: Interval | None, dtype: str) -> bool:
    """Are all numbers of an interval of this type?"""
    room = span(dtype)
    return values is not None and room is not None and room[0] <= values[0] <= values[1] <= room[1]


def holds_all(dtype: str, of: str) -> bool:
    """Has a type every number of another one?"""
    return fits(span(of), dtype)


def interval(view: View, dtype: str) -> Interval | None:
    """Between what the numbers of an integer tensor of this type lie; None where it is formal."""
    factor = view.scale.integer
    if view.base.ring or factor is None:
        return None
    known = view.base.range or span(view.base.dtype) or span(dtype)
    return known and _times(known, (factor, factor))


def _times(a: Interval, b: Interval) -> Interval:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def total(terms: Iterable[Interval | None]) -> Interval | None:
    """Between what the sum of numbers in these intervals lies."""
    low = high = 0
    for one in terms:
        if one is None:
            return None
        low, high = low + one[0], high + one[1]
    return low, high


def product(a: Interval | None, b: Interval | None) -> Interval | None:
    """Between what products lie."""
    return None if a is None or b is None else _times(a, b)


def repeated(values: Interval | None, count: int) -> Interval | None:
    """Between what sums of up to ``count`` numbers lie, of each part of them, too."""
    if values is None:
        return None
    return min(0, values[0]) * count, max(0, values[1]) * count


def learn(view: View, values: Interval | None) -> None:
    """Notes between what the numbers of a tensor lie."""
    if values is not None and view.scale == ONE and view.base.range is None:
        view.base.range = values


def within(view: View, dtype: str) -> View:
    """A constant of an integer type as the number that its width leaves of it."""
    number, room = view.scale.integer, span(dtype)
    if number is None or room is None or dtype == "bool":
        return view
    low, high = room
    return replace(view, scale=scale((number - low) % (high - low + 1) + low))


# ---- formal integers ----------------------------------------------------------------------------
def entered(ctx: Context, view: View, dtype: str) -> View:
    """The tensor as a formal one of this type: what is added up or multiplied modulo its width."""
    if ctx.side.is_one(view):
        return within(view, dtype)
    if view.base.ring == dtype or ctx.side.is_zero(view):
        return view
    if view.base.ring and WIDTHS[view.base.ring] < WIDTHS[dtype]:
        view = valued(ctx, view)
    plain = View(view.base, view.dims)
    out = ctx.elementwise(f"as {dtype}(%)", [plain], linear=(0,), formal=True)[0]
    if out.base.ring != dtype:
        out.base.ring = dtype
        _described(ctx, out, plain, dtype)
    return out.scaled(view.scale)


def valued(ctx: Context, view: View) -> View:
    """The tensor's own numbers: a formal one cut to the width of its type."""
    dtype = view.base.ring
    if not dtype:
        return view
    out = ctx.elementwise(f"modulo {dtype}(%)", [view], formal=True)[0]
    out.base.ring = ""
    if not out.base.dtype:
        out.base.dtype = dtype
        _described(ctx, out, view, dtype)
    return out


def single(ctx: Context, view: View, dtype: str) -> View:
    """The tensor's own numbers without a factor in front, for what compares numbers."""
    if view.base.ring or view.scale == ONE or not is_integer(dtype):
        return valued(ctx, view)
    return valued(ctx, entered(ctx, view, dtype))


def _described(ctx: Context, out: View, of: View, dtype: str) -> None:
    """Positions and ids stay far from the ends of their types: that is what they are trusted for
    where they are looked up."""
    factor = of.scale.integer
    plain = out.base.shape == of.base.shape and out.dims == of.dims
    if dtype in PLAIN_IDS and plain and factor is not None:
        ctx.side.integers.sums.append((out.base, [(of.base, factor)]))


def ring(bases: Iterable[Base]) -> str:
    """The type of formal operands; ValueError where they are of several."""
    found = {base.ring for base in bases} - {""}
    if len(found) > 1:
        raise ValueError(f"formal integers of types {sorted(found)} meet")
    return found.pop() if found else ""


def arithmetic(
    ctx: Context, views: Sequence[View], dtype: str, found: Interval | None
) -> list[View]:
    """Operands of a sum or a product whose numbers lie in ``found``: formal ones where those may
    not fit the type."""
    if not is_integer(dtype) or (fits(found, dtype) and not any(v.base.ring for v in views)):
        return list(views)
    return [entered(ctx, v, dtype) for v in views]


# ---- changes of type ----------------------------------------------------------------------------
def cast(ctx: Context, value: View, before: str, after: str) -> View:
    """A change of dtype: the identity where every number stays what it is."""
    if before == after or not before or not after:
        return value
    if before.startswith("complex") != after.startswith("complex"):
        return ctx.elementwise(f"cast({before} to {after})", [valued(ctx, value)])[0]
    if is_float(after) or before == "bool":
        if is_float(before):
            ctx.notes.assume("float casts", "casts between float types are the identity")
        return valued(ctx, value)
    if is_integer(before) and is_integer(after):
        return _between(ctx, value, before, after)
    return ctx.elementwise(f"cast({after})", [valued(ctx, value)])[0]


def _between(ctx: Context, value: View, before: str, after: str) -> View:
    """From one integer type to another: to a narrower one is what a ring lets pass."""
    if fits(interval(value, before), after):
        return value
    if WIDTHS[before] < WIDTHS[after]:
        value = valued(ctx, value)
        if fits(interval(value, before), after):
            return value
    return entered(ctx, value, after)
