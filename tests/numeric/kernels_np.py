"""What each operator computes, in numpy: float64 for every float, integers in their widths. What torch
returns as a view is one here, too.

Opaque kernels (apex, vLLM, NeuronX) have a stand-in of our own that obeys their declared meaning.
Dropout is a scaling that depends on the ordinal of the random operator: a mask that both sides
share cannot be told apart element by element here, but a wrong pairing of instances can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf, prod
from typing import Any

import numpy as np

from .promotion import (
    Array,
    Invalid,
    cast,
    fits,
    floats,
    number,
    numpy_type,
    together,
    torch_name,
)

OPS: dict[str, Callable[..., Any]] = {}


class NotExecuted(Exception):
    """An operator, or a form of one, that is not described here."""


def op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function for operators with these names (without overload)."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OPS.update(dict.fromkeys(names, function))
        return function

    return register


# ---- elementwise ---------------------------------------------------------------------------------
_erf = np.vectorize(erf, otypes=[float])


def gelu(x: Array, approximate: str = "none", **_: Any) -> Array:
    """GELU, exact or by tanh."""
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / np.sqrt(2)))


def sigmoid(x: Array) -> Array:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def gelu_backward(g: Array, x: Array, approximate: str = "none", **_: Any) -> Array:
    """The gradient of :func:`gelu`."""
    if approximate == "tanh":
        turn = np.sqrt(2 / np.pi)
        bent = np.tanh(turn * (x + 0.044715 * x**3))
        return g * (0.5 * (1 + bent) + 0.5 * x * (1 - bent**2) * turn * (1 + 3 * 0.044715 * x**2))
    return g * (0.5 * (1 + _erf(x / np.sqrt(2))) + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))


def silu_backward(g: Array, x: Array) -> Array:
    """The gradient of x * sigmoid(x)."""
    return g * sigmoid(x) * (1 + x * (1 - sigmoid(x)))


def mish_backward(g: Array, x: Array) -> Array:
    """The gradient of x * tanh(log(1 + exp(x)))."""
    bent = np.tanh(np.logaddexp(0, x))
    return g * (bent + x * sigmoid(x) * (1 - bent * bent))


def hardswish_backward(g: Array, x: Array) -> Array:
    """The gradient of x * clamp(x + 3, 0, 6) / 6."""
    return np.where(x <= -3, 0, np.where(x < 3, g * (x / 3 + 0.5), g))


def logit_backward(g: Array, x: Array, eps: float | None = None) -> Array:
    """The gradient of log(x / (1 - x)), x clamped where ``eps`` is given."""
    low = 0.0 if eps is None else eps
    with np.errstate(all="ignore"):
        inside = g / (x * (1 - x))
    return np.where((x >= low) & (x <= 1 - low), inside, np.nan if eps is None else 0)


def smooth_l1(d: Array, bend: float = 1.0, **_: Any) -> Array:
    """A square near 0, further away a line."""
    return np.where(np.abs(d) < bend, d * d / (2 * bend), np.abs(d) - bend / 2)


def smooth_l1_slope(d: Array, bend: float = 1.0, **_: Any) -> Array:
    """The gradient of :func:`smooth_l1`."""
    return np.where(np.abs(d) < bend, d / bend, np.sign(d))


def binary_cross_entropy(x: Array, target: Array, **_: Any) -> Array:
    """Of probabilities."""
    with np.errstate(all="ignore"):
        logs = np.maximum(np.log(x), -100), np.maximum(np.log(1 - x), -100)
    return -(target * logs[0] + (1 - target) * logs[1])


def binary_cross_entropy_backward(g: Array, x: Array, target: Array, **_: Any) -> Array:
    """The gradient of :func:`binary_cross_entropy`."""
    return g * (x - target) / np.maximum(x * (1 - x), 1e-12)


def binary_cross_entropy_with_logits(x: Array, target: Array, **_: Any) -> Array:
    """Of logits."""
    return np.logaddexp(0, x) - x * target


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "cos": np.cos, "sin": np.sin, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "sigmoid": sigmoid, "gelu": gelu,
    "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x * sigmoid(x), "erf": _erf,
    "square": np.square, "reciprocal": lambda x: 1 / x, "pow": np.power, "div": np.true_divide,
    "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "sign": np.sign,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "logical_not": np.logical_not, "logical_or": np.logical_or,
    "logical_and": np.logical_and, "floor": np.floor, "ceil": np.ceil,
    "clamp_min": np.maximum, "clamp_max": np.minimum, "isnan": np.isnan,
    "table": lambda x, *values: np.asarray(values)[x.astype(int)],
    "gelu_backward": gelu_backward, "silu_backward": silu_backward,
    "sigmoid_backward": lambda g, y: g * y * (1 - y), "tanh_backward": lambda g, y: g * (1 - y * y),
    "threshold_backward": lambda g, x, bound: np.where(x <= bound, 0, g),
    "mish_backward": mish_backward, "logit_backward": logit_backward,
    "hardswish_backward": hardswish_backward,
    "hardsigmoid_backward": lambda g, x: np.where(np.abs(x) < 3, g / 6, 0),
    "atan2": np.arctan2, "copysign": np.copysign, "nextafter": np.nextafter, "signbit": np.signbit,
    "smooth_l1": smooth_l1, "smooth_l1_slope": smooth_l1_slope,
    "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_backward": binary_cross_entropy_backward,
    "binary_cross_entropy_with_logits": binary_cross_entropy_with_logits,
    "angle": lambda x: np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0)),
}  # fmt: skip
SAME_TYPE = (
    "abs", "relu", "square", "mul", "maximum", "minimum", "sign", "lt", "le", "gt", "ge", "eq", "ne",
    "floor", "ceil", "clamp_min", "clamp_max", "isnan", "threshold_backward", "pow",
)  # fmt: skip
LOGICAL = ("logical_not", "logical_or", "logical_and")


def _typed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on operands in the type that torch computes it in."""
    brought = together if name in SAME_TYPE else (lambda *a: a) if name in LOGICAL else floats
    return lambda *a, **k: np.asarray(function(*brought(*a), **_meaningful(k)))


