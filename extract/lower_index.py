"""Lookups by an index tensor, and values put where a mask is true."""

from __future__ import annotations

from dataclasses import replace

from gg_datalog.extract.context import Context, Unsupported, Value, lowers
from gg_datalog.extract.labels import Letters, Space, space
from gg_datalog.extract.lower_math import masked
from gg_datalog.extract.records import Label, Lookup
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.side import _as_term
from gg_datalog.extract.view import Base, Digit, View, compose, identity

TAKEN = "v"


def _naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
    if letter == TAKEN:
        return "v", "whole"
    return {(0, 1): "b", (0,): "x", (1,): "t"}.get(places, "b"), "parallel"


def take(ctx: Context, table: View, lt: Letters, ids: View, li: Letters, out: Letters) -> View:
    """``table`` at the positions ``ids`` of dimension ``v``."""
    view = ctx.apply("take", [(table, lt), (ids, li)], [out], _naming, linear=(0,))[0]
    made = space([(table, lt), (ids, li)], _naming)
    if made is not None and table.scale == ids.scale == ONE:
        _note_lookup(ctx, view.base, [table, ids], made, out)
    ctx.notes.assume("ids in range", "ids lie inside the table that they look up ([0, rows))")
    return view


def _note_lookup(
    ctx: Context,
    gives: Base,
    operands: list[View],
    made: Space,
    out: Letters,
    mask: Base | None = None,
) -> None:
    segments = made.segments[TAKEN]
    if len(segments) != 1 or gives in ctx.side.taken:
        return
    label = segments[0][0]
    labels = tuple(
        Label(x.extent, x.factor, "sum") if i == label else x for i, x in enumerate(made.labels)
    )
    name = f"{gives.name}?lookup"
    found = Lookup(name, operands, labels, made.maps, label, made.result(out)[0], gives, mask)
    ctx.side.lookups.append(found)
    ctx.side.taken[gives] = found


def masked_lookup(ctx: Context, gives: Base, of: View, mask: View) -> None:
    """Notes ``gives`` = 0 where ``mask``, else ``of``, if ``of`` is a lookup and the mask has the
    very positions of its ids."""
    found = ctx.side.taken.get(of.base)
    if found is None or found.mask is not None or of.scale != ONE or mask.scale != ONE:
        return
    if of.dims == mask.dims and of.base.shape == mask.base.shape:
        of, mask = identity(of.base), identity(mask.base)
    table, ids = (_over_result(found, place, v) for place, v in enumerate(found.operands))
    ids_at, table_at = (compose(of, v.dims, v.base, ONE) for v in (ids, table))
    if ids_at is None or table_at is None or ids_at.dims != mask.dims:
        return
    if ids_at.base.shape != mask.base.shape:
        return
    digits = _as_term(found.operands[0], found.maps[0], found.labels).dims[found.label]
    letters = [str(i) for i in range(len(of.dims))]
    operands = [View(table.base, (*table_at.dims, digits)), View(ids.base, ids_at.dims)]
    made = space([(operands[0], [*letters, TAKEN]), (operands[1], letters)], _naming)
    if made is None or tuple(made.labels[k].extent for k in made.result(letters)[0]) != gives.shape:
        return
    _note_lookup(ctx, gives, operands, made, letters, mask.base)


def _over_result(found: Lookup, place: int, view: View) -> View:
    """An operand with one dimension per dimension of the result."""
    term = _as_term(view, found.maps[place], found.labels)
    return replace(term, dims=tuple(term.dims[k] for k in found.result))


@lowers("aten.embedding")
def embedding(ctx: Context) -> Value:
    return taken_along(ctx, ctx.tensor(0), 0, ctx.tensor(1))


@lowers("aten.index_select")
def index_select(ctx: Context) -> Value:
    table = ctx.tensor(0)
    return taken_along(ctx, table, ctx.dim(ctx.argument(1, "dim"), len(table.dims)), ctx.tensor(2))


def taken_along(ctx: Context, table: View, dim: int, ids: View) -> View:
    """Positions ``ids`` of dimension ``dim``, in their place."""
    lt = [f"x{i}" if i != dim else TAKEN for i in range(len(table.dims))]
    li = [f"t{i}" for i in range(len(ids.dims))]
    return take(ctx, table, lt, ids, li, [*lt[:dim], *li, *lt[dim + 1 :]])


