"""Values that the text alone determines: constants, iotas, tables, and what is computed of them.

The partitioner looks up offsets by ``partition-id`` in small tables: on one device all of that is
known, and a slice at such an offset is a slice at a constant."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from gg_datalog.readers.hlo_literals import Number, exact, wrapped
from gg_datalog.readers.hlo_shapes import Array

LIMIT = 4096  # elements that are looked at one by one


@dataclass(frozen=True)
class Affine:
    """``base + sum of steps[i] * index[i]``: a constant repeated, or numbers in steps."""

    base: Number
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Table:
    """Elements in row-major order."""

    values: tuple[Number, ...]


Known: TypeAlias = "Affine | Table"


def splat(value: Number, shape: Array) -> Affine:
    """The same number everywhere."""
    return Affine(value, (0,) * len(shape.dims))


def tabled(values: Sequence[Number], shape: Array) -> Known | None:
    """Elements as they are: steps where they are in steps, else a table if it is small."""
    if not values:
        return None
    first = values[0]
    if all(v == first or (v != v and first != first) for v in values):
        return splat(first, shape)
    if shape.integers and shape.dtype != "pred" and len(shape.dims) == 1:
        step = int(values[1]) - int(first)
        if all(v == first + i * step for i, v in enumerate(values)):
            return Affine(first, (step,))
    return Table(tuple(values)) if len(values) <= LIMIT else None


def number(known: Known | None) -> Number | None:
    """The one number that all elements are."""
    if isinstance(known, Affine) and not any(known.steps):
        return known.base
    return None


def every(known: Known, shape: Array) -> tuple[Number, ...] | None:
    """The elements one by one, where they are not too many."""
    if isinstance(known, Table):
        return known.values
    if shape.size > LIMIT:
        return None
    values: list[Number] = [known.base]
    for extent, step in zip(shape.dims, known.steps, strict=True):
        values = [v + i * step if step else v for v in values for i in range(extent)]
    return tuple(values)


def bounds(known: Known, shape: Array) -> tuple[Number, Number]:
    """The smallest and the largest element."""
    if isinstance(known, Table):
        return min(known.values), max(known.values)
    ends = [s * (n - 1) for s, n in zip(known.steps, shape.dims, strict=True) if s]
    return known.base + sum(e for e in ends if e < 0), known.base + sum(e for e in ends if e > 0)


# ---- arithmetic
def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _shift_arithmetic(bits: int) -> Callable[[int, int], int]:
    """The highest bit is a sign, in types without one, too."""

    def shift(a: int, b: int) -> int:
        signed = a - (1 << bits) if a >> (bits - 1) > 0 else a
        return signed >> (b if 0 <= b < bits else bits - 1)

    return shift


def _shift_logical(bits: int) -> Callable[[int, int], int]:
    return lambda a, b: (a & ((1 << bits) - 1)) >> b if 0 <= b < bits else 0


BINARY: dict[str, Callable[[int, int], Number]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": _quotient,
    "remainder": lambda a, b: a - b * _quotient(a, b),
    "maximum": max,
    "minimum": min,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def binary(opcode: str, shape: Array, a: Known, b: Known) -> Known | None:
    """An integer operator on two known tensors of the same shape."""
    if shape.floats:
        return _floats(opcode, shape, a, b)
    if not shape.integers or opcode not in (*BINARY, *SHIFTS):
        return None
    if opcode in ("divide", "remainder") and 0 in (every(b, shape) or (0,)):
        return None
    if shape.dtype != "pred" and (steps := _steps(opcode, a, b)) is not None:
        low, high = bounds(steps, shape)
        if _fits(low, shape) and _fits(high, shape):
            return steps
    apply = BINARY.get(opcode) or SHIFTS[opcode](int(shape.dtype[1:]))
    return _mapped(shape, lambda x, y: wrapped(int(apply(int(x), int(y))), shape.dtype), a, b)


def _floats(opcode: str, shape: Array, a: Known, b: Known) -> Known | None:
    """The same on floats that are integers, such as positions, where nothing is rounded."""
    made = _steps(opcode, a, b)
    whole = all(isinstance(x, Affine) and float(x.base).is_integer() for x in (a, b))
    if made is None or not whole or not any(made.steps):
        return None
    held = all(exact(end, shape.dtype) for end in bounds(made, shape))
    return Affine(float(made.base), made.steps) if held else None


SHIFTS: dict[str, Callable[[int], Callable[[int, int], int]]] = {
    "shift-left": lambda bits: lambda a, b: a << b if 0 <= b < bits else 0,
    "shift-right-logical": _shift_logical,
    "shift-right-arithmetic": _shift_arithmetic,
}


def _fits(value: Number, shape: Array) -> bool:
    return wrapped(int(value), shape.dtype) == value


def _steps(opcode: str, a: Known, b: Known) -> Affine | None:
    if not isinstance(a, Affine) or not isinstance(b, Affine):
        return None
    if opcode in ("add", "subtract"):
        sign = 1 if opcode == "add" else -1
        steps = tuple(x + sign * y for x, y in zip(a.steps, b.steps, strict=True))
        return Affine(a.base + sign * b.base, steps)
    if opcode == "multiply":
        for x, by in ((a, number(b)), (b, number(a))):
            if by is not None:
                return Affine(x.base * by, tuple(int(s * by) for s in x.steps))
    return None


def _mapped(shape: Array, apply: Callable[..., Number], *operands: Known) -> Known | None:
    """Element by element."""
    single = [number(k) for k in operands]
    if all(v is not None for v in single):
        return splat(apply(*single), shape)
    columns = [every(k, shape) for k in operands]
    if any(c is None for c in columns):
        return None
    rows: Iterable[tuple[Number, ...]] = zip(*(c for c in columns if c), strict=True)
    return tabled([apply(*row) for row in rows], shape)


def compared(direction: str, shape: Array, a: Known, b: Known) -> Known | None:
    """A comparison of integers."""
    return _mapped(shape, COMPARE[direction], a, b) if direction in COMPARE else None


def selected(shape: Array, p: Known, a: Known | None, b: Known | None) -> Known | None:
    """``p ? a : b``."""
    if a is None or b is None:
        return None
    if number(p) is not None:
        return a if number(p) else b
    return _mapped(shape, lambda p, x, y: x if p else y, p, a, b)


def converted(known: Known, before: Array, after: Array) -> Known | None:
    """A cast of integers, to a type that holds them as they are."""
    if not before.integers:
        return None
    if after.dtype == "pred":
        return _mapped(after, bool, known)
    if after.integers:
        low, high = bounds(known, before)
        if isinstance(known, Affine) and _fits(low, after) and _fits(high, after):
            return Affine(int(known.base), known.steps)
        return _mapped(after, lambda v: wrapped(int(v), after.dtype), known)
    value = number(known)
    if value is None or not exact(value, after.dtype):
        return None
    return splat(float(value), after)


# ---- movement
def placed(shape: Array, source: Array, known: Known, index: Callable[..., int]) -> Known | None:
    """Elements of ``source`` in a new order: ``index`` gives a place for each new index."""
    values = every(known, source)
    if values is None or shape.size > LIMIT:
        return None
    return tabled([values[index(*i)] for i in indices(shape.dims)], shape)


def indices(dims: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """All indices in row-major order."""
    total = prod(dims)
    for flat in range(total):
        found = []
        for extent in reversed(dims):
            flat, rest = divmod(flat, extent)
            found.append(rest)
        yield tuple(reversed(found))


def strides(dims: Sequence[int]) -> list[int]:
    """How far apart neighbours lie, per dimension."""
    return [prod(dims[i + 1 :]) for i in range(len(dims))]


def broadcasted(known: Known, dims: Sequence[int], shape: Array, source: Array) -> Known | None:
    """Operand dimension i becomes ``dims[i]``."""
    if isinstance(known, Affine):
        steps = [0] * len(shape.dims)
        for step, dim in zip(known.steps, dims, strict=True):
            steps[dim] = step
        return Affine(known.base, tuple(steps))
    by = strides(source.dims)
    return placed(
        shape, source, known, lambda *i: sum(i[d] * s for d, s in zip(dims, by, strict=True))
    )


def reshaped(known: Known, source: Array, shape: Array) -> Known | None:
    """The same elements in another shape."""
    value = number(known)
    if value is not None:
        return splat(value, shape)
    if isinstance(known, Affine):
        own = [(n, s) for n, s in zip(source.dims, known.steps, strict=True) if n > 1]
        if [n for n, _ in own] == [n for n in shape.dims if n > 1]:
            left = iter(s for _, s in own)
            return Affine(known.base, tuple(next(left) if n > 1 else 0 for n in shape.dims))
    values = every(known, source)
    return None if values is None else tabled(values, shape)


def sliced(
    known: Known, source: Array, starts: Sequence[int], by: Sequence[int], shape: Array
) -> Known | None:
    """Elements from ``starts`` on, in strides."""
    if isinstance(known, Affine):
        base = known.base + sum(a * s for a, s in zip(starts, known.steps, strict=True))
        return Affine(base, tuple(s * b for s, b in zip(known.steps, by, strict=True)))
    far = strides(source.dims)

    def index(*place: int) -> int:
        return sum((a + i * b) * f for a, i, b, f in zip(starts, place, by, far, strict=True))

    return placed(shape, source, known, index)
