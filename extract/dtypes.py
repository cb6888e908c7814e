"""Element types: what a change of type does to the values."""

from __future__ import annotations

from gg_datalog.extract.context import Context
from gg_datalog.extract.view import View

FLOATS = ("float", "bfloat", "half", "double")


def is_float(dtype: str) -> bool:
    """Is it a floating-point type?"""
    return dtype.startswith(FLOATS)


def cast(ctx: Context, value: View, before: str, after: str) -> View:
    """A change of dtype: the identity between reals, an operator where values are cut."""
    if before.startswith("complex") != after.startswith("complex"):
        return ctx.elementwise(f"cast({before} to {after})", [value])[0]
    floats = is_float(before), is_float(after)
    if floats[1] or before == "bool" or (not floats[0] and after == "int64"):
        if all(floats):
            ctx.notes.assume("float casts", "casts between float types are the identity")
        return value
    return ctx.elementwise(f"cast({after})", [value])[0]
