"""One operator of a graph on arrays in memory: results may be views of operands, and some operators
write into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from zlib import crc32

import numpy as np

from . import (
    integers_np,  # noqa: F401 (registers operators)
    views_np,  # noqa: F401 (registers operators)
)
from .kernels_np import OPS, NotExecuted
from .program import Json
from .promotion import Array, Invalid, cast, numpy_type, torch_name

Values = dict[str, Any]


def name_of(node: Json) -> str:
    """The target without its overload."""
    target: str = node["target"]
    return target.rpartition(".")[0] if target.count(".") > 1 else target


def resolve(argument: Any, values: Mapping[str, Any]) -> Any:
    """An argument with references replaced by values."""
    if isinstance(argument, dict):
        if "node" in argument:
            return values[argument["node"]]
        return float(argument["float"]) if "float" in argument else argument
    return [resolve(a, values) for a in argument] if isinstance(argument, list) else argument


# ---- writes --------------------------------------------------------------------------------------------
def in_place(name: str) -> str | None:
    """The operator that gives what this one writes into its first operand, if it does."""
    space, _, kernel = name.partition(".")
    if kernel.startswith("__i") and kernel.endswith("__"):
        return name
    return name[:-1] if space == "aten" and kernel.endswith("_") and kernel[-2:] != "__" else None


def write(into: Array, value: Any) -> Array:
    """Writes a result into memory, as torch allows it."""
    if any(s == 0 and e > 1 for s, e in zip(into.strides, into.shape, strict=True)):
        raise Invalid("a write into repeated memory")
    if value.shape != into.shape:
        raise Invalid(f"a result of shape {value.shape} into {into.shape}")
    into[...] = value if value is into else _castable(value, into)
    return into


def _castable(value: Array, into: Array) -> Array:
    order = "biuf"
    ranks = [min(order.index(x.dtype.kind), 2) if x.dtype.kind != "f" else 3 for x in (value, into)]
    ranks = [1 if r == 2 else r for r in ranks]
    if ranks[0] > ranks[1]:
        raise Invalid(f"a result of {value.dtype} into {into.dtype}")
    return cast(value, torch_name(into))


def same_memory(a: Array, b: Array) -> bool:
    """Exactly the same elements in the same order?"""
    return (
        a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        and a.shape == b.shape
        and a.strides == b.strides
    )


def overlap(a: Any, b: Any) -> bool:
    """Do two arrays have an element in common?"""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return False
    return bool(np.may_share_memory(a, b) and np.shares_memory(a, b))


def arrays(value: Any) -> list[Array]:
    """All arrays in an argument or result."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        return [a for part in value.values() for a in arrays(part)]
    return [a for part in value for a in arrays(part)] if isinstance(value, (list, tuple)) else []


def _apart(into: Array, operands: list[Array]) -> None:
    """What is written to may be an operand, but no operand may lie over a part of it."""
    for other in operands:
        if not same_memory(into, other) and overlap(into, other):
            raise Invalid("an operand lies over a part of what is written")


# ---- an operator ---------------------------------------------------------------------------------------
def compute(target: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, list[Array]]:
    """What an operator returns, and the memory that it has written."""
    name = name_of({"target": target})
    base = in_place(name)
    if name.startswith("aten._foreach_"):
        return _foreach(name, target, args, kwargs)
    if name in WRITERS:
        return WRITERS[name](*args, **kwargs)
    if base is not None:
        return _into(args[0], _call(base, args, kwargs), args[1:], kwargs)
    outs = {k: v for k, v in kwargs.items() if k == "out" or k in OUT_NAMES.get(target, ())}
    rest = {k: v for k, v in kwargs.items() if k not in outs}
    if not outs or not name.startswith("aten."):
        return _call(name, args, kwargs), []
    made = _call(name, args, rest)
    results = made if isinstance(made, (tuple, list)) else [made]
    for into, value in zip(outs.values(), results, strict=True):
        _apart(into, arrays([args, rest]))
        write(into, value)
    return (list(outs.values()) if len(outs) > 1 else next(iter(outs.values()))), [*outs.values()]


OUT_NAMES = {
    "aten.max.dim_max": ("max", "max_values"),
    "aten.min.dim_min": ("min", "min_indices"),
}


