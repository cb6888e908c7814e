"""Instructions that only move data."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gg_datalog.readers.hlo_fold import clamped, counts, cuts, holds
from gg_datalog.readers.hlo_graph import Result, Value
from gg_datalog.readers.hlo_index import clamped as inside
from gg_datalog.readers.hlo_known import Affine
from gg_datalog.readers.hlo_literals import Number
from gg_datalog.readers.hlo_opaque import given, opaque
from gg_datalog.readers.hlo_program import Program, lowers
from gg_datalog.readers.hlo_scan import numbers
from gg_datalog.readers.hlo_shapes import Array


@lowers("reshape")
def reshape(p: Program) -> Result:
    """The same elements in another shape."""
    x, shape = p.operand(0), p.array()
    p.need(x.shape.size == shape.size and x.shape.dtype == shape.dtype, f"it is given {x.shape}")
    return p.view(x, shape.dims)


@lowers("bitcast")
def bitcast(p: Program) -> Result:
    """The same memory: a copy, where shape and layout say nothing else."""
    x, shape = p.operand(0), p.array()
    if x.shape == shape:
        return p.alias(x)
    raise p.error(
        f"it gives {shape} of {x.shape} by the layout in memory",
        "take a dump from before layouts are assigned, such as *after_spmd-partitioning*",
    )


@lowers("copy", "add-dependency")
def copy(p: Program) -> Result:
    """Its operand."""
    return p.alias(p.operand(0))


@lowers("optimization-barrier")
def barrier(p: Program) -> Result:
    """Its operand, which may be a tuple."""
    return p.alias(p.operand(0)) if isinstance(p.result(0), Value) else p.result(0)


@lowers("copy-start")
def copy_start(p: Program) -> Result:
    """The operand: what else it gives belongs to the copy that is under way."""
    return p.operand(0)


@lowers("transpose")
def transpose(p: Program) -> Result:
    """Dimension i is dimension ``dimensions[i]`` of the operand."""
    x, order = p.operand(0), p.ints("dimensions")
    p.need(sorted(order) == list(range(len(x.shape.dims))), f"{order} is no permutation")
    return p.permuted(x, order)


@lowers("broadcast")
def broadcast(p: Program) -> Result:
    """Dimension i of the operand is dimension ``dimensions[i]`` of the result."""
    x, dims, shape = p.operand(0), p.ints("dimensions"), p.array()
    fits = len(dims) == len(x.shape.dims) == len(set(dims))
    fits = fits and all(0 <= d < len(shape.dims) for d in dims)
    p.need(fits, f"dimensions {dims} do not place {x.shape}")
    same = all(n == shape.dims[d] for n, d in zip(x.shape.dims, dims, strict=True))
    p.need(same and x.shape.dtype == shape.dtype, f"{x.shape} does not repeat to {shape}")
    value = x.number
    if value is None:
        made = p.make("hlo.broadcast", [x.ref, dims, list(shape.dims)])
        p.like(made, x)
        if shape.dtype == "pred":
            p.spread[made.node] = (x, dims)
        return made
    if not shape.floats:
        return p.filled(value, shape)
    return p.make("hlo.broadcast", [value, [], list(shape.dims)])


@lowers("iota")
def iota(p: Program) -> Result:
    """Numbers along one dimension."""
    shape, dims = p.array(), p.ints("iota_dimension") or [0]
    p.need(dims[0] < len(shape.dims), f"it has no dimension {dims[0]}")
    row = Array(shape.dtype, (shape.dims[dims[0]],))
    if not counts(row):
        return opaque(p, "hlo.iota_general")
    steps = Affine(0, (1,))
    if row == shape:
        return p.counting(steps, shape)
    line = p.counting(steps, row, "range")
    return p.make("hlo.broadcast", [line.ref, dims[:1], list(shape.dims)])


@lowers("slice")
def slice_(p: Program) -> Result:
    """Positions from a start to an end, in steps."""
    x, rows = p.operand(0), cuts(p)
    dims = x.shape.dims
    fits = len(rows) == len(dims) and all(
        0 <= lo <= hi <= n and by > 0 for (lo, hi, by), n in zip(rows, dims, strict=True)
    )
    p.need(fits, f"slice {p.at.attributes.get('slice')} does not fit {x.shape}")
    for dim, (low, high, step) in enumerate(rows):
        if step > 1:
            x = _stepped(p, x, dim, low, high, step)
    for dim, (low, high, step) in enumerate(rows):
        if step == 1:
            x = _cut(p, x, dim, low, high)
    return p.alias(x) if x.node == p.operand(0).node else _named(p, x)


def _cut(p: Program, x: Value, dim: int, low: int, high: int) -> Value:
    if (low, high) == (0, x.shape.dims[dim]):
        return x
    return p.cut(x, dim, low, high, f"dim{dim}")


def _named(p: Program, x: Value) -> Value:
    """The last node that was written, under the name of the instruction."""
    row = p.nodes[-1]
    if row["name"] != x.node:
        return p.alias(x)
    p.names.discard(x.node)
    row["name"] = p.free()
    p.names.add(row["name"])
    return Value(row["name"], x.shape, x.known)


def _stepped(p: Program, x: Value, dim: int, low: int, high: int, step: int) -> Value:
    """Every step-th position: the dimension in rows of that many, and one column of them. What
    the last row lacks is filled up, in columns that are not taken."""
    dims, tag = x.shape.dims, f"dim{dim}"
    count = -(-(high - low) // step)
    p.need(count > 0, "the slice is empty")
    begin = max(0, min(low, dims[dim] - count * step))
    begin = begin if low - begin < step else low
    end = min(dims[dim], begin + count * step)
    x = _cut(p, x, dim, begin, end)
    if lacking := begin + count * step - end:
        zero: Number = False if x.shape.dtype == "pred" else 0
        more = Array(x.shape.dtype, (*dims[:dim], lacking, *dims[dim + 1 :]))
        x = p.joined([x, p.filled(zero, more, f"{tag}.lacking")], dim, f"{tag}.filled")
    x = p.view(x, [*dims[:dim], count, step, *dims[dim + 1 :]], f"{tag}.rows")
    x = p.cut(x, dim + 1, low - begin, low - begin + 1, f"{tag}.column")
    return p.view(x, [*dims[:dim], count, *dims[dim + 1 :]], f"{tag}.taken")


@lowers("concatenate")
def concatenate(p: Program) -> Result:
    """Tensors one after the other."""
    parts, dims = p.operands(), p.ints("dimensions")
    p.need(bool(parts) and len(dims) == 1 and dims[0] < len(p.array().dims), "it has no dimension")
    if len(parts) == 1:
        return p.alias(parts[0])
    return p.joined(parts, dims[0])


@lowers("reverse")
def reverse(p: Program) -> Result:
    """Dimensions of one position stay as they are."""
    x, dims = p.operand(0), p.ints("dimensions")
    if all(x.shape.dims[d] == 1 for d in dims):
        return p.alias(x)
    return p.make("aten.flip.default", [x.ref, dims])


@lowers("pad")
def pad(p: Program) -> Result:
    """Positions around and between; negative ones are cut off."""
    x, fill = p.operand(0), p.operand(1)
    rows = re.findall(r"(-?\d+)_(-?\d+)(?:_(\d+))?", p.at.attributes.get("padding", ""))
    p.need(len(rows) == len(x.shape.dims), "its padding does not fit its operand")
    p.need(not fill.shape.dims and fill.shape.kin(x.shape), f"it pads with {fill.shape}")
    start = x
    for dim, (low, high, between) in enumerate(rows):
        x = _between(p, x, fill, dim, int(between or 0))
        x = _around(p, x, fill, dim, int(low), int(high))
    return p.alias(x) if x is start else _named(p, x)


def _filler(p: Program, fill: Value, dims: Sequence[int], suffix: str) -> Value:
    shape = Array(fill.shape.dtype, tuple(dims))
    if fill.number is not None:
        return p.filled(fill.number, shape, suffix)
    return p.make("hlo.broadcast", [fill.ref, [], list(dims)], shape, suffix)


def _between(p: Program, x: Value, fill: Value, dim: int, count: int) -> Value:
    """``count`` positions between neighbours."""
    dims, tag = x.shape.dims, f"dim{dim}"
    if not count or dims[dim] < 2:
        return x
    rows = p.view(x, [*dims[:dim], dims[dim], 1, *dims[dim + 1 :]], f"{tag}.rows")
    gaps = _filler(p, fill, [*dims[:dim], dims[dim], count, *dims[dim + 1 :]], f"{tag}.gaps")
    both = p.joined([rows, gaps], dim + 1, f"{tag}.both")
    whole = dims[dim] * (count + 1)
    flat = p.view(both, [*dims[:dim], whole, *dims[dim + 1 :]], f"{tag}.flat")
    return p.cut(flat, dim, 0, whole - count, f"{tag}.spread")


def _around(p: Program, x: Value, fill: Value, dim: int, low: int, high: int) -> Value:
    dims, tag = x.shape.dims, f"dim{dim}"
    if low < 0 or high < 0:
        first, last = max(0, -low), dims[dim] - max(0, -high)
        p.need(first < last, "its padding cuts everything off")
        x = _cut(p, x, dim, first, last)
    parts = [
        _filler(p, fill, [*dims[:dim], n, *dims[dim + 1 :]], f"{tag}.{side}") if n > 0 else None
        for side, n in (("low", low), ("high", high))
    ]
    if parts == [None, None]:
        return x
    whole = [v for v in (parts[0], x, parts[1]) if v is not None]
    return p.joined(whole, dim, f"{tag}.padded")


# ---- slices at an index
def starts(p: Program, first: int, dims: int) -> list[Value]:
    """The start per dimension: scalars, or one vector in older texts."""
    rest = [p.operand(i) for i in range(first, len(p.at.operands))]
    p.need(len(rest) == dims and not any(v.shape.dims for v in rest), "its starts do not fit")
    return rest


@lowers("dynamic-slice")
def dynamic_slice(p: Program) -> Result:
    """A slice at an index, which is moved so that the slice lies inside."""
    x, shape = p.operand(0), p.array()
    p.need(len(x.shape.dims) == len(shape.dims), f"it is given {x.shape}")
    p.need(all(a >= b for a, b in zip(x.shape.dims, shape.dims, strict=True)), "it is too large")
    p.need(numbers(p.at.attributes.get("dynamic_slice_sizes", "")) == list(shape.dims), "sizes")
    first = x
    for dim, start in enumerate(starts(p, 1, len(shape.dims))):
        whole, size = x.shape.dims[dim], shape.dims[dim]
        if whole == size:
            continue
        if start.number is not None:
            low = max(0, min(int(start.number), whole - size))
            x = p.cut(x, dim, low, low + size, f"dim{dim}")
        else:
            x = _at_index(p, x, dim, start, size)
    return p.alias(x) if x is first else _named(p, x)


def _at_index(p: Program, x: Value, dim: int, start: Value, size: int) -> Value:
    """Positions from an index on that depends on data."""
    tag, whole = f"dim{dim}", x.shape.dims[dim]
    ids = inside(p, start, 0, whole - size, f"{tag}.start")
    ids = p.view(ids, [1], f"{tag}.first")
    if size > 1:
        row = Array(start.shape.dtype, (size,))
        if not holds(row, whole - 1):  # positions are counted in 64 bits, whatever the index is
            row = Array("s64", (size,))
            cast = {"dtype": {"dtype": row.torch}}
            ids = p.make("hlo.convert", [ids.ref], Array("s64", (1,)), f"{tag}.wide", cast)
        wide = p.view(ids, [], f"{tag}.scalar")
        wide = p.make("hlo.broadcast", [wide.ref, [], [size]], row, f"{tag}.starts")
        count = p.counting(Affine(0, (1,)), row, f"{tag}.range")
        ids = p.make("aten.add.Tensor", [wide.ref, count.ref], row, f"{tag}.positions")
    dims = [*x.shape.dims[:dim], size, *x.shape.dims[dim + 1 :]]
    shape = Array(x.shape.dtype, tuple(dims))
    return p.make("aten.index_select.default", [x.ref, dim, ids.ref], shape, tag)


@lowers("dynamic-update-slice")
def dynamic_update_slice(p: Program) -> Result:
    """A tensor with a slice put at an index that is known; else an opaque operator."""
    x, part = p.operand(0), p.operand(1)
    p.need(x.shape == p.array() and len(part.shape.dims) == len(x.shape.dims), "shapes differ")
    p.need(x.shape.dtype == part.shape.dtype, "types differ")
    found = starts(p, 2, len(x.shape.dims))
    partial = [
        i for i, (a, b) in enumerate(zip(x.shape.dims, part.shape.dims, strict=True)) if a != b
    ]
    if any(found[i].number is None for i in partial):
        places = [v.ref for v in found]
        return given(p, "hlo.dynamic_update_slice", [x.ref, part.ref, places], {})
    known = [int(v.number or 0) if i in partial else 0 for i, v in enumerate(found)]
    at = clamped(known, x.shape, part.shape.dims)
    return p.alias(part) if not partial else _named(p, _put(p, x, part, at, partial))


def _put(p: Program, x: Value, part: Value, at: list[int], dims: list[int]) -> Value:
    """``part`` at its place: around it what was there, dimension by dimension."""
    dim, low = dims[0], at[dims[0]]
    high, tag = low + part.shape.dims[dim], f"dim{dims[0]}"
    if len(dims) > 1:
        inner = p.cut(x, dim, low, high, f"{tag}.within")
        part = _put(p, inner, part, at, dims[1:])
    whole = x.shape.dims[dim]
    before = [p.cut(x, dim, 0, low, f"{tag}.before")] if low else []
    after = [p.cut(x, dim, high, whole, f"{tag}.after")] if high < whole else []
    return p.joined([*before, part, *after], dim, tag)
