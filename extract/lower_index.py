"""Lookups by an index tensor, and values put where a mask is true."""

from __future__ import annotations

from dataclasses import replace

from gg_datalog.extract.blanks import Blank
from gg_datalog.extract.context import Context, Unsupported, Value, in_type, lowers
from gg_datalog.extract.exponents import (
    written_terms,
)
from gg_datalog.extract.graph import SYMBOL, is_symbolic
from gg_datalog.extract.halves import Half
from gg_datalog.extract.labels import Letters, space
from gg_datalog.extract.lower_contract import contract
from gg_datalog.extract.lower_lookup import IDS_IN_RANGE, TAKEN, hot_along, ids_between, take
from gg_datalog.extract.lower_mask import masked
from gg_datalog.extract.lower_math import added
from gg_datalog.extract.lower_movement import joined, need, sliced
from gg_datalog.extract.lower_positions import rows_at
from gg_datalog.extract.lower_reduce import reduced
from gg_datalog.extract.lower_select import inverse, is_permutation, scattered_chosen
from gg_datalog.extract.notes import Classes
from gg_datalog.extract.records import OneHot, Operator
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.tabulated import known_of, looked_up
from gg_datalog.extract.view import Base, Digit, View, identity

MASKS = ("bool", "uint8")  # an index of this type is a mask


@lowers("aten.embedding")
def embedding(ctx: Context) -> Value:
    for name in ("padding_idx", "scale_grad_by_freq", "sparse"):  # they are of the gradient
        ctx.raw(name)
    return taken_along(ctx, ctx.tensor("weight"), 0, ctx.tensor("indices"))


@lowers("aten.index_select")
def index_select(ctx: Context) -> Value:
    table, ids = ctx.tensor("self"), ctx.tensor("index")
    dim = ctx.dim(ctx.argument("dim"), len(table.dims))
    if not table.dims:  # there is one position only
        return table
    return taken_along(ctx, table, dim, ids)


def taken_along(ctx: Context, table: View, dim: int, ids: View) -> View:
    """Positions ``ids`` of dimension ``dim``, in their place."""
    if (row := one_row(ctx, table, dim, ids)) is not None:
        return row
    if (rows := rows_at(ctx, table, dim, ids)) is not None:
        return rows
    lt = [f"x{i}" if i != dim else TAKEN for i in range(len(table.dims))]
    if len(table.dims) == 1 and (values := known_of(ctx, table)) is not None:
        return mapped(ctx, table, values, ids)
    li = [f"t{i}" for i in range(len(ids.dims))]
    return take(ctx, table, lt, ids, li, [*lt[:dim], *li, *lt[dim + 1 :]])


def one_row(ctx: Context, table: View, dim: int, ids: View) -> View | None:
    """The row that all ids choose, where they are one number, again and again."""
    number, extent = ctx.as_number(ids), table.shape[dim]
    at = None if number is None else number.integer
    if at is None or is_symbolic(extent) or any(map(is_symbolic, ids.shape)):
        return None
    if not -extent <= at < extent:
        raise ValueError(f"position {at} of a dimension of {extent}")
    row = sliced(ctx, table, dim, at % extent, 1)
    again = [(Digit(-1, e, 1),) if e > 1 else () for e in ids.shape]
    return replace(row, dims=(*row.dims[:dim], *again, *row.dims[dim + 1 :]))


def mapped(ctx: Context, table: View, values: tuple[int, ...], ids: View) -> View:
    """The numbers of a table of which the values are known."""
    over = replace(identity(ids.base), scale=ids.scale)
    li = [f"t{i}" for i in range(len(over.dims))]
    made = take(ctx, table, [TAKEN], over, li, li)
    if made.dims != over.dims or any(d.dim < 0 for dim in ids.dims for d in dim):
        li = [f"t{i}" for i in range(len(ids.dims))]
        return take(ctx, table, [TAKEN], ids, li, li)
    return looked_up(ctx, View(made.base, ids.dims, made.scale), values, ids)