# ---- kernels that write into several operands ----------------------------------------------------------
def fused_adam(
    params: list[Array], grads: list[Array], means: list[Array], squares: list[Array],
    _: list[Array], steps: list[Array], *, lr: float, beta1: float, beta2: float,
    weight_decay: float, eps: float, maximize: bool, **__: Any,
) -> tuple[None, list[Array]]:  # fmt: skip
    """A step of Adam on every tensor."""
    for p, g, m, v, step in zip(params, grads, means, squares, steps, strict=True):
        g = (-g if maximize else g) + weight_decay * p
        m[...] = beta1 * m + (1 - beta1) * g
        v[...] = beta2 * v + (1 - beta2) * g * g
        root = np.sqrt(v) / np.sqrt(1 - beta2**step) + eps
        p[...] = p - lr / (1 - beta1**step) * m / root
    return None, [*params, *means, *squares]


def batch_norm(
    x: Array, w: Array, b: Array, mean: Array, variance: Array, training: bool, momentum: float,
    eps: float,
) -> tuple[Any, list[Array]]:  # fmt: skip
    """Over all dimensions but the second one; in training the running statistics are written."""
    axes, wide = (
        tuple(i for i in range(x.ndim) if i != 1),
        [-1 if i == 1 else 1 for i in range(x.ndim)],
    )
    mu, spread = (x.mean(axes), x.var(axes)) if training else (mean.copy(), variance.copy())
    inverse = 1 / np.sqrt(spread + eps)
    made = (x - mu.reshape(wide)) * (inverse * w).reshape(wide) + b.reshape(wide)
    if not training:
        return (made, np.zeros(0), np.zeros(0)), []
    count = x.size // x.shape[1]
    mean[...] = (1 - momentum) * mean + momentum * mu
    variance[...] = (1 - momentum) * variance + momentum * spread * count / max(1, count - 1)
    return (made, mu, inverse), [mean, variance]


WRITERS: dict[str, Callable[..., tuple[Any, list[Array]]]] = {
    "aten._fused_adam_": fused_adam,
    "aten.native_batch_norm": batch_norm,
    "aten._native_batch_norm_legit": batch_norm,
}


def _into(into: Array, value: Array, args: Any, kwargs: Any) -> tuple[Array, list[Array]]:
    _apart(into, arrays([args, kwargs]))
    return write(into, value), [into]


def _call(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if name not in OPS:
        raise NotExecuted(name)
    with np.errstate(all="ignore"):
        made = OPS[name](*args, **kwargs)
    if isinstance(made, (tuple, list)):
        return [np.asarray(a) if isinstance(a, np.generic) else a for a in made]
    return np.asarray(made) if isinstance(made, np.generic) else made


def _foreach(name: str, target: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """An operator on lists: on every tensor."""
    plain = "aten." + name.removeprefix("aten._foreach_")
    made, written = [], []
    for i in range(len(args[0])):
        mine = [a[i] if isinstance(a, list) else a for a in args]
        value, wrote = compute(f"{plain}.Tensor", mine, kwargs)
        made.append(value)
        written += wrote
    return made, written


# ---- numpy as a machine --------------------------------------------------------------------------------
def garbage(shape: Any, dtype: str, salt: str) -> Array:
    """Memory that nobody has written: numbers that nothing else has."""
    rng = np.random.default_rng(crc32(salt.encode()))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    kind = numpy_type(dtype)
    if kind is np.float64:
        return rng.normal(0, 3, shape)
    return rng.integers(0, 100, shape).astype(kind)


class Numpy:
    """Runs nodes on numpy arrays; another machine has the same methods."""

    def tensor(self, value: Array, dtype: str) -> Any:
        """An array as a tensor of its own."""
        return np.array(value)

    def number(self, value: float, shape: Any, dtype: str) -> Any:
        """A constant."""
        return np.full(shape, value, numpy_type(dtype) if dtype else None)

    def array(self, value: Any) -> Array:
        """The value of a tensor now."""
        return value

    def fill(self, tensor: Any, value: Array) -> None:
        """Writes into a tensor."""
        tensor[...] = value

    def call(self, node: Json, values: Values) -> tuple[Any, list[Any]]:
        """A node that is an operator: its value, and the memory that it has written."""
        args = resolve(node["args"], values)
        kwargs = {k: resolve(v, values) for k, v in node["kwargs"].items()}
        if "getitem" in node["target"]:
            return args[0][args[1]], []
        try:
            value, written = compute(node["target"], args, kwargs)
            if node.get("shape") is not None:
                value = cast(np.asarray(value), node.get("dtype"))
        except (ValueError, IndexError) as error:
            raise Invalid(f"{node['name']}: {error}") from error
        except (TypeError, AttributeError, AssertionError, KeyError) as error:
            raise NotExecuted(f"{node['target']}: {error}") from error
        if name_of(node).startswith(("aten.empty", "aten.new_empty")):
            value[...] = garbage(value.shape, torch_name(value), node["name"])
        return value, written