for _name, _function in ELEMENTWISE.items():
    OPS[f"aten.{_name}"] = _typed(_name, _function)
OPS["hlo.logistic"] = OPS["aten.sigmoid"]


def _meaningful(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in kwargs.items() if k in ("approximate",)}


def scaled_pair(x: Any, y: Any, alpha: float) -> list[Array]:
    """Both operands in their common type, the second one times a number."""
    a, b = together(x, y)
    if isinstance(alpha, float) and a.dtype.kind != "f" and alpha != int(alpha):
        raise Invalid("an integer times a float")
    return [a, b if b.dtype == bool or alpha == 1 else np.asarray(b * number(alpha, b.dtype))]


@op("aten.add")
def add(x: Array, y: Any, alpha: float = 1) -> Array:
    a, b = scaled_pair(x, y, alpha)
    return np.asarray(a + b)


@op("aten.sub")
def sub(x: Array, y: Any, alpha: float = 1) -> Array:
    a, b = scaled_pair(x, y, alpha)
    return np.asarray(a - b)


@op("aten.rsub")
def rsub(x: Array, y: Any, alpha: float = 1) -> Array:
    b, a = scaled_pair(y, x, alpha)
    return np.asarray(b - a)


@op("aten.neg")
def neg(x: Array) -> Array:
    return np.asarray(-x)


@op("aten.masked_fill")
def masked_fill(x: Array, mask: Array, value: Any) -> Array:
    if x.dtype.kind in "iu" and isinstance(value, int):
        fits(value, x.dtype)
    return np.where(mask.astype(bool), number(value, x.dtype), x)


@op("aten.where", "hlo.select")
def where(mask: Array, a: Any, b: Any) -> Array:
    return np.where(mask.astype(bool), *together(a, b))


def spelt(dtype: Any) -> str | None:
    """A dtype argument as its name."""
    word = dtype["dtype"] if isinstance(dtype, dict) else dtype
    return word.removeprefix("torch.") if word else None


# ---- reductions ------------------------------------------------------------------------------------
def axes(dims: Any, rank: int) -> tuple[int, ...]:
    """Dimension numbers; None or nothing is all of them."""
    if dims is None or dims == []:
        return tuple(range(rank))
    return tuple(d % max(rank, 1) for d in (dims if isinstance(dims, (list, tuple)) else [dims]))


@op("aten.sum", "hlo.reduce_add")
def sum_(x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None, **_: Any) -> Array:
    x = cast(x, spelt(dtype) or ("int64" if x.dtype.kind in "biu" else None))
    if x.dtype == bool:
        return np.asarray(x.any(axes(dim, x.ndim), keepdims=keepdim))
    return np.asarray(x.sum(axes(dim, x.ndim), dtype=x.dtype, keepdims=keepdim))


@op("aten.mean")
def mean(x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None, **_: Any) -> Array:
    x = cast(x, spelt(dtype))
    if x.dtype.kind != "f":
        raise Invalid("a mean of integers")
    return np.asarray(x.mean(axes(dim, x.ndim), keepdims=keepdim))


