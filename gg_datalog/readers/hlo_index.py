"""Lookups and values put at positions: gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.readers.hlo_graph import Result, Value
from gg_datalog.readers.hlo_known import bounds
from gg_datalog.readers.hlo_literals import limits
from gg_datalog.readers.hlo_opaque import opaque
from gg_datalog.readers.hlo_program import Program, lowers
from gg_datalog.readers.hlo_reduce import combines, root_of
from gg_datalog.readers.hlo_shapes import Array


@lowers("gather")
def gather(p: Program) -> Result:
    """Slices of a tensor at positions, which HLO moves so that they lie inside."""
    table, ids = p.operand(0), p.operand(1)
    made = _rows(p, table, ids) or _each(p, table, ids)
    return made or opaque(p, "hlo.gather_general")


def _one_dim(p: Program, table: Value) -> int | None:
    """The one dimension that is looked up, position by position."""
    collapsed, starts = p.ints("collapsed_slice_dims"), p.ints("start_index_map")
    sizes, dims = p.ints("slice_sizes"), table.shape.dims
    p.need(len(sizes) == len(dims), f"slice_sizes {sizes} do not fit {table.shape}")
    if len(collapsed) != 1 or starts != collapsed or sizes[collapsed[0]] != 1:
        return None
    return collapsed[0]


def _rows(p: Program, table: Value, ids: Value) -> Value | None:
    """Whole rows of a table."""
    dim, vector, sizes = _one_dim(p, table), p.ints("index_vector_dim"), p.ints("slice_sizes")
    if dim is None or p.ints("operand_batching_dims"):
        return None
    if any(
        s != n for i, (s, n) in enumerate(zip(sizes, table.shape.dims, strict=True)) if i != dim
    ):
        return None
    ids = _scalars(p, ids, vector)
    offsets = p.ints("offset_dims")
    p.need(len(offsets) == len(sizes) - 1, f"offset_dims {offsets} do not fit")
    inside = within(p, ids, table.shape.dims[dim])
    args = [offsets, [dim], [dim], len(ids.shape.dims), sizes]
    made = p.make("hlo.gather", [table.ref, inside.ref, *args])
    _remember(p, made, table, ids, args)
    return made


def _scalars(p: Program, ids: Value, vector: Sequence[int]) -> Value:
    """Positions without the dimension of their coordinates, of which there is one."""
    p.need(len(vector) == 1, "index_vector_dim is missing")
    at, dims = vector[0], ids.shape.dims
    if at == len(dims):
        return ids
    p.need(at < len(dims) and dims[at] == 1, f"index_vector_dim {at} does not fit {ids.shape}")
    made = p.view(ids, [*dims[:at], *dims[at + 1 :]], "positions")
    return Value(made.node, made.shape, None, ids.local, ids.shifted)


def within(p: Program, ids: Value, rows: int) -> Value:
    """Positions moved inside of the table, as HLO does it."""
    return ids if lies(p, ids, 0, rows - 1) else clamped(p, ids, 0, rows - 1, "inside")


def lies(p: Program, x: Value, low: int, high: int) -> bool:
    """Are all elements surely between two bounds?"""
    found = p.ranges.get(x.node) or (limits(x.shape.dtype) if x.shape.integers else None)
    if x.node not in p.ranges and x.known is not None and x.shape.integers:
        ends = bounds(x.known, x.shape)
        found = int(ends[0]), int(ends[1])
    return found is not None and low <= found[0] and found[1] <= high


def clamped(p: Program, x: Value, low: int, high: int, suffix: str = "") -> Value:
    """Elements moved between two bounds."""
    first, last = limits(x.shape.dtype)  # what the type does not hold is no bound
    ends = [max(low, first), min(high, last)]
    made = p.make("aten.clamp.default", [x.ref, *ends], x.shape, suffix)
    if low <= high:
        p.ranges[made.node] = (low, high)
    return made


def _each(p: Program, table: Value, ids: Value) -> Value | None:
    """One element of each row: every other dimension is one of the batch."""
    dim, vector = _one_dim(p, table), p.ints("index_vector_dim")
    batch, rest = p.ints("operand_batching_dims"), p.ints("start_indices_batching_dims")
    others = [i for i in range(len(table.shape.dims)) if i != dim]
    lead = len(batch)
    if dim != lead or batch != others or rest != list(range(lead)) or p.ints("offset_dims"):
        return None
    ids = _scalars(p, ids, vector)
    flat = [*ids.shape.dims[:lead], Array("s32", ids.shape.dims[lead:]).size]
    seen = p.view(ids, flat, "rows")
    seen = Value(seen.node, seen.shape, None, ids.local, ids.shifted)
    inside = within(p, seen, table.shape.dims[dim])
    shape = Array(table.shape.dtype, tuple(flat))
    made = p.make("aten.gather.default", [table.ref, dim, inside.ref], shape, "taken")
    _remember(p, made, table, seen, [dim])
    out = p.view(made, p.array().dims)
    p.lookups[out.node] = p.lookups[made.node]
    return out


def _remember(p: Program, made: Value, table: Value, ids: Value, args: list[object]) -> None:
    p.lookups[made.node] = (table, ids, args, made.shape)


def masked_gather(p: Program, mask: Value, a: Value, b: Value) -> Value | None:
    """``mask ? 0 : lookup``: ids that are masked do not matter, so they are set to 0 instead of
    being moved inside of the table. This is how a lookup in a shard of a table is known."""
    found = p.lookups.get(b.node)
    if a.number != 0 or found is None or not found[1].shifted:
        return None
    table, ids, args, shape = found
    spread = _mask_of_ids(p, mask, ids, args, shape)
    if spread is None:
        return None
    held = p.make("aten.masked_fill.Scalar", [ids.ref, spread.ref, 0], ids.shape, "held")
    if len(args) == 1:
        made = p.make("aten.gather.default", [table.ref, args[0], held.ref], shape, "taken")
        if made.shape != p.array():
            made = p.view(made, p.array().dims, "shaped")
    else:
        made = p.make("hlo.gather", [table.ref, held.ref, *args], shape, "taken")
    return p.make("aten.masked_fill.Scalar", [made.ref, mask.ref, 0])


def _mask_of_ids(
    p: Program, mask: Value, ids: Value, args: list[object], shape: Array
) -> Value | None:
    """The mask of a result as one over the ids: it has to be the same for a whole row."""
    if mask.shape.size == ids.shape.size and len(args) == 1:
        return mask if mask.shape.dims == ids.shape.dims else p.view(mask, ids.shape.dims, "mask")
    source = p.spread.get(mask.node)
    if source is None or len(args) == 1:
        return None
    narrow, dims = source
    offsets = args[0]
    assert isinstance(offsets, list)
    batch = [i for i in range(len(shape.dims)) if i not in offsets]
    return narrow if dims == batch and narrow.shape.dims == ids.shape.dims else None


@lowers("scatter")
def scatter(p: Program) -> Result:
    """Values added at positions of one dimension; what lies outside is dropped."""
    if len(p.at.operands) != 3 or root_of(p.called()) != "add" or not p.operand(0).shape.floats:
        return opaque(p)
    x, ids, values = p.operands()
    combines(p, p.called(), x, values)
    starts = p.ints("scatter_dims_to_operand_dims")
    if len(starts) != 1 or p.ints("inserted_window_dims") != starts:
        return opaque(p)
    factor = values.number
    if not ids.shifted or x.number != 0 or factor in (None, 0, 1):
        return _added(p, x, ids, values, starts[0], "") or opaque(p)
    ones = p.filled(1.0, values.shape, "ones")  # a factor outside is easier to follow
    made = _added(p, x, ids, ones, starts[0], "placed")
    return opaque(p) if made is None else p.make("aten.mul.Tensor", [made.ref, factor])


def _added(p: Program, x: Value, ids: Value, values: Value, dim: int, tag: str) -> Value | None:
    if p.ints("input_batching_dims"):
        return _each_added(p, x, ids, values, dim, tag)
    return _rows_added(p, x, ids, values, dim, tag)


def _rows_added(
    p: Program, x: Value, ids: Value, values: Value, dim: int, tag: str
) -> Value | None:
    windows = p.ints("update_window_dims")
    rest = [i for i in range(len(values.shape.dims)) if i not in windows]
    others = [n for i, n in enumerate(x.shape.dims) if i != dim]
    if [values.shape.dims[i] for i in windows] != others:
        return None
    ids = _scalars(p, ids, p.ints("index_vector_dim"))
    p.need([values.shape.dims[i] for i in rest] == list(ids.shape.dims), "updates do not fit ids")
    order = [*windows[:dim], *rest, *windows[dim:]]
    if order != list(range(len(order))):
        values = p.permuted(values, order, "ordered")
    if ids.shifted:
        ids, values = _dropped(p, x, ids, values, list(range(dim, dim + len(rest))), dim)
    places = [None] * dim + [ids.ref]
    return p.make("aten.index_put.default", [x.ref, places, values.ref, True], x.shape, tag)


def _dropped(
    p: Program, x: Value, ids: Value, values: Value, at: list[int], dim: int
) -> tuple[Value, Value]:
    """Positions outside of the shard as 0, and their values as 0."""
    truth = Array("pred", ids.shape.dims)
    below = p.make("aten.lt.Scalar", [ids.ref, 0], truth, "below")
    rows = x.shape.dims[dim]
    if limits(ids.shape.dtype)[1] < rows:  # no position lies behind the shard
        above = p.filled(False, truth, "above")
    else:
        above = p.make("aten.ge.Scalar", [ids.ref, rows], truth, "above")
    outside = p.make("aten.bitwise_or.Tensor", [below.ref, above.ref], truth, "outside")
    held = p.make("aten.masked_fill.Scalar", [ids.ref, outside.ref, 0], ids.shape, "held")
    wide = Array("pred", values.shape.dims)
    mask = outside
    if wide != truth:
        mask = p.make("hlo.broadcast", [outside.ref, at, list(wide.dims)], wide, "mask")
    kept = p.make("aten.masked_fill.Scalar", [values.ref, mask.ref, 0], values.shape, "kept")
    return held, kept


def _each_added(
    p: Program, x: Value, ids: Value, values: Value, dim: int, tag: str
) -> Value | None:
    """One value added in each row, or several: every other dimension is one of the batch."""
    batch = p.ints("input_batching_dims")
    others = [i for i in range(len(x.shape.dims)) if i != dim]
    rest = p.ints("scatter_indices_batching_dims")
    lead = len(batch)
    if batch != others or rest != list(range(lead)) or dim != lead:
        return None
    if p.ints("update_window_dims"):
        return None
    ids = _scalars(p, ids, p.ints("index_vector_dim"))
    p.need(ids.shape.dims == values.shape.dims, "updates do not fit ids")
    flat = [*ids.shape.dims[:lead], Array("s32", ids.shape.dims[lead:]).size]
    shifted = ids.shifted
    ids, values = p.view(ids, flat, "rows"), p.view(values, flat, "values")
    if shifted:
        ids, values = _dropped(p, x, ids, values, list(range(lead + 1)), dim)
    return p.make("aten.scatter_add.default", [x.ref, dim, ids.ref, values.ref], x.shape, tag)