@lowers("aten.index")
def index(ctx: Context) -> Value:
    table, listed = ctx.tensor("self"), ctx.argument("indices")
    if not isinstance(listed, tuple):
        raise Unsupported("its indices are not known")
    used = [(i, v) for i, v in enumerate(listed) if v is not None]
    if any(not isinstance(v, View) for _, v in used):
        raise Unsupported("its indices are not known")
    dtypes = [ctx.dtype_of(a) for a in ctx.raw("indices") if a is not None]
    if set(dtypes) & set(MASKS):
        raise Unsupported("rows chosen by a mask")
    if len(used) == 1:
        return taken_along(ctx, table, used[0][0], used[0][1])
    if [i for i, _ in used] == [0, 1] and numbers_rows(ctx, table, used[0][1]):
        return each_row(ctx, table, used[1][1])
    raise Unsupported("an index of several tensors")


def numbers_rows(ctx: Context, table: View, rows: View) -> bool:
    """Is ``rows`` 0, 1, 2, ... over the first dimension of the table?"""
    extent = table.shape[0]
    every = ((Digit(0, extent, 1),),) if extent > 1 else ((),)
    plain = rows.scale == ONE and rows.dims == every
    return plain and ctx.side.notes.counted.get(rows.base) == (0, 1, extent)


def each_row(ctx: Context, table: View, ids: View) -> View:
    """Of row i of the table, position ids[i]."""
    if len(ids.dims) != 1:
        raise Unsupported("an index of several dimensions")
    rest = [f"x{i}" for i in range(2, len(table.dims))]
    return take(ctx, table, ["t", TAKEN, *rest], ids, ["t"], ["t", *rest])


@lowers("aten.gather")
def gather(ctx: Context) -> Value:
    table, ids = ctx.tensor("self"), ctx.tensor("index")
    ctx.raw("sparse_grad")  # it is of the gradient
    dim = ctx.dim(ctx.argument("dim"), len(table.dims))
    if any(a != b for i, (a, b) in enumerate(zip(table.shape, ids.shape, strict=True)) if i != dim):
        raise Unsupported("a gather from a part of the rows")
    lt = [f"t{i}" if i != dim else TAKEN for i in range(len(table.dims))]
    li = [f"t{i}" if i != dim else "g" for i in range(len(table.dims))]
    return take(ctx, table, lt, ids, li, li)


@lowers("hlo.gather")
def hlo_gather(ctx: Context) -> Value:
    table, ids = ctx.tensor("self"), ctx.tensor("index")
    offsets, collapsed, starts, vector, sizes = (
        ctx.argument(name)
        for name in (
            "offset_dims",
            "collapsed_dims",
            "start_index_map",
            "index_vector_dim",
            "slice_sizes",
        )
    )
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


# ---- values put or added at positions: products with the one-hot ids
def one_hot(ctx: Context, ids: View, li: Letters, extent: int, mask: View | None = None) -> View:
    """1 where the last dimension is the id, else 0; all 0 where ``mask`` is true. ``mask`` has the
    dimensions of ``ids``."""
    operands = [(ids, li)] if mask is None else [(ids, li), (mask, li)]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return ("v", "created") if letter == TAKEN else ("t", "parallel")

    ctx.notes.assume(*IDS_IN_RANGE)
    name = "one_hot" if mask is None else "masked one_hot"
    out = [*li, TAKEN]
    view = ctx.apply(name, operands, [out], naming, created={TAKEN: extent})[0]
    made = space(operands, naming, {TAKEN: extent})
    plain = all(v.scale == ONE for v, _ in operands)
    if mask is not None:
        plain = plain and mask.dims == ids.dims and mask.base.shape == ids.base.shape
    place = view.dims[-1][0].dim if len(view.dims[-1]) == 1 else -1
    ends = ids_between(ctx.side, ids.base) if ids.scale == ONE else None
    if ends is not None and place >= 0 and 0 <= ends[1] < extent - 1:
        blank = Blank(0, (Half(-1, place, ends[1] + 1),), False)
        ctx.side.notes.blanks.setdefault(view.base, blank)
    if made is not None and plain and len(made.segments[TAKEN]) <= 1:
        of = None if mask is None else mask.base
        hot = f"{view.base.name}?hot"
        labels, label = hot_along(made)
        record = OneHot(hot, ids, labels, made.maps, label, made.result(out)[0], view.base, of)
        ctx.side.onehots.setdefault(view.base, record)
    return view