@lowers("aten.index")
def index(ctx: Context) -> Value:
    table, listed = ctx.tensor(0), ctx.argument(1, "indices")
    if not isinstance(listed, tuple):
        raise Unsupported("its indices are not known")
    used = [(i, v) for i, v in enumerate(listed) if v is not None]
    if any(not isinstance(v, View) for _, v in used):
        raise Unsupported("its indices are not known")
    dtypes = [ctx.dtype_of(a) for a in ctx.node.args[1] if a is not None]
    if "bool" in dtypes:
        raise Unsupported("rows chosen by a mask")
    if len(used) == 1:
        return taken_along(ctx, table, used[0][0], used[0][1])
    if len(used) == 2 and [i for i, _ in used] == [0, 1]:
        rows, ids = used[0][1], used[1][1]
        if ctx.side.aranges.get(rows.base) == table.shape[0] and rows.dims == (
            (Digit(0, table.shape[0], 1),),
        ):
            return each_row(ctx, table, ids)
    raise Unsupported("an index of several tensors")


def each_row(ctx: Context, table: View, ids: View) -> View:
    """Of row i of the table, position ids[i]."""
    if len(ids.dims) != 1:
        raise Unsupported("an index of several dimensions")
    rest = [f"x{i}" for i in range(2, len(table.dims))]
    return take(ctx, table, ["t", TAKEN, *rest], ids, ["t"], ["t", *rest])


@lowers("aten.gather")
def gather(ctx: Context) -> Value:
    table, ids = ctx.tensor(0), ctx.tensor(2)
    dim = ctx.dim(ctx.argument(1, "dim"), len(table.dims))
    if any(a != b for i, (a, b) in enumerate(zip(table.shape, ids.shape, strict=True)) if i != dim):
        raise Unsupported("a gather from a part of the rows")
    lt = [f"t{i}" if i != dim else TAKEN for i in range(len(table.dims))]
    li = [f"t{i}" if i != dim else "g" for i in range(len(table.dims))]
    return take(ctx, table, lt, ids, li, li)


@lowers("hlo.gather")
def hlo_gather(ctx: Context) -> Value:
    table, ids = ctx.tensor(0), ctx.tensor(1)
    offsets, collapsed, starts, vector, sizes = (ctx.argument(i, "") for i in range(2, 7))
    rank = len(table.dims)
    whole = all(
        s == e
        for i, (s, e) in enumerate(zip(sizes, table.shape, strict=True))
        if i not in collapsed
    )
    batch = [i for i in range(len(ctx.node.shape or ())) if i not in offsets]
    if len(collapsed) != 1 or tuple(starts) != tuple(collapsed) or not whole:
        raise Unsupported("a gather of more than one dimension")
    if vector == len(ids.dims) - 1 and len(batch) == len(ids.dims) - 1:
        ids = ids.without(vector)
    elif vector != len(ids.dims):
        raise Unsupported("a gather with its index vector in the middle")
    lt = [f"x{i}" if i != collapsed[0] else TAKEN for i in range(rank)]
    li = [f"t{i}" for i in range(len(ids.dims))]
    rest, ours = iter([n for n in lt if n != TAKEN]), iter(li)
    return take(
        ctx,
        table,
        lt,
        ids,
        li,
        [next(rest) if i in offsets else next(ours) for i in range(len(ctx.node.shape or ()))],
    )


@lowers("aten.index_put", "aten._index_put_impl")
def index_put(ctx: Context) -> Value:
    x, listed = ctx.tensor(0), ctx.argument(1, "indices")
    value = ctx.number(2, "values")
    dtypes = [ctx.dtype_of(a) for a in ctx.node.args[1]]
    if dtypes != ["bool"] or value is None or ctx.argument(3, "accumulate", False):
        raise Unsupported("values put at an index")
    mask = listed[0]
    for _ in range(len(x.dims) - len(mask.dims)):
        mask = mask.unsqueezed(len(mask.dims))
    return masked(ctx, x, mask, value)
