"""Integers that are a function of one position each: the function as a table.

What a router chooses lies between 0 and the number of experts. Whatever is computed from such an
integer alone (an offset, a comparison, a row of a map whose values are known) is a function of so
many numbers. Programs that write it in different ways have the same table, and the same table is
given in the same form here: as one more operator beside that of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from gg_datalog.extract.context import Context, Value
from gg_datalog.extract.dtypes import fits, is_integer, learn
from gg_datalog.extract.graph import Node
from gg_datalog.extract.lower_math import integer_pair
from gg_datalog.extract.lower_movement import stretched
from gg_datalog.extract.lower_positions import numbers
from gg_datalog.extract.notes import Tabled
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.view import Base, Dims, View, identity

LARGEST = 1024  # positions of a table
RUNS = 8  # of a set that is written as comparisons; one of more is a table still

Row = tuple[int, ...]
FUNCTIONS: dict[str, tuple[tuple[str, ...], Callable[..., int]]] = {
    "add": (("self", "other", "alpha"), lambda a, b, k: a + k * b),
    "sub": (("self", "other", "alpha"), lambda a, b, k: a - k * b),
    "rsub": (("self", "other", "alpha"), lambda a, b, k: b - k * a),
    "mul": (("self", "other"), lambda a, b: a * b),
    "eq": (("self", "other"), lambda a, b: a == b),
    "ne": (("self", "other"), lambda a, b: a != b),
    "lt": (("self", "other"), lambda a, b: a < b),
    "le": (("self", "other"), lambda a, b: a <= b),
    "gt": (("self", "other"), lambda a, b: a > b),
    "ge": (("self", "other"), lambda a, b: a >= b),
    "bitwise_and": (("self", "other"), lambda a, b: a & b),
    "logical_and": (("self", "other"), lambda a, b: bool(a) and bool(b)),
    "bitwise_or": (("self", "other"), lambda a, b: a | b),
    "logical_or": (("self", "other"), lambda a, b: bool(a) or bool(b)),
    "logical_not": (("self",), lambda a: not a),
    "bitwise_not": (("self",), lambda a: not a),
    "masked_fill": (("self", "mask", "value"), lambda a, m, v: v if m else a),
    "where": (("condition", "self", "other"), lambda m, a, b: a if m else b),
    "clamp": (("self", "min", "max"), lambda a, low, high: min(max(a, low), high)),
    "clamp_min": (("self", "min"), max),
    "clamp_max": (("self", "max"), min),
    "minimum": (("self", "other"), min),
    "maximum": (("self", "other"), max),
    "floor_divide": (("self", "other"), lambda a, b: a // b),
    "div floor": (("self", "other"), lambda a, b: a // b),
    "remainder": (("self", "other"), lambda a, b: a % b),
}
DEFAULTS = {"alpha": 1, "min": -(2**63), "max": 2**63}


def known_of(ctx: Context, table: View) -> Row | None:
    """The integers of a table of one dimension that the program was built with."""
    found = ctx.side.notes.known.get(table.base)
    if found is None and (listed := numbers(ctx, table)) is not None:
        return tuple(listed)
    if found is None or table.scale != ONE or table.dims != identity(table.base).dims:
        return None
    text = f"hold what building the program computes: `{table.base.node}`"
    ctx.notes.assume("computed values", text)
    return found


def chosen(ctx: Context, view: View, extent: int) -> None:
    """Notes that the numbers of a tensor are positions of ``extent`` ones."""
    if view.scale == ONE and extent <= LARGEST:
        ctx.side.notes.tables.setdefault(view.base, Tabled(view.base, tuple(range(extent))))


def looked_up(ctx: Context, made: View, values: Row, ids: View) -> View:
    """``values`` at the positions ``ids``, which ``made`` is: as a function of what those are."""
    of = ctx.side.notes.tables.get(ids.base) or Tabled(ids.base, tuple(range(len(values))))
    if ids.scale != ONE or not all(0 <= n < len(values) for n in of.values):
        return made
    return _noted(ctx, made, of.of, tuple(values[n] for n in of.values), ids.dims)


def tabulated(ctx: Context, node: Node, name: str, value: Value) -> Value:
    """What a node gives, where it is a function of one integer each: noted, and in its one form."""
    dtype = node.dtype or ""
    if not ctx.side.notes.tables or not isinstance(value, View) or value.base.kind == "constant":
        return value
    rows = _arguments(ctx, node, name) if dtype == "bool" or is_integer(dtype) else None
    if rows is None:
        return value
    if all(isinstance(row, int) for row in rows):
        number = _applied(name, node, rows)
        if number is None or not fits((number, number), dtype):
            return value
        return stretched(ctx.side.constant(scale(number)), value.shape)
    found = _function(name, node, rows)
    if found is None:
        return value
    of, dims, values = found
    if not fits((min(values), max(values)), dtype):
        return value
    return _noted(ctx, value, of, values, dims)


def _short(name: str, node: Node) -> str:
    short = name.removeprefix("aten.")
    return f"div {node.bound.get('rounding_mode')}" if short == "div" else short


def _arguments(ctx: Context, node: Node, name: str) -> list[Any] | None:
    """What goes into a function that is known here: numbers, and tables; None where there is
    anything else."""
    short = _short(name, node)
    if short in ("bitwise_not", "logical_not") and not node.dtype == ctx.dtype("self") == "bool":
        return None
    if short not in FUNCTIONS:
        return None
    names, _ = FUNCTIONS[short]
    rows = [_operand(ctx, node.bound.get(n), DEFAULTS.get(n)) for n in names]
    return None if any(row is None for row in rows) else rows


def _applied(name: str, node: Node, arguments: Sequence[int]) -> int | None:
    """The function of numbers."""
    _, apply = FUNCTIONS[_short(name, node)]
    try:
        return int(apply(*arguments))
    except ZeroDivisionError:
        return None


def _function(name: str, node: Node, rows: Sequence[Any]) -> tuple[Base, Dims, Row] | None:
    """The tensor that a node's operands are functions of, how they lie over it, and the table."""
    tables = [row for row in rows if isinstance(row, tuple)]
    if len({row[:2] for row in tables}) != 1:
        return None
    of, dims, extent = tables[0][0], tables[0][1], len(tables[0][2])
    if any(len(row[2]) != extent for row in tables):
        return None
    columns = [row[2] if isinstance(row, tuple) else (row,) * extent for row in rows]
    found = [_applied(name, node, one) for one in zip(*columns, strict=True)]
    values = tuple(n for n in found if n is not None)
    return (of, dims, values) if len(values) == extent else None