def placed(
    ctx: Context, g: View, lg: Letters, ids: View, li: Letters, extent: int, out: Letters
) -> View:
    """``g`` times the one-hot ids, added up over what the result does not have. Where ``g`` is 0
    wherever some mask is true, the same with masked ids is another form of it."""
    if extent == 1 and ctx.side.is_zero(ids):
        gone = [i for i, n in enumerate(lg) if n in li and n not in out]
        kept = [n for i, n in enumerate(lg) if i not in gone]
        if set(kept) == set(out) - {TAKEN}:
            total = reduced(ctx, g, gone, "sum", False) if gone else g
            total = total.permuted([kept.index(n) for n in out if n != TAKEN])
            return total.unsqueezed(list(out).index(TAKEN))
    hot = one_hot(ctx, ids, li, extent)
    made = contract(ctx, g, lg, hot, [*li, TAKEN], out)
    note_classes(ctx, made, g, lg, hot, li, out)
    note = ctx.side.notes.cleared.get(g.base)
    if note is None or note.of.base.kind == "uninitialised" or (seen := note.seen_as(g)) is None:
        return made
    x, mask = seen
    rest = [dim for n, dim in zip(lg, mask.dims, strict=True) if n not in li]
    if any(d.dim >= 0 for dim in rest for d in dim):
        return made
    over = View(mask.base, tuple(mask.dims[list(lg).index(n)] for n in li), mask.scale)
    hidden = one_hot(ctx, ids, li, extent, over)
    ctx.side.alternative(made, contract(ctx, x, lg, hidden, [*li, TAKEN], out))
    return made


def note_classes(
    ctx: Context,
    made: View,
    g: View,
    lg: Letters,
    hot: View,
    li: Letters,
    out: Letters,
    hidden: View | None = None,
) -> None:
    """Notes ``made`` as a factor per row times the one-hot class of the row, where it is that:
    nothing was added up. ``hidden``: the classes without those of rows where the factor is 0."""
    sizes = dict(zip(li, hot.shape, strict=False))
    if any(sizes[n] > 1 and n not in out for n in li) or not set(lg) <= {*li, *out}:
        return
    at = list(out).index(TAKEN)
    ones = [n for n in (*lg, *li) if n not in out]
    if any(g.shape[i] > 1 for i, n in enumerate(lg) if n in ones):
        return
    dims = dict(zip(lg, g.dims, strict=True))
    factor = View(g.base, tuple(() if n == TAKEN else dims.get(n, ()) for n in out), g.scale)
    rows = [e if i != at else 1 for i, e in enumerate(made.shape)]

    def over_rows(hot: View) -> View | None:
        wide = dict(zip([*li, TAKEN], hot.dims, strict=True))
        return View(hot.base, tuple(wide.get(n, ()) for n in out), hot.scale).expanded(made.shape)

    spread, over = factor.expanded(rows), over_rows(hot)
    without = None if hidden is None else over_rows(hidden)
    if spread is not None and over is not None:
        factor = spread.scaled(made.scale.inverse())
        ctx.side.notes.classes[made.base] = Classes(made.dims, factor, over, at, without)


@lowers("aten.embedding_dense_backward")
def embedding_backward(ctx: Context) -> Value:
    g, ids = ctx.tensor("grad_output"), ctx.tensor("indices")
    rows, padding = ctx.argument("num_weights"), ctx.argument("padding_idx", default=-1)
    if ctx.argument("scale_grad_by_freq", default=False):
        raise Unsupported("gradients scaled by frequency")
    if not isinstance(rows, int) or rows < 1 or not isinstance(padding, int):
        raise Unsupported("its number of rows is not known")
    li = [f"t{i}" for i in range(len(ids.dims))]
    made = placed(ctx, g, [*li, "x"], ids, li, rows, [TAKEN, "x"])
    return without_row(ctx, made, padding) if 0 <= padding < rows else made


