"""Integers in numpy as torch computes them: they wrap around modulo their width."""

from __future__ import annotations

from typing import Any

import numpy as np

from .kernels_np import ELEMENTWISE, axes, op, spelt
from .promotion import Array, Invalid, cast, fits, floats, together

# ---- bit by bit ------------------------------------------------------------------------------------------
BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def _bitwise(name: str) -> None:
    @op(f"aten.bitwise_{name}", f"aten.__{name}__", f"aten.__i{name}__")
    def joined(x: Any, y: Any) -> Array:
        a, b = together(x, y)
        if a.dtype.kind == "f":
            raise Invalid("bits of a float")
        return np.asarray(BITWISE[name](a, b))

    ELEMENTWISE[f"bitwise_{name}"] = BITWISE[name]


for _name in BITWISE:
    _bitwise(_name)


@op("aten.bitwise_not")
def bitwise_not(x: Array) -> Array:
    return np.asarray(np.bitwise_not(x))


@op("aten.logical_xor")
def logical_xor(x: Array, y: Any) -> Array:
    return np.asarray(np.logical_xor(x, y))


def _shifted(x: Any, by: Any, left: bool) -> Array:
    """By a width or more: nothing is left, or only the sign."""
    a, n = together(x, by)
    width = a.dtype.itemsize * 8
    out = (n < 0) | (n >= width)
    safe = np.where(out, 0, n).astype(a.dtype)
    if left:
        return np.where(out, 0, a << safe).astype(a.dtype)
    rest = np.where(a < 0, -1, 0) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(out, rest, a >> safe).astype(a.dtype)


@op("aten.bitwise_left_shift", "aten.__lshift__", "aten.__ilshift__")
def left_shift(x: Any, by: Any) -> Array:
    return _shifted(x, by, True)


@op("aten.bitwise_right_shift", "aten.__rshift__", "aten.__irshift__")
def right_shift(x: Any, by: Any) -> Array:
    return _shifted(x, by, False)


# ---- division ------------------------------------------------------------------------------------------
def _divisor(a: Array, b: Array) -> None:
    if a.dtype.kind != "f" and not np.all(b):
        raise Invalid("an integer divided by 0")


@op("aten.floor_divide")
def floor_divide(x: Any, y: Any) -> Array:
    a, b = together(x, y)
    _divisor(a, b)
    return np.asarray(np.floor_divide(a, b))


@op("aten.remainder")
def remainder(x: Any, y: Any) -> Array:
    a, b = together(x, y)
    _divisor(a, b)
    return np.asarray(np.mod(a, b))


@op("aten.fmod")
def fmod(x: Any, y: Any) -> Array:
    a, b = together(x, y)
    _divisor(a, b)
    return np.asarray(np.fmod(a, b))


@op("aten.div", "aten.true_divide", "aten.divide")
def div(x: Any, y: Any, rounding_mode: str | None = None) -> Array:
    if rounding_mode is None:
        return np.asarray(np.true_divide(*floats(x, y)))
    if rounding_mode == "floor":
        return floor_divide(x, y)
    a, b = together(x, y)
    _divisor(a, b)
    if a.dtype.kind == "f":
        return np.asarray(np.trunc(a / b))
    # Towards zero: one more than the floor where something is left and the signs differ.
    floor = np.floor_divide(a, b)
    return np.asarray(floor + ((np.mod(a, b) != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)


ELEMENTWISE |= {
    "floor_divide": np.floor_divide, "remainder": np.mod, "fmod": np.fmod,
    "bitwise_not": np.bitwise_not, "logical_xor": np.logical_xor, "clamp": np.clip,
}  # fmt: skip


# ---- bounds, reductions --------------------------------------------------------------------------------
@op("aten.clamp")
def clamp(x: Array, low: Any = None, high: Any = None) -> Array:
    for bound in (low, high):
        if bound is not None and x.dtype.kind in "iu":
            fits(bound, x.dtype)
    x = x if low is None else np.maximum(*together(x, low))
    return np.asarray(x if high is None else np.minimum(*together(x, high)))


@op("aten.any")
def any_(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    return np.asarray((x != 0).any(axes(dim, x.ndim), keepdims=keepdim))


@op("aten.all")
def all_(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    return np.asarray((x != 0).all(axes(dim, x.ndim), keepdims=keepdim))


@op("aten.prod")
def prod(x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    x = cast(x, spelt(dtype) or ("int64" if x.dtype.kind in "biu" else None))
    return np.asarray(x.prod(axes(dim, x.ndim), dtype=x.dtype, keepdims=keepdim))


@op("aten.min")
def min_(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return np.asarray(x.min())
    return x.min(dim, keepdims=keepdim), x.argmin(dim, keepdims=keepdim)


@op("aten.argmax")
def argmax(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return np.asarray(x.argmax(dim, keepdims=keepdim))


_ADD = {"sum": np.sum, "product": np.prod}


def reduced(reduction: str, values: list[Array]) -> Array | None:
    """Members' tensors put together by a collective, in their own type; None: not known. NCCL adds
    booleans up as an or."""
    stacked = np.stack(values)
    if stacked.dtype == bool:
        known: Any = {"sum": np.any, "max": np.any, "min": np.all, "product": np.all}
        return np.asarray(known[reduction](stacked, 0)) if reduction in known else None
    if reduction in ("sum", "product"):
        return np.asarray(_ADD[reduction](stacked, 0, stacked.dtype))
    if reduction in ("max", "min"):
        return np.asarray(getattr(np, reduction)(stacked, 0))
    if reduction == "avg" and stacked.dtype.kind == "f":
        return np.asarray(stacked.mean(0))
    return None
