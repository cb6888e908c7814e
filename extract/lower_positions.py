"""Lowering of positions: integers that follow from literals alone, and what they choose.

`arange(n) + 4` is `arange(4, n + 4)`, and a literal `[0, 1, 6, 7]` is two ranges, one behind the
other. Rows that such integers choose are slices of the table, put together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from gg_datalog.extract.context import Context, Unsupported, Value, lowers
from gg_datalog.extract.dtypes import fits, is_float, is_integer, learn
from gg_datalog.extract.graph import is_symbolic
from gg_datalog.extract.lower_movement import joined, need, sliced
from gg_datalog.extract.notes import Counted
from gg_datalog.extract.records import Concat, Slice
from gg_datalog.extract.scale import Scale
from gg_datalog.extract.view import Base, View

ELEMENTS = 4096  # of a tensor whose integers are looked at one by one
RUNS = 64  # slices that a table is cut into at most
# Integers that all are numbers of a float type, too.
EXACT = {"float64": "int32", "float32": "int16", "bfloat16": "uint8", "float16": "uint8"}


@lowers("aten.arange", "prims.iota", "hlo.iota")
def arange(ctx: Context) -> Value:
    shape = ctx.node.shape
    if shape is None or len(shape) != 1 or not isinstance(shape[0], int) or is_symbolic(shape[0]):
        raise Unsupported("its size is not known")
    start, step = (ctx.argument(name, default=d) for name, d in (("start", 0), ("step", 1)))
    end = ctx.argument("end", "length", 0)
    whole = all(type(v) is int for v in (start, end, step))
    dtype = ctx.node.dtype or "float"
    if not all(isinstance(v, (int, float)) for v in (start, step)):
        raise Unsupported("its bounds are not known")
    if not is_float(dtype) and not whole:
        raise Unsupported("a range that is cut to integers")
    if whole and ctx.node.target.startswith("aten") and len(range(start, end, step)) != shape[0]:
        raise ValueError(f"from {start} to {end} by {step} are not {shape[0]} numbers")
    if whole and is_integer(dtype) and not fits(_between(start, step, shape[0]), dtype):
        raise Unsupported(f"a range that is cut to {dtype}")
    return counted(ctx, start, step, shape[0])


def counted(ctx: Context, start: Any, step: Any, extent: int) -> View:
    """``start``, ``start + step``, ...: so many numbers along one dimension."""
    out = ctx.apply(
        f"arange({start!r}, {step!r})",
        [],
        [["n"]],
        lambda _, __: ("n", "created"),
        created={"n": extent},
    )[0]
    if type(start) is type(step) is int and extent:
        learn(out, _between(start, step, extent))
        ctx.side.notes.counted[out.base] = Counted(start, step, extent)
    return out


def _between(start: int, step: int, extent: int) -> tuple[int, int]:
    last = start + step * (extent - 1)
    return min(start, last), max(start, last)


def shifted(ctx: Context, terms: Sequence[tuple[View, Scale]]) -> View | None:
    """A sum of counted numbers and constants, of which both are whole: other counted numbers."""
    start, found = 0, None
    for view, by in terms:
        times = (view.scale * by).integer
        if times is None:
            return None
        if ctx.side.is_one(view) or ctx.side.is_zero(view):
            start += 0 if ctx.side.is_zero(view) else times
        elif found is None and view.base in ctx.side.notes.counted:
            found = view, times
        else:
            return None
    if found is None:
        return None
    view, times = found
    if (times, start) == (1, 0):
        return View(view.base, view.dims)
    count = ctx.side.notes.counted[view.base]
    first, step = count.start * times + start, count.step * times
    dtype = ctx.node.dtype or "float32"
    if not step or not fits(_between(first, step, count.extent), EXACT.get(dtype, dtype)):
        return None
    made = counted(ctx, first, step, count.extent)
    return View(made.base, view.dims)


def literal(ctx: Context, values: Sequence[int], shape: Sequence[int]) -> View | None:
    """Integers that the graph holds, as ranges in a row; None where they are too many."""
    if not values or len(values) > ELEMENTS:
        return None
    runs = list(_runs(values))
    if len(runs) > RUNS:
        return None
    pieces = [counted(ctx, start, 1, size) for start, size in runs]
    return joined(ctx, pieces, 0).reshaped(shape)


def numbers(ctx: Context, view: View) -> list[int] | None:
    """The integers of a tensor, row by row, where they follow from literals alone."""
    times = view.scale.integer
    if times is None or prod(view.shape) > ELEMENTS:
        return None
    of = _elements(ctx, view.base)
    if of is None:
        return None
    steps = [prod(view.base.shape[k + 1 :]) for k in range(len(view.base.shape))]
    places = [0]
    for digit in (d for dim in view.dims for d in dim):
        step = 0 if digit.dim < 0 else digit.stride * steps[digit.dim]
        places = [at + k * step for at in places for k in range(digit.extent)]
    return [times * of[at] for at in places]


def never(ctx: Context, view: View, number: int) -> bool:
    """Do positions leave out a number?"""
    if view.base not in ctx.side.notes.counted and not isinstance(view.base.made, (Concat, Slice)):
        return False
    known = numbers(ctx, view)
    return known is not None and number not in known


def _elements(ctx: Context, base: Base) -> list[int] | None:
    """The integers of a base tensor in order."""
    if ctx.side.is_one(View(base, ())):
        return [1]
    if ctx.side.is_zero(View(base, ())):
        return [0]
    if (count := ctx.side.notes.counted.get(base)) is not None:
        last = count.start + count.step * count.extent
        return list(range(count.start, last, count.step)) if count.extent <= ELEMENTS else None
    made = base.made
    if isinstance(made, Concat) and len(base.shape) == 1:
        known = [numbers(ctx, member) for member, _ in made.members]
        members = [member for member in known if member is not None]
        return [n for member in members for n in member] if len(members) == len(known) else None
    if isinstance(made, Slice) and len(made.of.dims) == 1:
        whole = numbers(ctx, made.of)
        return None if whole is None else whole[made.start : made.start + made.size]
    return None


def _runs(values: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Start and size of consecutive integers."""
    at = 0
    while at < len(values):
        size = 1
        while at + size < len(values) and values[at + size] == values[at] + size:
            size += 1
        yield values[at], size
        at += size


def rows_at(ctx: Context, table: View, dim: int, ids: View) -> View | None:
    """Positions ``ids`` of a dimension, where they are known: slices, one after the other."""
    known = numbers(ctx, ids)
    extent = table.shape[dim]
    if not known or is_symbolic(extent):
        return None
    if not all(-extent <= n < extent for n in known):
        raise ValueError(f"position {max(known, key=abs)} of a dimension of {extent}")
    runs = list(_runs([n % extent for n in known]))
    if len(runs) > RUNS:
        return None
    taken = joined(ctx, [sliced(ctx, table, dim, start, size) for start, size in runs], dim)
    return need(taken.reshaped([*table.shape[:dim], *ids.shape, *table.shape[dim + 1 :]]))