def without_row(ctx: Context, x: View, row: int) -> View:
    """``x`` with 0 in one row: that of a table whose ids do not count. Only the row itself is
    masked, so that ranks with other rows have them as they are."""
    true = need(ctx.side.constant(ONE).expanded([1, x.shape[1]]))
    spans = [(0, row), (row, 1), (row + 1, x.shape[0] - row - 1)]
    parts = [need(ctx.side.slice(x, 0, start, size)) for start, size in spans if size]
    at = 1 if row else 0
    parts[at] = masked(ctx, parts[at], true, scale(0))
    return joined(ctx, parts, 0)


@lowers("aten.nonzero")
def nonzero(ctx: Context) -> Value:
    """Positions at which a mask is true: how many depends on data."""
    mask, shape = ctx.tensor("self"), ctx.node.shape
    if shape is None or len(shape) != 2 or shape[1] != len(mask.dims) or not mask.dims:
        raise Unsupported("its shape is not known")
    if shape[0] != SYMBOL:
        raise Unsupported("its number of positions is given")
    letters = [f"m{i}" for i in range(len(mask.dims))]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return (letter, "created") if letter in ("u", "k") else (letter, "whole")

    extents = {"u": SYMBOL, "k": len(mask.dims)}
    out = ctx.apply("nonzero", [(mask, letters)], [["u", "k"]], naming, created=extents)[0]
    if len(mask.dims) == 1:
        ctx.side.notes.chosen[out.base] = mask
    return out


def put_chosen(ctx: Context, x: View, ids: View, value: View, mask: View) -> View:
    """Rows put where a mask is true, each once: what was there goes, where it was not 0 anyway."""
    for _ in range(len(x.dims) - 1):
        mask = mask.unsqueezed(len(mask.dims))
    kept = x if empty_at(ctx, x, mask) else masked(ctx, x, mask, scale(0))
    if ctx.side.is_zero(value):
        return kept
    return added(ctx, [(kept, ONE), (rows_added(ctx, x, 0, ids, value), ONE)])


def empty_at(ctx: Context, x: View, mask: View) -> bool:
    """Is every term of ``x`` 0 where the mask is true: put where another expert was chosen?"""
    if ctx.side.is_zero(x):
        return True
    terms = written_terms(x)
    if any([d for dim in t.dims for d in dim] != _digits(t.base) for t in terms):
        return False
    other = [ctx.side.notes.placed.get(t.base) for t in terms]
    return all(o is not None and exclusive(o, mask) for o in other)


def _digits(base: Base) -> list[Digit]:
    return [d for dim in identity(base).dims for d in dim]


def exclusive(a: View, b: View) -> bool:
    """Are two masks never true at once: comparisons of the same ids with different numbers?"""
    made = [v.base.made for v in (a, b)]
    if not all(isinstance(m, Operator) and m.signature.startswith("eq(%, ") for m in made):
        return False
    one, two = (m for m in made if isinstance(m, Operator))
    numbers = [m.signature.removeprefix("eq(%, ").removesuffix(")") for m in (one, two)]
    of = [(m.operands[0].base, m.operands[0].dims, m.operands[0].scale, m.maps) for m in (one, two)]
    trimmed = [[dim for dim in v.dims if dim] for v in (a, b)]
    plain = all(n.lstrip("-").isdigit() for n in numbers)
    return (
        plain and int(numbers[0]) != int(numbers[1]) and of[0] == of[1] and trimmed[0] == trimmed[1]
    )


def rows_added(ctx: Context, x: View, dim: int, ids: View, value: View) -> View:
    """``value`` added to 0 at positions ``ids`` of dimension ``dim`` of something like ``x``."""
    li = [f"t{i}" for i in range(len(ids.dims))]
    rest = [f"x{i}" for i in range(len(x.dims))]
    wide = value.expanded([*x.shape[:dim], *ids.shape, *x.shape[dim + 1 :]])
    if wide is None:
        raise Unsupported("its values do not fit its positions")
    lg = [*rest[:dim], *li, *rest[dim + 1 :]]
    out = [*rest[:dim], TAKEN, *rest[dim + 1 :]]
    made = placed(ctx, wide, lg, ids, li, x.shape[dim], out)
    if dim == 0 and ids.base in ctx.side.notes.chosen:
        ctx.side.notes.placed[made.base] = ctx.side.notes.chosen[ids.base]
    return made