@op("aten.logsumexp")
def logsumexp(x: Array, dim: Any, keepdim: bool = False) -> Array:
    dims = tuple(dim) if isinstance(dim, (list, tuple)) else (dim,)
    return np.asarray(np.log(np.exp(x).sum(dims, keepdims=keepdim)))


@op("aten.logaddexp")
def logaddexp(x: Array, y: Array) -> Array:
    return np.asarray(np.logaddexp(*floats(x, y)))


@op("aten.amax", "hlo.reduce_max")
def amax(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    return np.asarray(x.max(axes(dim, x.ndim), keepdims=keepdim))


@op("aten.amin", "hlo.reduce_min")
def amin(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    return np.asarray(x.min(axes(dim, x.ndim), keepdims=keepdim))


@op("aten.max")
def max_(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return np.asarray(x.max())
    return x.max(dim, keepdims=keepdim), x.argmax(dim, keepdims=keepdim)


@op("aten.argsort")
def argsort(x: Array, dim: int = -1, descending: bool = False) -> Array:
    return np.argsort(-x if descending else x, axis=dim, kind="stable")


@op("aten.topk")
def topk(x: Array, k: int, dim: int = -1) -> tuple[Array, Array]:
    order = np.take(argsort(x, dim, True), np.arange(k), dim)
    return np.take_along_axis(x, order, dim), order


@op("aten.flip")
def flip(x: Array, dims: Sequence[int]) -> Array:
    return np.flip(x, tuple(dims))


@op("aten._softmax", "aten.softmax")
def softmax(x: Array, dim: int, *_: Any, **__: Any) -> Array:
    powers = np.exp(x - x.max(dim, keepdims=True))
    return powers / powers.sum(dim, keepdims=True)


@op("aten._log_softmax", "aten.log_softmax")
def log_softmax(x: Array, dim: int, *_: Any) -> Array:
    return np.log(softmax(x, dim))


@op("aten._softmax_backward_data")
def softmax_backward(g: Array, y: Array, dim: Any, *_: Any) -> Array:
    return y * (g - (g * y).sum(dim, keepdims=True))


@op("aten._log_softmax_backward_data")
def log_softmax_backward(g: Array, y: Array, dim: Any, *_: Any) -> Array:
    return g - np.exp(y) * g.sum(dim, keepdims=True)


@op("aten.linalg_vector_norm")
def vector_norm(x: Array, order: Any = 2, dim: Any = None, keepdim: bool = False) -> Array:
    if order == 1:
        return np.asarray(np.abs(x).sum(axes(dim, x.ndim), keepdims=keepdim))
    assert order == 2
    return np.asarray(np.sqrt((x * x).sum(axes(dim, x.ndim), keepdims=keepdim)))


NONE, MEAN = 0, 1  # reductions of a loss; 2 is a sum


@op("aten.nll_loss_forward")
def nll_loss(x: Array, target: Array, weight: Any, reduction: int, ignored: int) -> Any:
    kept = target != ignored
    at = np.where(kept, target, 0)
    each = np.where(kept, -x[np.arange(len(x)), in_range(at, x.shape[1])], 0)
    if reduction == NONE:
        return each, np.zeros(())
    count = np.asarray(float(kept.sum()))
    return np.asarray(each.sum() / (count if reduction == MEAN else 1)), count


@op("aten.nll_loss_backward")
def nll_loss_backward(
    g: Array, x: Array, target: Array, weight: Any, reduction: int, ignored: int, count: Array
) -> Array:
    out = np.zeros_like(x)
    out[np.arange(len(x)), in_range(np.where(target != ignored, target, 0), x.shape[1])] = -1
    out[target == ignored] = 0
    return out * (g / (count if reduction == MEAN else 1)).reshape(-1, 1)


@op("aten.nll_loss2d_forward")
def nll_loss2d(x: Array, target: Array, weight: Any, reduction: int, ignored: int) -> Any:
    rows = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
    total, count = nll_loss(rows, target.reshape(-1), weight, reduction, ignored)
    return (total.reshape(target.shape) if reduction == NONE else total), count


@op("aten.nll_loss2d_backward")
def nll_loss2d_backward(g: Array, x: Array, target: Array, *more: Any) -> Array:
    rows = np.moveaxis(x, 1, -1)
    flat = rows.reshape(-1, x.shape[1])
    made = nll_loss_backward(g.reshape(-1) if g.ndim else g, flat, target.reshape(-1), *more)
    return np.moveaxis(made.reshape(rows.shape), -1, 1)


@op("aten.mse_loss_backward")
def mse_loss_backward(g: Array, x: Array, y: Array, reduction: int) -> Array:
    return 2 * (x - y) * g / (x.size if reduction == MEAN else 1)


def _of_all(each: Array, reduction: int) -> Array:
    return (
        each
        if reduction == NONE
        else np.asarray(each.sum() / (each.size if reduction == MEAN else 1))
    )


@op("aten.smooth_l1_loss")
def smooth_l1_loss(x: Array, y: Array, reduction: int = MEAN, beta: float = 1.0) -> Array:
    return _of_all(smooth_l1(x - y, beta), reduction)


@op("aten.huber_loss")
def huber_loss(x: Array, y: Array, reduction: int = MEAN, delta: float = 1.0) -> Array:
    return _of_all(smooth_l1(x - y, delta) * delta, reduction)


@op("aten.smooth_l1_loss_backward")
def smooth_l1_loss_backward(g: Array, x: Array, y: Array, reduction: int, beta: float) -> Array:
    return g * smooth_l1_slope(x - y, beta) / (x.size if reduction == MEAN else 1)


@op("aten.huber_loss_backward")
def huber_loss_backward(g: Array, x: Array, y: Array, reduction: int, delta: float) -> Array:
    return g * smooth_l1_slope(x - y, delta) * delta / (x.size if reduction == MEAN else 1)


@op("aten.binary_cross_entropy")
def bce_loss(x: Array, y: Array, weight: Any = None, reduction: int = MEAN) -> Array:
    return _of_all(binary_cross_entropy(x, y), reduction)


@op("aten.binary_cross_entropy_with_logits")
def bce_logits(
    x: Array, y: Array, weight: Any = None, positive: Any = None, reduction: int = MEAN
) -> Array:
    return _of_all(binary_cross_entropy_with_logits(x, y), reduction)


@op("aten.binary_cross_entropy_backward")
def bce_backward(g: Array, x: Array, y: Array, weight: Any = None, reduction: int = MEAN) -> Array:
    made = binary_cross_entropy_backward(g, x, y)
    return made / (x.size if reduction == MEAN else 1)


@op("aten.addcmul")
def addcmul(x: Array, a: Array, b: Array, value: float = 1) -> Array:
    return x + a * b * value


@op("aten.addcdiv")
def addcdiv(x: Array, a: Array, b: Array, value: float = 1) -> Array:
    return x + a / b * value


@op("aten.lerp")
def lerp(x: Array, end: Array, weight: float) -> Array:
    return x + weight * (end - x)


@op("aten.cumsum")
def cumsum(x: Array, dim: int, dtype: Any = None, **_: Any) -> Array:
    x = cast(x, spelt(dtype) or ("int64" if x.dtype.kind in "biu" else None))
    return np.cumsum(x, dim, dtype=x.dtype)


# ---- products --------------------------------------------------------------------------------------
@op("aten.mm", "aten.bmm", "aten.matmul")
def matmul(x: Array, y: Array) -> Array:
    if x.shape[-1] != y.shape[-2]:
        raise Invalid(f"a product of {x.shape} and {y.shape}")
    return x @ y


@op("aten.addmm")
def addmm(b: Array, x: Array, y: Array, beta: float = 1, alpha: float = 1) -> Array:
    return b * beta + (x @ y) * alpha


@op("aten.baddbmm")
def baddbmm(b: Array, x: Array, y: Array, beta: float = 1, alpha: float = 1) -> Array:
    return (x @ y) * alpha if beta == 0 else b * beta + (x @ y) * alpha


@op("aten.linear")
def linear(x: Array, w: Array, b: Array | None = None) -> Array:
    return x @ w.T if b is None else x @ w.T + b


@op("hlo.dot")
def hlo_dot(x: Array, y: Array, kx: Any, ky: Any, bx: Any, by: Any) -> Array:
    left, right = list(range(x.ndim)), list(range(x.ndim, x.ndim + y.ndim))
    for i, j in zip([*kx, *bx], [*ky, *by], strict=True):
        right[j] = left[i]
    out = [left[i] for i in bx]
    out += [n for i, n in enumerate(left) if i not in (*kx, *bx)]
    out += [n for j, n in enumerate(right) if j not in (*ky, *by)]
    return np.einsum(x, left, y, right, out)


# ---- lookups ---------------------------------------------------------------------------------------
def in_range(ids: Array, rows: int) -> Array:
    """The ids, if all of them lie inside the table."""
    if ids.size and (ids.min() < 0 or ids.max() >= rows):
        raise Invalid(f"an id outside [0, {rows})")
    return ids.astype(np.int64)


@op("aten.embedding")
def embedding(table: Array, ids: Array, *_: Any) -> Array:
    return table[in_range(ids, table.shape[0])]


@op("aten.index_select")
def index_select(x: Array, dim: int, ids: Array) -> Array:
    return np.take(x, in_range(ids, x.shape[dim]), dim)


def places(x: Array, indices: Sequence[Array | None]) -> tuple[Any, ...]:
    """Where a list of index tensors points to: a mask, or ids per dimension (None: all of it)."""
    if any(i is not None and i.dtype == bool for i in indices):
        (mask,) = indices
        return (mask,)
    return tuple(
        slice(None) if i is None else in_range(i, x.shape[dim]) for dim, i in enumerate(indices)
    )


@op("aten.index")
def index(x: Array, indices: Sequence[Array | None]) -> Array:
    return x[places(x, indices)]


@op("aten.gather")
def gather(x: Array, dim: int, ids: Array) -> Array:
    return np.take_along_axis(x, in_range(ids, x.shape[dim]), dim)


@op("aten.index_put")
def index_put(
    x: Array, indices: Sequence[Array | None], value: Array, accumulate: bool = False
) -> Array:
    out = x.copy()
    if accumulate:
        np.add.at(out, places(x, indices), value)
    else:
        out[places(x, indices)] = value
    return out


@op("aten.embedding_dense_backward")
def embedding_backward(g: Array, ids: Array, rows: int, padding: int, *_: Any) -> Array:
    out = np.zeros((rows, *g.shape[ids.ndim :]))
    kept = ids != padding
    np.add.at(out, in_range(ids, rows)[kept], g[kept])
    return out


def along(x: Array, dim: int, ids: Array) -> tuple[Any, ...]:
    """Position ids of dimension ``dim``, of every other dimension the own one."""
    grid = np.indices(ids.shape)
    return tuple(in_range(ids, x.shape[d]) if d == dim % x.ndim else grid[d] for d in range(x.ndim))


@op("aten.scatter_add")
def scatter_add(x: Array, dim: int, ids: Array, source: Array) -> Array:
    out = x.copy()
    np.add.at(out, along(x, dim, ids), source)
    return out


@op("aten.index_add")
def index_add(x: Array, dim: int, ids: Array, source: Array, alpha: float = 1) -> Array:
    out = np.moveaxis(x.copy(), dim, 0)
    np.add.at(out, in_range(ids, x.shape[dim]), np.moveaxis(source, dim, 0) * alpha)
    return np.moveaxis(out, 0, dim)


@op("aten.scatter")
def scatter(x: Array, dim: int, ids: Array, source: Any) -> Array:
    out = x.copy()
    out[along(x, dim, ids)] = source
    return out


@op("aten.index_copy")
def index_copy(x: Array, dim: int, ids: Array, source: Array) -> Array:
    out = x.copy()
    np.moveaxis(out, dim, 0)[in_range(ids, x.shape[dim])] = np.moveaxis(source, dim, 0)
    return out


@op("aten.index_fill")
def index_fill(x: Array, dim: int, ids: Array, value: Any) -> Array:
    out = x.copy()
    np.moveaxis(out, dim, 0)[in_range(ids, x.shape[dim])] = value
    return out


@op("aten.fill")
def fill(x: Array, value: Any) -> Array:
    fits(value, x.dtype)
    return np.full(x.shape, number(value, x.dtype))


@op("aten.zero", "aten.zeros_like")
def zeros_like(x: Array, dtype: Any = None, **_: Any) -> Array:
    return np.zeros_like(x, numpy_type(spelt(dtype)) if dtype else x.dtype)


@op("aten.ones_like")
def ones_like(x: Array, dtype: Any = None, **_: Any) -> Array:
    return np.ones_like(x, numpy_type(spelt(dtype)) if dtype else x.dtype)


@op("hlo.gather")
def hlo_gather(x: Array, ids: Array, offsets: Any, collapsed: Any, *rest: Any) -> Array:
    _starts, vector, _sizes = rest
    if (
        vector != ids.ndim
        or collapsed != [0]
        or offsets != list(range(ids.ndim, ids.ndim + x.ndim - 1))
    ):
        raise NotImplementedError("hlo.gather of this form")
    return x[in_range(ids, x.shape[0])]


# ---- movement (what is a view is in views_np.py) -------------------------------------------------------
@op("hlo.reshape")
def hlo_reshape(x: Array, shape: Sequence[int]) -> Array:
    return x.reshape(shape)


@op("hlo.transpose")
def hlo_transpose(x: Array, order: Sequence[int]) -> Array:
    return x.transpose(order)


@op("aten.copy")
def copy(x: Array, y: Array) -> Array:
    return np.array(np.broadcast_to(y, x.shape), x.dtype) if y.dtype == x.dtype else cast(
        np.array(np.broadcast_to(y, x.shape)), torch_name(x)
    )  # fmt: skip


@op("aten.cat", "hlo.concatenate")
def cat(parts: Sequence[Array], dim: int = 0) -> Array:
    return np.concatenate(parts, dim)


@op("aten.slice_scatter")
def slice_scatter(x: Array, part: Array, dim: int = 0, start: Any = None, end: Any = None) -> Array:
    out = x.copy()
    out[(slice(None),) * (dim % x.ndim) + (slice(start, end),)] = part
    return out


@op("aten.slice_backward")
def slice_backward(g: Array, shape: Any, dim: int, start: int, end: int, step: int) -> Array:
    return slice_scatter(np.zeros(shape), g, dim, start, end)


@op("aten.select_backward")
def select_backward(g: Array, shape: Any, dim: int, at: int) -> Array:
    return slice_scatter(np.zeros(shape), np.expand_dims(g, dim), dim, at, at + 1)


@op("aten.select_scatter")
def select_scatter(x: Array, part: Array, dim: int, at: int) -> Array:
    return slice_scatter(x, np.expand_dims(part, dim), dim, at, at + 1)


@op("aten.stack")
def stack(parts: Sequence[Array], dim: int = 0) -> Array:
    return np.stack(parts, dim)


@op("hlo.broadcast")
def hlo_broadcast(x: Any, dims: Sequence[int], shape: Sequence[int]) -> Array:
    x = np.asarray(x)
    wide = [1] * len(shape)
    for extent, dim in zip(x.shape, dims, strict=True):
        wide[dim] = extent
    return np.broadcast_to(x.reshape(wide), shape)


@op(
    "tg.log_tensor", "hlo.copy",
)  # fmt: skip
def same(x: Array, *_: Any, **__: Any) -> Array:
    return x


@op("aten._to_copy")
def to_copy(x: Array, dtype: Any = None, **_: Any) -> Array:
    made = cast(x, spelt(dtype))
    return made.copy(order="K") if made is x else made


# ---- memory ----------------------------------------------------------------------------------------
@op("aten.empty", "aten.new_empty", "aten.new_empty_strided", "aten.empty_like")
def empty(x: Any, *shape: Any, dtype: Any = None, **_: Any) -> Array:
    kind = numpy_type(spelt(dtype) or (torch_name(x) if isinstance(x, np.ndarray) else "float32"))
    if isinstance(x, np.ndarray) and not shape:
        return np.zeros_like(x, kind)
    return np.zeros(shape[0] if shape else x, kind)


@op("aten.zeros")
def zeros(shape: Sequence[int], dtype: Any = None, **_: Any) -> Array:
    return np.zeros(shape, numpy_type(spelt(dtype) or "float32"))


@op("aten.ones")
def ones(shape: Sequence[int], dtype: Any = None, **_: Any) -> Array:
    return np.ones(shape, numpy_type(spelt(dtype) or "float32"))


@op("aten.full")
def full(shape: Sequence[int], value: float, dtype: Any = None, **_: Any) -> Array:
    made = np.full(shape, value)
    return made if dtype is None else cast(made, spelt(dtype))


@op("aten.arange")
def arange(
    start: float, end: float | None = None, step: float = 1, dtype: Any = None, **_: Any
) -> Array:
    made = np.arange(start, end, step) if end is not None else np.arange(start)
    return made if dtype is None else cast(made, spelt(dtype))


# ---- normalisation, kernels --------------------------------------------------------------------------
def layer_norm(x: Array, w: Array, b: Array, eps: float) -> tuple[Array, Array, Array]:
    """Over the last dimension: result, mean, 1 / deviation (dimensions kept)."""
    mu = x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - mu) * inverse * w + b, mu, inverse


def rms_norm(x: Array, w: Array, eps: float) -> Array:
    """Over the last dimension."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


@op("aten.native_layer_norm")
def native_layer_norm(x: Array, shape: Any, w: Array, b: Array, eps: float) -> Any:
    assert list(shape) == [x.shape[-1]]
    return layer_norm(x, w, b, eps)


def layer_norm_backward(
    g: Array, x: Array, mu: Array, inverse: Array, w: Array
) -> tuple[Array, Array, Array]:
    """Gradients of input, weight and bias; the last two not yet added up over tokens."""
    plain = (x - mu) * inverse
    scaled = g * w
    mean_ = scaled.mean(-1, keepdims=True) + plain * (scaled * plain).mean(-1, keepdims=True)
    return (scaled - mean_) * inverse, g * plain, g


@op("aten.native_layer_norm_backward")
def native_layer_norm_backward(
    g: Array, x: Array, shape: Any, mu: Array, inverse: Array, w: Array, b: Array, *_: Any
) -> Any:
    assert list(shape) == [x.shape[-1]] == list(b.shape)
    made = layer_norm_backward(g, x, mu, inverse, w)
    return made[0], *(a.reshape(-1, x.shape[-1]).sum(0) for a in made[1:])


@op("aten._fused_rms_norm")
def fused_rms_norm(x: Array, shape: Any, w: Array, eps: float) -> Any:
    assert list(shape) == [x.shape[-1]]
    return rms_norm(x, w, eps), 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rms_norm_backward(g: Array, x: Array, inverse: Array, w: Array) -> tuple[Array, Array]:
    """Gradients of input and weight; the second one not yet added up over tokens."""
    plain, scaled = x * inverse, g * w
    return (scaled - plain * (scaled * plain).mean(-1, keepdims=True)) * inverse, g * plain


@op("aten._fused_rms_norm_backward")
def fused_rms_norm_backward(
    g: Array, x: Array, shape: Any, inverse: Array, w: Array, *_: Any
) -> Any:
    assert list(shape) == [x.shape[-1]]
    dx, dw = rms_norm_backward(g, x, inverse, w)
    return dx, dw.reshape(-1, x.shape[-1]).sum(0)


# ---- channels ------------------------------------------------------------------------------------------
def ways(
    sizes: Sequence[Sequence[int]], way: Sequence[Sequence[int]], transposed: bool
) -> list[Array]:
    """Per dimension in space: 1 where a position of the result, one of the input and one of the
    kernel meet. ``sizes`` are of input, kernel and result."""
    found = []
    for x, k, y, step, before, apart in zip(*sizes, *way[:3], strict=True):
        result, given = np.arange(y)[:, None, None], np.arange(x)[None, :, None]
        fixed, moved = (result, given) if transposed else (given, result)
        found.append(1.0 * (fixed == moved * step + np.arange(k) * apart - before))
    return found


def convolved(kind: str, a: Array, b: Array, meet: Sequence[Array]) -> Array:
    """A convolution or one of its gradients. ``[batch, group, channel, ...]`` of input and result,
    ``[group, channel of the result, channel of the input, ...]`` of the kernel."""
    xs, ks, ys = ("uvw"[: len(meet)], "klm"[: len(meet)], "xyz"[: len(meet)])
    named = {"x": f"ngc{xs}", "k": f"goc{ks}", "y": f"ngo{ys}"}
    first, second, out = {"y": "xky", "x": "ykx", "k": "yxk"}[kind]
    between = [f"{y}{x}{k}" for y, x, k in zip(ys, xs, ks, strict=True)]
    text = ",".join([named[first], named[second], *between])
    return np.einsum(f"{text}->{named[out]}", a, b, *meet)


def in_groups(x: Array, dim: int, groups: int) -> Array:
    """A dimension as groups and what is in a group."""
    return x.reshape(*x.shape[:dim], groups, x.shape[dim] // groups, *x.shape[dim + 1 :])


def _kernel_in_groups(w: Array, groups: int, transposed: bool) -> Array:
    grouped = in_groups(w, 0, groups)
    return np.swapaxes(grouped, 1, 2) if transposed else grouped


@op("aten.convolution")
def convolution(
    x: Array, w: Array, b: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    more: Any, groups: int,
) -> Array:  # fmt: skip
    way = [stride, padding, dilation, more]
    result = [
        (e - 1) * s - 2 * p + d * (k - 1) + m + 1 if transposed else (e + 2 * p - d * (k - 1) - 1) // s + 1
        for e, k, s, p, d, m in zip(x.shape[2:], w.shape[2:], *way, strict=True)
    ]  # fmt: skip
    meet = ways([x.shape[2:], w.shape[2:], result], way, transposed)
    made = convolved("y", in_groups(x, 1, groups), _kernel_in_groups(w, groups, transposed), meet)
    made = made.reshape(x.shape[0], -1, *result)
    return made if b is None else made + b.reshape(-1, *[1] * len(result))


@op("aten.convolution_backward")
def convolution_backward(
    g: Array, x: Array, w: Array, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, more: Any, groups: int, mask: Sequence[bool],
) -> Any:  # fmt: skip
    meet = ways([x.shape[2:], w.shape[2:], g.shape[2:]], [stride, padding, dilation], transposed)
    of_g, of_x = in_groups(g, 1, groups), in_groups(x, 1, groups)
    dx = convolved("x", of_g, _kernel_in_groups(w, groups, transposed), meet).reshape(x.shape)
    dw = convolved("k", of_g, of_x, meet)
    dw = (np.swapaxes(dw, 1, 2) if transposed else dw).reshape(w.shape)
    db = np.moveaxis(g, 1, 0).reshape(g.shape[1], -1).sum(1)
    return tuple(a if kept else None for a, kept in zip((dx, dw, db), mask, strict=True))


@op("aten.native_group_norm")
def native_group_norm(
    x: Array, w: Any, b: Any, n: int, c: int, space: int, groups: int, eps: float
) -> Any:
    out, mu, inverse = layer_norm(x.reshape(n, groups, -1), np.ones(1), np.zeros(1), eps)
    beside = (c, *[1] * (x.ndim - 2))
    out = out.reshape(x.shape) * (1 if w is None else w.reshape(beside))
    return out + (0 if b is None else b.reshape(beside)), mu[..., 0], inverse[..., 0]


@op("aten.native_group_norm_backward")
def native_group_norm_backward(
    g: Array, x: Array, mu: Array, inverse: Array, w: Any, n: int, c: int, space: int, groups: int,
    mask: Sequence[bool],
) -> Any:  # fmt: skip
    scaled = g * (1 if w is None else w.reshape(c, *[1] * (x.ndim - 2)))
    rows = [a.reshape(n, groups, -1) for a in (scaled, x)]
    statistics = [a.reshape(n, groups, 1) for a in (mu, inverse)]
    dx = layer_norm_backward(*rows, *statistics, np.ones(1))[0].reshape(x.shape)
    plain = ((rows[1] - statistics[0]) * statistics[1]).reshape(x.shape)
    over = tuple(i for i in range(x.ndim) if i != 1)
    made = dx, (g * plain).sum(over), g.sum(over)
    return tuple(a if kept else None for a, kept in zip(made, mask, strict=True))


@op("apex.fused_layer_norm_affine_fwd")
def apex_layer_norm(x: Array, w: Array, b: Array, shape: Any, eps: float) -> Any:
    y, mu, inverse = layer_norm(x, w, b, eps)
    return y, mu.reshape(-1), inverse.reshape(-1)


@op("hlo.AwsNeuronRmsNorm")
def neuron_rms_norm(x: Array, w: Array, eps: float) -> Array:
    return np.moveaxis(rms_norm(np.moveaxis(x, 0, -1), w, eps), -1, 0)


def rotate(x: Array, turns: Array) -> Array:
    """Heads ``[tokens, heads, size]`` turned by ``turns`` ``[tokens, size]`` (cosines, sines)."""
    c, s = (part[:, None] for part in np.split(turns, 2, -1))
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def attend(q: Array, k: Array, v: Array) -> Array:
    """``[tokens, kv head, heads per kv head, size]`` over ``[tokens, kv head, size]``."""
    scores = np.einsum("skgd,tkd->kgst", q, k) * q.shape[-1] ** -0.5
    return np.einsum("kgst,tke->skge", softmax(scores, -1), v)


def silu_and_mul(x: Array) -> Array:
    """``[..., 2, c]``: silu of the first half times the second."""
    return x[..., 0, :] * sigmoid(x[..., 0, :]) * x[..., 1, :]


@op("auto_functionalized", "auto_functionalized_v2")
def functionalised(kernel: str, **k: Any) -> Any:
    if kernel.startswith("tg."):
        return (None, *k["_all_bases"])
    if kernel == "_C.rms_norm.default":
        return None, rms_norm(k["input"], k["weight"], k["epsilon"])
    if kernel == "_C.fused_add_rms_norm.default":
        total = k["input"] + k["residual"]
        return None, rms_norm(total, k["weight"], k["epsilon"]), total
    if kernel == "_C.silu_and_mul.default":
        x = k["input"]
        return None, silu_and_mul(x.reshape(*x.shape[:-1], 2, x.shape[-1] // 2))
    if kernel == "_C.rotary_embedding.default":
        cache = k["cos_sin_cache"]
        turns = cache[in_range(k["positions"], cache.shape[0])]
        heads = (k[n].reshape(len(turns), -1, k["head_size"]) for n in ("query", "key"))
        return None, *(rotate(x, turns).reshape(len(turns), -1) for x in heads)
    if kernel == "vllm.unified_attention_with_output.default":
        q, key, v = k["query"], k["key"], k["value"]
        q = q.reshape(q.shape[0], key.shape[1], q.shape[1] // key.shape[1], q.shape[2])
        return None, attend(q, key, v).reshape(q.shape[0], -1, v.shape[-1])
    raise NotImplementedError(kernel)


@op("aten.native_dropout_backward")
def dropout_backward(g: Array, mask: Array, by: float) -> Array:
    return g * mask * by


def dropped(x: Array, ordinal: int) -> tuple[Array, Array]:
    """Dropout number ``ordinal`` of a program."""
    return x * (0.7 + 0.01 * ordinal), np.ones(x.shape, bool)


def size(shape: Sequence[int]) -> int:
    """Number of elements."""
    return prod(shape)
