"""Evaluates HLO text in numpy, every device in step, as XLA's operation semantics say
(https://openxla.org/xla/operation_semantics). It shares the parser with the reader, not the
translation: integers have the width of their type here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gg_datalog.readers.hlo_devices import read_groups
from gg_datalog.readers.hlo_literals import read_literal
from gg_datalog.readers.hlo_scan import numbers
from gg_datalog.readers.hlo_shapes import Array
from gg_datalog.readers.hlo_text import Computation, Instruction, Module

Tensor: TypeAlias = "np.ndarray[Any, Any]"
Values: TypeAlias = "list[Any]"  # one per device
TYPES: dict[str, Any] = {
    "pred": np.bool_, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    **{f"s{n}": getattr(np, f"int{n}") for n in (8, 16, 32, 64)},
    **{f"u{n}": getattr(np, f"uint{n}") for n in (8, 16, 32, 64)},
}  # fmt: skip


def bits(x: Tensor) -> int:
    """The width of an element."""
    return x.dtype.itemsize * 8


def unsigned(x: Tensor) -> Tensor:
    """The same bits without a sign."""
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """Towards zero; all bits set where the divisor is 0; the lowest number by -1 is itself."""
    if a.dtype.kind == "f":
        return a / b
    wide = [[int(v) for v in x.ravel()] for x in (a, b)]
    pairs = zip(*wide, strict=True)
    found = [
        -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs
    ]
    return wrapped(found, a)


def wrapped(values: Sequence[int], like: Tensor) -> Tensor:
    """Integers modulo the width of a type."""
    lowest = [v & ((1 << bits(like)) - 1) for v in values]
    return np.array(lowest, f"u{like.dtype.itemsize}").view(like.dtype).reshape(like.shape)


def remainder(a: Tensor, b: Tensor) -> Tensor:
    """With the sign of the dividend; the dividend where the divisor is 0."""
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, a, a - quotient(a, safe) * safe)


def shift(x: Tensor, by: Tensor, kind: str) -> Tensor:
    """Beyond the width nothing is left, or the sign."""
    found = []
    for value, n in zip(x.ravel(), by.ravel(), strict=True):
        v, n = int(value), int(n)
        inside = 0 <= n < bits(x)
        if kind == "shift-left":
            found.append(v << n if inside else 0)
        elif kind == "shift-right-logical":
            found.append((v & ((1 << bits(x)) - 1)) >> n if inside else 0)
        else:
            signed = v - (1 << bits(x)) if v >> (bits(x) - 1) > 0 else v
            found.append(signed >> (n if inside else bits(x) - 1))
    return wrapped(found, x)


def convert(x: Tensor, dtype: str) -> Tensor:
    """Integers wrap; floats are cut towards zero and kept inside; everything but 0 is true."""
    to = np.dtype(TYPES[dtype])
    if to.kind == "b":
        return x != 0
    if x.dtype.kind == "f" and to.kind in "iu":
        ends = np.iinfo(to)
        whole = np.where(np.isnan(x), 0, np.trunc(x.astype(np.float64)))
        cut = [min(max(int(v), ends.min), ends.max) for v in np.nan_to_num(whole).ravel()]
        return np.array(cut, to).reshape(x.shape)
    return x.astype(to)


def popcount(x: Tensor) -> Tensor:
    """How many bits are set."""
    return np.array([int(v).bit_count() for v in unsigned(x).ravel()], x.dtype).reshape(x.shape)


def leading_zeros(x: Tensor) -> Tensor:
    """How many bits come before the first that is set."""
    found = [bits(x) - int(v).bit_length() for v in unsigned(x).ravel()]
    return np.array(found, x.dtype).reshape(x.shape)


def logical(of: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """Of truth values another operator than of numbers."""
    return lambda a, b: other(a, b) if a.dtype == np.bool_ else of(a, b)


BINARY: dict[str, Callable[..., Any]] = {
    "add": logical(np.add, np.logical_or),
    "multiply": logical(np.multiply, np.logical_and),
    "subtract": np.subtract,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "divide": quotient,
    "remainder": remainder,
    "power": np.power,
    **{
        f"shift-{kind}": (lambda a, b, kind=kind: shift(a, b, f"shift-{kind}"))
        for kind in ("left", "right-logical", "right-arithmetic")
    },
}
UNARY: dict[str, Callable[..., Any]] = {
    "negate": lambda x: np.zeros_like(x) - x if x.dtype.kind in "iu" else -x,
    "abs": np.abs,
    "sign": np.sign,
    "not": np.invert,
    "popcnt": popcount,
    "count-leading-zeros": leading_zeros,
    "copy": lambda x: x,
    "sine": np.sin,
    "exponential": np.exp,
    "tanh": np.tanh,
}
COMPARE = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal,
           "GT": np.greater, "GE": np.greater_equal}  # fmt: skip


class Machine:
    """All devices of a text."""

    def __init__(self, module: Module, devices: int) -> None:
        self.module, self.devices = module, devices

    def run(self, given: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """What each device returns; ``given`` are the parameters of each, in order."""
        env: dict[str, Values] = {}
        with np.errstate(all="ignore"):
            for at in self.module.entry.instructions:
                env[at.name] = self.value(at, env, given)
        made = env[self.module.entry.root.name]
        return [list(m) if isinstance(m, tuple) else [m] for m in made]

    def value(self, at: Instruction, env: dict[str, Values], given: Any) -> Values:
        """One instruction on every device."""
        every = range(self.devices)
        if at.opcode == "parameter":
            return [np.asarray(given[d][int(at.inner)]) for d in every]
        if at.opcode == "partition-id":
            return [np.uint32(d) for d in every]
        operands = [env[name] for name in at.operands]
        if at.opcode in COLLECTIVES:
            return self.collective(at, operands[0])
        return [self.local(at, [np.asarray(o[d]) for o in operands], operands, d) for d in every]

    def local(self, at: Instruction, x: list[Tensor], raw: list[Values], device: int) -> Any:
        """An instruction on one device."""
        if at.opcode == "tuple":
            return tuple(x)
        if at.opcode == "get-tuple-element":
            return raw[0][device][int(at.attributes["index"])]
        shape = at.shape
        assert isinstance(shape, Array)
        if at.opcode in BINARY:
            return np.asarray(BINARY[at.opcode](*x))
        if at.opcode in UNARY:
            return np.asarray(UNARY[at.opcode](*x))
        found = MOVES[at.opcode](self, at, shape, *x)
        assert found.shape == shape.dims, f"{at.name}: {found.shape}"
        return found

    def combine(self, at: Instruction) -> Callable[..., Any]:
        """The operator that a computation of two numbers is."""
        computation: Computation = self.module.computations[at.attributes["to_apply"].lstrip("%")]
        return BINARY[computation.root.opcode]

    def collective(self, at: Instruction, x: Values) -> Values:
        """What members of groups exchange."""
        if at.opcode == "collective-permute":
            pairs = numbers(at.attributes["source_target_pairs"])
            source = dict(zip(pairs[1::2], pairs[::2], strict=True))
            return [x[source[d]] if d in source else np.zeros_like(x[d]) for d in range(len(x))]
        found: Values = [None] * self.devices
        for group in read_groups(at.attributes["replica_groups"]):
            parts = COLLECTIVES[at.opcode](self, at, [x[d] for d in group])
            for device, part in zip(group, parts, strict=True):
                found[device] = part
        return found


def _dim(at: Instruction) -> int:
    return numbers(at.attributes["dimensions"])[0]


def _all_reduce(m: Machine, at: Instruction, x: Values) -> Values:
    total, of = x[0], m.combine(at)
    for part in x[1:]:
        total = of(total, part)
    return [total] * len(x)


COLLECTIVES: dict[str, Any] = {
    "all-reduce": _all_reduce,
    "all-gather": lambda m, at, x: [np.concatenate(x, _dim(at))] * len(x),
    "reduce-scatter": lambda m, at, x: np.split(_all_reduce(m, at, x)[0], len(x), _dim(at)),
    "all-to-all": lambda m, at, x: [
        np.concatenate([np.split(p, len(x), _dim(at))[i] for p in x], _dim(at))
        for i in range(len(x))
    ],
    "collective-permute": None,
}


def _constant(m: Machine, at: Instruction, shape: Array) -> Tensor:
    return np.array(read_literal(at.inner, shape), TYPES[shape.dtype]).reshape(shape.dims)


def _iota(m: Machine, at: Instruction, shape: Array) -> Tensor:
    dim = numbers(at.attributes["iota_dimension"])[0]
    row = np.arange(shape.dims[dim]).astype(TYPES[shape.dtype])
    wide = row.reshape([-1 if i == dim else 1 for i in range(len(shape.dims))])
    return np.broadcast_to(wide, shape.dims)


def _broadcast(m: Machine, at: Instruction, shape: Array, x: Tensor) -> Tensor:
    dims = numbers(at.attributes["dimensions"])
    wide = [1] * len(shape.dims)
    for extent, dim in zip(x.shape, dims, strict=True):
        wide[dim] = extent
    order = sorted(range(x.ndim), key=lambda i: dims[i])
    return np.broadcast_to(x.transpose(order).reshape(wide), shape.dims)


def _slice(m: Machine, at: Instruction, shape: Array, x: Tensor) -> Tensor:
    rows = re.findall(r"\[(\d+):(\d+)(?::(\d+))?\]", at.attributes["slice"])
    return x[tuple(slice(int(a), int(b), int(c or 1)) for a, b, c in rows)]


def _dynamic_slice(m: Machine, at: Instruction, shape: Array, x: Tensor, *at_: Tensor) -> Tensor:
    starts = [min(max(int(s), 0), n - k) for s, n, k in zip(at_, x.shape, shape.dims, strict=True)]
    return x[tuple(slice(s, s + k) for s, k in zip(starts, shape.dims, strict=True))]


def _reduce(m: Machine, at: Instruction, shape: Array, x: Tensor, start: Tensor) -> Tensor:
    of, dims = m.combine(at), numbers(at.attributes["dimensions"])
    kept = [i for i in range(x.ndim) if i not in dims]
    flat = x.transpose([*dims, *kept]).reshape(-1, *shape.dims)
    total = np.broadcast_to(start, shape.dims)
    for part in flat:
        total = of(total, part)
    return np.asarray(total, x.dtype)


def _dot(m: Machine, at: Instruction, shape: Array, a: Tensor, b: Tensor) -> Tensor:
    keys = ("lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims")
    ka, kb, na, nb = (numbers(at.attributes.get(key, "")) for key in keys)
    left, right = list(range(a.ndim)), [a.ndim + j for j in range(b.ndim)]
    for i, j in zip([*ka, *na], [*kb, *nb], strict=True):
        right[j] = left[i]
    out = [left[i] for i in na] + [n for i, n in enumerate(left) if i not in (*ka, *na)]
    out += [n for j, n in enumerate(right) if j not in (*kb, *nb)]
    return np.einsum(a, left, b, right, out)


def _gather(m: Machine, at: Instruction, shape: Array, x: Tensor, ids: Tensor) -> Tensor:
    """Whole rows of dimension 0, positions moved inside."""
    flat = ids.reshape(ids.shape[: numbers(at.attributes["index_vector_dim"])[0]])
    inside = [min(max(int(i), 0), x.shape[0] - 1) for i in flat.ravel()]
    return x[inside].reshape(*flat.shape, *x.shape[1:])


def _clamp(m: Machine, at: Instruction, shape: Array, low: Tensor, x: Tensor, high: Tensor) -> Any:
    return np.minimum(np.maximum(x, low), high).astype(x.dtype)


def _bitcast(m: Machine, at: Instruction, shape: Array, x: Tensor) -> Tensor:
    return np.ascontiguousarray(x).view(TYPES[shape.dtype]).reshape(shape.dims)


MOVES: dict[str, Callable[..., Tensor]] = {
    "constant": _constant,
    "iota": _iota,
    "broadcast": _broadcast,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "reduce": _reduce,
    "dot": _dot,
    "gather": _gather,
    "clamp": _clamp,
    "bitcast-convert": _bitcast,
    "convert": lambda m, at, shape, x: convert(x, shape.dtype),
    "reshape": lambda m, at, shape, x: x.reshape(shape.dims),
    "transpose": lambda m, at, shape, x: x.transpose(numbers(at.attributes["dimensions"])),
    "concatenate": lambda m, at, shape, *x: np.concatenate(x, _dim(at)),
    "compare": lambda m, at, shape, a, b: COMPARE[at.attributes["direction"]](a, b),
    "select": lambda m, at, shape, p, a, b: np.where(p, a, b),
}