@lowers("aten.scatter_add")
def scatter_add(ctx: Context) -> Value:
    x, ids, source = ctx.tensor("self"), ctx.tensor("index"), ctx.operand("src")
    return added(ctx, [(x, ONE), (scattered(ctx, x, ids, source), ONE)])


@lowers("aten.scatter")
def scatter(ctx: Context) -> Value:
    x, ids = ctx.tensor("self"), ctx.tensor("index")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    if ctx.argument("reduce") is not None:
        raise Unsupported("values scattered over others")
    source = ctx.argument("src", "value")
    view = ctx.as_tensor(source)
    if view is None:
        raise Unsupported("what it scatters is not known")
    if len(x.dims) == 1 and is_permutation(ctx, ids, x.shape[0]) and view.shape == ids.shape:
        return inverse(ctx, ids, view)
    if not ctx.side.is_zero(x):
        raise Unsupported("values scattered over others")
    if isinstance(source, (int, float)):
        in_type(ctx, scale(source))
    if not view.dims:
        view = view.expanded(ids.shape) or view
    if ids.shape[dim] != 1:
        _check_rows(x, ids, view, dim)
        return scattered_chosen(ctx, ids, view, dim, x.shape[dim])
    return scattered(ctx, x, ids, view)


def scattered(ctx: Context, x: View, ids: View, source: View) -> View:
    """``source`` added to 0 at the positions ``ids`` of one dimension."""
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    _check_rows(x, ids, source, dim)
    li = [f"t{i}" if i != dim else "g" for i in range(len(x.dims))]
    out = [n if n != "g" else TAKEN for n in li]
    return placed(ctx, source, li, ids, li, x.shape[dim], out)


def _check_rows(x: View, ids: View, source: View, dim: int) -> None:
    """A scatter along a dimension gives every row its own positions."""
    pairs = enumerate(zip(x.shape, ids.shape, strict=True))
    if source.shape != ids.shape or any(a != b for i, (a, b) in pairs if i != dim):
        raise Unsupported("a scatter into a part of the rows")


@lowers("aten.index_put", "aten._index_put_impl", "aten._unsafe_index_put")
def index_put(ctx: Context) -> Value:
    x, listed = ctx.tensor("self"), ctx.argument("indices")
    ctx.raw("unsafe")  # it leaves out a check of the indices
    if not isinstance(listed, tuple) or not all(v is None or isinstance(v, View) for v in listed):
        raise Unsupported("its indices are not known")
    more = ctx.argument("accumulate", default=False)
    dtypes = [ctx.dtype_of(a) for a in ctx.raw("indices")]
    if dtypes == ["bool"]:
        return put_masked(ctx, x, listed[0], bool(more))
    used = [(i, v) for i, v in enumerate(listed) if v is not None]
    value = ctx.operand("values")
    if set(dtypes) & set(MASKS) or not used:
        raise Unsupported("values put at a mask")
    if len(used) == len(x.dims) == 1 and not more:
        ids = used[0][1]
        if is_permutation(ctx, ids, x.shape[0]) and value.shape == ids.shape:
            return inverse(ctx, ids, value)
    if len(used) == 1 and more:
        dim, ids = used[0]
        return added(ctx, [(x, ONE), (rows_added(ctx, x, dim, ids, value), ONE)])
    if len(used) == 1 and used[0][0] == 0 and used[0][1].base in ctx.side.notes.chosen:
        ids = used[0][1]
        if ctx.side.notes.chosen[ids.base].shape == x.shape[:1]:
            return put_chosen(ctx, x, ids, value, ctx.side.notes.chosen[ids.base])
    if [i for i, _ in used] == [0, 1] and len(x.dims) == 2 and numbers_rows(ctx, x, used[0][1]):
        return put_each_row(ctx, x, used[1][1], value, bool(more))
    if len(used) == 1 and not more:
        return copied_to(ctx, x, *used[0], value)
    raise Unsupported("values put at an index")


