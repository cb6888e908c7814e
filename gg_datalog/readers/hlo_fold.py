"""What the text alone determines of an instruction's result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gg_datalog.readers import hlo_known as k
from gg_datalog.readers.hlo_known import Affine, Known, Table, number, splat
from gg_datalog.readers.hlo_literals import exact, read_literal, rounded, wrapped
from gg_datalog.readers.hlo_scan import numbers
from gg_datalog.readers.hlo_shapes import Array

if TYPE_CHECKING:
    from gg_datalog.readers.hlo_graph import Value, Writer


def fold(p: Writer) -> Known | None:
    """The elements of the result at hand, where they are known."""
    shape, opcode = p.at.shape, p.at.opcode
    if not isinstance(shape, Array) or shape.dtype in ("c64", "c128"):
        return None
    if opcode == "constant":
        return None if shape.dtype.startswith("f8") else _literal(p, shape)
    if opcode == "partition-id":
        return splat(p.rank % p.devices.partitions, shape)
    if opcode == "replica-id":
        return splat(p.rank // p.devices.partitions, shape)
    if opcode == "iota":
        return _iota(p, shape)
    rule = RULES.get(opcode, _arithmetic)
    operands = [p.env.get(name) for name in p.at.operands]
    values = [v for v in operands if v is not None and not isinstance(v, tuple)]
    if not values or len(values) < len(operands):
        return None
    if any(v.known is None for v in values) and opcode != "select":
        return None
    return rule(p, shape, values)


def _literal(p: Writer, shape: Array) -> Known | None:
    values = read_literal(p.at.inner, shape)
    return None if values is None else k.tabled(values, shape)


def _iota(p: Writer, shape: Array) -> Known | None:
    dims = numbers(p.at.attributes.get("iota_dimension", "0"))
    if not shape.dims or not counts(Array(shape.dtype, (shape.dims[dims[0]],))):
        return None
    if shape.floats and not exact(shape.dims[dims[0]], shape.dtype):
        return None
    return Affine(0, tuple(int(i == dims[0]) for i in range(len(shape.dims))))


def counts(row: Array) -> bool:
    """Are 0, 1, 2, ... numbers of the type? Integers that are too narrow begin anew."""
    return row.floats or (row.integers and holds(row, max(0, row.size - 1)))


def holds(shape: Array, value: int) -> bool:
    """Is it a number of the integer type?"""
    return shape.dtype != "pred" and wrapped(value, shape.dtype) == value


def _known(value: Value) -> Known:
    assert value.known is not None
    return value.known


def _arithmetic(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    if len(values) != 2 or any(v.shape != shape for v in values):
        return None
    return k.binary(p.at.opcode, shape, _known(values[0]), _known(values[1]))


def _compare(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    a, b = values
    if not a.shape.integers or a.shape != b.shape:
        return None
    return k.compared(p.at.attributes.get("direction", ""), shape, _known(a), _known(b))


def _select(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    mask, a, b = values
    if mask.known is None or a.shape != shape or b.shape != shape:
        return None
    if mask.shape.dims != shape.dims and number(mask.known) is None:
        return None
    chosen = number(mask.known)
    if chosen is not None:
        return a.known if chosen else b.known
    return k.selected(shape, mask.known, a.known, b.known) if shape.integers else None


def _broadcast(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    return k.broadcasted(_known(values[0]), p.ints("dimensions"), shape, values[0].shape)


def _reshape(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    x = values[0]
    same = x.shape.size == shape.size and x.shape.dtype == shape.dtype
    return k.reshaped(_known(x), x.shape, shape) if same else None


def _same(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    return values[0].known if values[0].shape == shape else None


def _convert(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    x = values[0]
    value = number(x.known)
    if x.shape.floats and shape.floats and value is not None:
        return splat(rounded(float(value), shape.dtype), shape)
    return k.converted(_known(x), x.shape, shape)


def _transpose(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    x, order = values[0], p.ints("dimensions")
    known = _known(x)
    if isinstance(known, Affine):
        return Affine(known.base, tuple(known.steps[i] for i in order))
    by = k.strides(x.shape.dims)
    return k.placed(
        shape, x.shape, known, lambda *i: sum(n * by[d] for n, d in zip(i, order, strict=True))
    )


def cuts(p: Writer) -> list[tuple[int, int, int]]:
    """(start, end, step) per dimension of ``slice={[0:4], [1:9:2]}``."""
    found = []
    for part in p.at.attributes.get("slice", "").split("]"):
        row = numbers(part)
        if row:
            found.append((row[0], row[1], row[2] if len(row) > 2 else 1))
    return found


def _slice(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    rows = cuts(p)
    starts, steps = [r[0] for r in rows], [r[2] for r in rows]
    return k.sliced(_known(values[0]), values[0].shape, starts, steps, shape)


def clamped(starts: list[int], whole: Array, sizes: tuple[int, ...]) -> list[int]:
    """Starts of a dynamic slice, moved so that it lies inside."""
    return [max(0, min(s, n - z)) for s, n, z in zip(starts, whole.dims, sizes, strict=True)]


def _dynamic_slice(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    starts = [number(v.known) for v in values[1:]]
    if any(s is None for s in starts):
        return None
    at = clamped([int(s) for s in starts if s is not None], values[0].shape, shape.dims)
    return k.sliced(_known(values[0]), values[0].shape, at, [1] * len(at), shape)


def _concatenate(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    if len(shape.dims) != 1:
        return None
    rows = [k.every(_known(v), v.shape) for v in values]
    if any(r is None for r in rows) or shape.size > k.LIMIT:
        return None
    return k.tabled([n for row in rows if row for n in row], shape)


def _negate(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    if not shape.integers or shape.dtype == "pred":
        return None
    return k.binary("subtract", shape, splat(0, shape), _known(values[0]))


def _not(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    if shape.dtype != "pred":
        return None
    return k.binary("xor", shape, splat(True, shape), _known(values[0]))


def _clamp(p: Writer, shape: Array, values: list[Value]) -> Known | None:
    low, x, high = values
    ends = number(low.known), number(high.known)
    if not shape.integers or x.shape != shape or ends[0] is None or ends[1] is None:
        return None
    top = k.binary("maximum", shape, splat(ends[0], shape), _known(x))
    return None if top is None else k.binary("minimum", shape, top, splat(ends[1], shape))


RULES: dict[str, Callable[[Writer, Array, list[Value]], Known | None]] = {
    "compare": _compare,
    "select": _select,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _reshape,
    "copy": _same,
    "optimization-barrier": _same,
    "convert": _convert,
    "transpose": _transpose,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "concatenate": _concatenate,
    "negate": _negate,
    "not": _not,
    "clamp": _clamp,
}
__all__ = ["Table", "clamped", "cuts", "fold"]
