"""What torch returns as a view: the same memory here, by numpy's own strides. And the copies that only
look like views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from .kernels_np import OPS, op, spelt
from .promotion import Array, Invalid, cast


def _sizes(x: Array, shape: Sequence[int]) -> list[int]:
    """Sizes with at most one -1 filled in."""
    known = prod(e for e in shape if e != -1)
    return [x.size // known if e == -1 else e for e in shape]


# ---- the tensor itself ---------------------------------------------------------------------------------
@op(
    "aten.detach", "aten.alias", "aten.positive", "aten.lift_fresh", "aten.resolve_conj",
    "aten.resolve_neg", "aten.view_of", "prims.view_of", "_c10d_functional.wait_tensor",
)  # fmt: skip
def itself(x: Array, *_: Any) -> Array:
    return x


@op("aten.clone", "aten.lift_fresh_copy", "aten.detach_copy", "aten.alias_copy")
def clone(x: Array, memory_format: Any = None) -> Array:
    dense = isinstance(memory_format, dict) and "contiguous" in memory_format["memory_format"]
    return x.copy(order="C" if dense else "K")


@op("aten.contiguous")
def contiguous(x: Array, **_: Any) -> Array:
    return x if x.flags.c_contiguous else x.copy(order="C")


@op("aten.type_as")
def type_as(x: Array, other: Array) -> Array:
    return cast(x, "float32" if other.dtype.kind == "f" else str(other.dtype))


@op("aten.to")
def to(x: Array, dtype: Any, _: bool = False, copy: bool = False, **__: Any) -> Array:
    """The tensor itself where it has this dtype (of another tensor: that one's)."""
    if isinstance(dtype, np.ndarray):
        return type_as(x, dtype)
    made = cast(x, spelt(dtype))
    return x.copy(order="K") if copy and made is x else made


@op("prims.convert_element_type")
def convert(x: Array, dtype: Any) -> Array:
    made = cast(x, spelt(dtype))
    return x.copy(order="K") if made is x else made


# ---- sizes ---------------------------------------------------------------------------------------------
@op("aten.view", "aten._unsafe_view", "aten.reshape")
def view(x: Array, shape: Sequence[int]) -> Array:
    return x.reshape(_sizes(x, shape))


@op("aten._reshape_alias")
def reshape_alias(x: Array, shape: Sequence[int], _: Any) -> Array:
    return x.reshape(shape)


@op("aten.view_as", "aten.reshape_as")
def view_as(x: Array, other: Array) -> Array:
    return x.reshape(other.shape)


@op("aten.flatten")
def flatten(x: Array, start: int = 0, end: int = -1) -> Array:
    lo, hi = start % max(x.ndim, 1), end % max(x.ndim, 1)
    return x.reshape([*x.shape[:lo], prod(x.shape[lo : hi + 1]), *x.shape[hi + 1 :]])


@op("aten.ravel")
def ravel(x: Array) -> Array:
    return x.reshape(-1)


@op("aten.unflatten")
def unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    dim %= x.ndim
    return x.reshape([*x.shape[:dim], *sizes, *x.shape[dim + 1 :]])


@op("aten.unsqueeze")
def unsqueeze(x: Array, dim: int) -> Array:
    return np.expand_dims(x, dim)


@op("aten.squeeze")
def squeeze(x: Array, dim: Any = None) -> Array:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return x.squeeze(tuple(d for d in dims if x.shape[d] == 1))


@op("aten.atleast_2d")
def atleast_2d(x: Array) -> Array:
    return x[None] if x.ndim == 1 else x.reshape(1, 1) if x.ndim == 0 else x


@op("aten.expand", "aten.broadcast_to")
def expand(x: Array, shape: Sequence[int], **_: Any) -> Array:
    own = [1] * (len(shape) - x.ndim) + list(x.shape)
    wide = [o if e == -1 else e for o, e in zip(own, shape, strict=True)]
    if any(o not in (1, e) for o, e in zip(own, wide, strict=True)):
        raise Invalid(f"{x.shape} does not expand to {shape}")
    steps = [0] * (len(shape) - x.ndim) + list(x.strides)
    steps = [s if o == e else 0 for s, o, e in zip(steps, own, wide, strict=True)]
    return np.lib.stride_tricks.as_strided(x, wide, steps)


@op("aten.expand_as")
def expand_as(x: Array, other: Array) -> Array:
    return expand(x, other.shape)


# ---- order ---------------------------------------------------------------------------------------------
@op("aten.permute")
def permute(x: Array, order: Sequence[int]) -> Array:
    return x.transpose(order)


@op("aten.transpose", "aten.swapaxes", "aten.swapdims")
def transpose(x: Array, a: int, b: int) -> Array:
    return x.swapaxes(a, b)


@op("aten.t", "aten.numpy_T", "aten.matrix_H")
def t(x: Array) -> Array:
    return x.T


@op("aten.mT", "aten.mH", "aten.adjoint")
def matrix_transpose(x: Array) -> Array:
    return x.swapaxes(-1, -2)


@op("aten.movedim", "aten.moveaxis")
def movedim(x: Array, source: Any, to: Any) -> Array:
    return np.moveaxis(x, source, to)


# ---- parts ---------------------------------------------------------------------------------------------
@op("aten.slice")
def slice_(x: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    places = [slice(None)] * x.ndim
    places[dim] = slice(start, end, step)
    return x[tuple(places)]


@op("aten.narrow")
def narrow(x: Array, dim: int, start: int, length: int) -> Array:
    return slice_(x, dim, start, start + length)


@op("aten.select")
def select(x: Array, dim: int, at: int) -> Array:
    if not -x.shape[dim] <= at < x.shape[dim]:
        raise Invalid(f"position {at} of {x.shape[dim]}")
    at %= x.shape[dim]
    return slice_(x, dim, at, at + 1).squeeze(dim)


@op("aten.diagonal")
def diagonal(x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    found = np.diagonal(x, offset, dim1, dim2)
    return np.lib.stride_tricks.as_strided(
        _start(x, offset, dim1, dim2), found.shape, found.strides
    )


def _start(x: Array, offset: int, dim1: int, dim2: int) -> Array:
    """The rest of a tensor from the first element of a diagonal on, writable as it is."""
    places = [slice(None)] * x.ndim
    places[dim1], places[dim2] = slice(max(0, -offset), None), slice(max(0, offset), None)
    return x[tuple(places)]


@op("aten.split_with_sizes")
def split_with_sizes(x: Array, sizes: Sequence[int], dim: int = 0) -> list[Array]:
    if sum(sizes) != x.shape[dim]:
        raise Invalid("sizes that do not add up")
    return np.split(x, np.cumsum(sizes)[:-1], dim)


@op("aten.split", "aten.unsafe_split")
def split(x: Array, size: Any, dim: int = 0) -> list[Array]:
    if isinstance(size, list):
        return split_with_sizes(x, size, dim)
    return np.split(x, range(size, x.shape[dim], size), dim)


@op("aten.chunk")
def chunk(x: Array, count: int, dim: int = 0) -> list[Array]:
    return split(x, max(1, -(-x.shape[dim] // count)), dim)


@op("aten.tensor_split")
def tensor_split(x: Array, count: int, dim: int = 0) -> list[Array]:
    return np.array_split(x, count, dim)


@op("aten.hsplit")
def hsplit(x: Array, count: int) -> list[Array]:
    return np.split(x, count, 0 if x.ndim == 1 else 1)


@op("aten.vsplit")
def vsplit(x: Array, count: int) -> list[Array]:
    return np.split(x, count, 0)


@op("aten.unbind")
def unbind(x: Array, dim: int = 0) -> list[Array]:
    return [select(x, dim, i) for i in range(x.shape[dim])]


# ---- copies of views -----------------------------------------------------------------------------------
COPIED = (
    "view", "slice", "select", "permute", "t", "transpose", "expand", "unsqueeze", "squeeze",
    "diagonal", "split", "unbind",
)  # fmt: skip


def _copied(function: Callable[..., Any]) -> Callable[..., Any]:
    def copied(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        return [a.copy() for a in made] if isinstance(made, list) else made.copy()

    return copied


for _name in COPIED:
    OPS[f"aten.{_name}_copy"] = _copied(OPS[f"aten.{_name}"])


@op("aten.diagonal_scatter")
def diagonal_scatter(x: Array, part: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    out = x.copy()
    diagonal(out, offset, dim1, dim2)[...] = part
    return out


def viewable(x: Array, shape: Sequence[int]) -> bool:
    """Is a reshape a view?"""
    return not x.size or bool(np.may_share_memory(x, x.reshape(_sizes(x, shape))))