@lowers("aten.index_copy")
def index_copy(ctx: Context) -> Value:
    x = ctx.tensor("self")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    return copied_to(ctx, x, dim, ctx.tensor("index"), ctx.operand("source"))


def copied_to(ctx: Context, x: View, dim: int, ids: View, value: View) -> View:
    """``x`` with other rows at positions ``ids`` of a dimension, which is whole; of two rows at one
    position the same one wins on both sides."""
    if len(ids.dims) != 1 or not x.dims:
        raise Unsupported("rows put at an index of several dimensions")
    wide = value.expanded([*x.shape[:dim], *ids.shape, *x.shape[dim + 1 :]])
    if wide is None:
        raise Unsupported("its values do not fit its positions")
    lx = [f"x{i}" if i != dim else TAKEN for i in range(len(x.dims))]
    lv = [n if n != TAKEN else "i" for n in lx]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return (letter, "whole") if letter in (TAKEN, "i") else ("x", "parallel")

    # of a dimension of one position, or of one id, nothing is left to tell it by
    name = f"index_copy({x.shape[dim]}, {ids.shape[0]})"
    return ctx.apply(name, [(x, lx), (ids, ["i"]), (wide, lv)], [lx], naming)[0]


def put_masked(ctx: Context, x: View, mask: View, accumulate: bool) -> View:
    """A number where a mask is true."""
    value = ctx.number("values")
    if value is None or accumulate:
        raise Unsupported("values put at a mask")
    for _ in range(len(x.dims) - len(mask.dims)):
        mask = mask.unsqueezed(len(mask.dims))
    return masked(ctx, x, mask, value)


def put_each_row(ctx: Context, x: View, ids: View, value: View, accumulate: bool) -> View:
    """In row i, position ids[i] becomes value[i] (or more by that much)."""
    if len(ids.dims) != 1 or (wide := value.expanded(ids.shape)) is None:
        raise Unsupported("values put at an index of several dimensions")
    terms = written_terms(wide)
    if not accumulate and not ctx.side.is_zero(x):
        there = each_row(ctx, x, ids)
        old = [t for t in terms if (t.base, t.dims, t.scale) == (there.base, there.dims, ONE)]
        if len(old) != 1 or there.scale != ONE:
            return put_over(ctx, x, ids, wide)
        terms = [t for t in terms if t is not old[0]]
        if not terms:
            return x
    return added(ctx, [(x, ONE), (times_hot(ctx, terms, ids, x.shape[1]), ONE)])


def put_over(ctx: Context, x: View, ids: View, value: View) -> View:
    """Values put over others: a row has to be there as a whole."""

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return ("v", "whole") if letter == TAKEN else ("t", "parallel")

    operands = [(x, ["t", TAKEN]), (ids, ["t"]), (value, ["t"])]
    return ctx.apply("put", operands, [["t", TAKEN]], naming)[0]


def times_hot(ctx: Context, terms: list[View], ids: View, extent: int) -> View:
    """The sum of terms, times the one-hot ids: of c * (1 - mask) the masked one-hot ids."""
    ones = [t for t in terms if ctx.side.is_one(t)]
    rest = [t for t in terms if not ctx.side.is_one(t)]
    if not rest:
        total = need(ctx.side.sum(ones))
        return one_hot(ctx, ids, ["t"], extent).scaled(total.scale)
    single = len(ones) == len(rest) == 1 and rest[0].base in ctx.side.notes.truths
    if single and ones[0].scale * scale(-1) == rest[0].scale:
        mask = replace(rest[0], scale=ONE)
        return one_hot(ctx, ids, ["t"], extent, mask).scaled(ones[0].scale)
    total = added(ctx, [(t, ONE) for t in terms])
    return placed(ctx, total, ["t"], ids, ["t"], extent, ["t", TAKEN])