def _operand(ctx: Context, argument: Any, default: int | None) -> Any:
    """A number, or a tensor as a function of another one: that, how it lies over it, the table."""
    value = default if argument is None else ctx.value(argument)
    if isinstance(value, (bool, int)):
        return int(value)
    if not isinstance(value, View):
        return None
    if (number := ctx.as_number(value)) is not None:
        return number.integer
    found, factor = ctx.side.notes.tables.get(value.base), value.scale.integer
    if found is None or factor is None or value.base.ring:
        return None
    return found.of, value.dims, tuple(factor * n for n in found.values)


def _noted(ctx: Context, made: View, of: Base, values: Row, dims: Dims) -> View:
    """``made`` is the function ``values`` of ``of``, seen with ``dims``: noted, and given in the
    form that every program has of it."""
    if len(set(values)) == 1:
        return stretched(ctx.side.constant(scale(values[0])), made.shape)
    if ctx.node.dtype != "bool" and all(n == i for i, n in enumerate(values)):
        return View(of, dims)
    plain = made.scale == ONE and made.dims == dims and made.base.shape == of.shape
    if not plain or made.base is of or made.base.ring:
        return made
    ctx.side.notes.tables.setdefault(made.base, Tabled(of, values))
    learn(made, (min(values), max(values)))
    ctx.side.alternative(identity(made.base), _form(ctx, identity(of), values))
    return made


def _form(ctx: Context, x: View, values: Row) -> View:
    """A function of positions as comparisons, where it is a set of few ranges; else as a table."""
    ranges = list(_ranges(values)) if ctx.node.dtype == "bool" else []
    if not 0 < len(ranges) <= RUNS:
        return ctx.elementwise(f"table({', '.join(map(str, ('%', *values)))})", [x])[0]
    inside = [_within(ctx, x, low, high, len(values)) for low, high in ranges]
    found = inside[0]
    for one in inside[1:]:
        found = _both(ctx, "or", found, one)
    return found


def _ranges(values: Row) -> Iterator[tuple[int, int]]:
    """Where the numbers are not 0: each range from its first position to behind its last one."""
    for true, run in groupby(range(len(values)), lambda i: values[i] != 0):
        at = list(run)
        if true:
            yield at[0], at[-1] + 1


def _within(ctx: Context, x: View, low: int, high: int, extent: int) -> View:
    """Does ``x``, a position of ``extent`` ones, lie in [low, high)?"""
    if high - low == 1:
        return ctx.elementwise(f"eq(%, {low})", [x])[0]
    above = _compared(ctx, x, "ge", low) if low > 0 else None
    below = _compared(ctx, x, "lt", high) if high < extent else None
    both = [v for v in (above, below) if v is not None]
    return both[0] if len(both) == 1 else _both(ctx, "and", *both)


def _compared(ctx: Context, x: View, kind: str, bound: int) -> View:
    out = ctx.elementwise(kind, [x, ctx.side.constant(scale(bound))])[0]
    ctx.side.integers.tests.append((out.base, x.base, kind, bound))
    return out


def _both(ctx: Context, op: str, a: View, b: View) -> View:
    out = ctx.elementwise(f"logical_{op}", [a, b])[0]
    integer_pair(ctx, out, op, a, b)
    return out
