"""Operators that only move data: views, slices, concatenations, constants, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from gg_datalog.extract.context import Context, Unsupported, Value, in_type, lowers
from gg_datalog.extract.dtypes import cast, valued
from gg_datalog.extract.graph import is_symbolic
from gg_datalog.extract.pieces import flattened, in_shape, line, spans_of
from gg_datalog.extract.scale import Scale, scale
from gg_datalog.extract.view import Digit, View


def need(view: View | None, why: str = "its digits do not split that way") -> View:
    """The view, or :class:`Unsupported`."""
    if view is None:
        raise Unsupported(why)
    return view


def stretched(x: View, shape: Sequence[int]) -> View:
    """The view broadcast to ``shape``."""
    wide = x.expanded(shape)
    if wide is None:
        raise ValueError(f"{list(x.shape)} does not expand to {list(shape)}")
    return wide


@lowers("aten.view")
def view(ctx: Context) -> Value:
    x, asked = ctx.tensor("self"), ctx.argument("size", "shape")
    for name in ("start_dim", "end_dim"):  # of flatten: the shape of the node says them
        ctx.raw(name)
    shape = ctx.node.shape if ctx.node.shape is not None else ctx.sizes("size", "shape")
    if any(isinstance(e, str) for e in shape):
        raise Unsupported("symbolic sizes")
    if prod(shape) != prod(x.shape) or not agrees(asked, shape):
        raise ValueError(f"{list(x.shape)} viewed as {asked} is not {list(shape)}")
    return need(reshaped(ctx, x, [int(e) for e in shape]))


def reshaped(ctx: Context, x: View, shape: list[int]) -> View | None:
    """The same elements in row-major order as ``shape``: a flat buffer as what it is made of."""
    made, flat = x.reshaped(shape), flattened(x)
    plain = sum(e > 1 for e in shape) < 2 or any(d.dim < 0 for d in flat.dims[0])
    if plain or (made is not None and line(x) is None):
        return made
    spans, local = spans_of(ctx.side, flat)
    if made is not None and len(spans) == 1 and spans[0].of == flat:
        return made
    return in_shape(ctx.side, spans, shape, local) or made


def agrees(asked: Any, shape: Sequence[Any]) -> bool:
    """Is ``shape`` what the sizes asked for say, where they are a list of known sizes?"""
    if not isinstance(asked, tuple) or not all(type(e) is int for e in asked):
        return True
    return len(asked) == len(shape) and all(a in (-1, e) for a, e in zip(asked, shape, strict=True))


@lowers("aten.unsqueeze")
def unsqueeze(ctx: Context) -> Value:
    x = ctx.tensor("self")
    return x.unsqueezed(ctx.dim(ctx.argument("dim"), len(x.dims) + 1))


@lowers("aten.squeeze")
def squeeze(ctx: Context) -> Value:
    x = ctx.tensor("self")
    if ctx.argument("dim") == ():  # none of them; without a list all of them
        return x
    for dim in sorted(ctx.dims(len(x.dims), "dim"), reverse=True):
        x = x.without(dim) if x.shape[dim] == 1 else x
    return x


@lowers("aten.permute")
def permute(ctx: Context) -> Value:
    x = ctx.tensor("self")
    order = ctx.dims(len(x.dims), "dims")
    if sorted(order) != list(range(len(x.dims))):
        raise ValueError(f"{order} is no permutation of {len(x.dims)} dimensions")
    return x.permuted(order)


@lowers("aten.transpose", "aten.swapaxes")
def transpose(ctx: Context) -> Value:
    x = ctx.tensor("self")
    order = list(range(len(x.dims)))
    names = (("dim0", "axis0"), ("dim1", "axis1"))
    a, b = (ctx.dim(ctx.argument(*pair), len(order)) for pair in names)
    if order:
        order[a], order[b] = order[b], order[a]
    return x.permuted(order)


@lowers("aten.t", "aten.numpy_T")
def t(ctx: Context) -> Value:
    x = ctx.tensor("self")
    return x.permuted(range(len(x.dims))[::-1])


@lowers("aten.expand", "aten.broadcast_to")
def expand(ctx: Context) -> Value:
    x, shape = ctx.tensor("self"), ctx.node.shape
    ctx.raw("implicit")
    if shape is None or any(isinstance(e, str) for e in shape):
        return stretched(x, ctx.sizes("size"))
    asked = ctx.argument("size")
    if isinstance(asked, tuple) and all(type(e) is int for e in asked):
        return stretched(x, asked)
    return stretched(x, [int(e) for e in shape])


@lowers("aten.repeat")
def repeat(ctx: Context) -> Value:
    """The whole tensor again and again along dimensions, the last ones of which are its own."""
    x, times = ctx.tensor("self"), ctx.sizes("repeats")
    if len(times) < len(x.dims) or any(n < 1 for n in times):
        raise Unsupported("its repeats are not known")
    dims = [()] * (len(times) - len(x.dims)) + list(x.dims)
    again = [(Digit(-1, n, 1), *dim) if n > 1 else dim for n, dim in zip(times, dims, strict=True)]
    return replace(x, dims=tuple(again))


@lowers("aten.sym_size")
def sym_size(ctx: Context) -> Value:
    x = ctx.tensor("self")
    return x.shape[ctx.dim(ctx.argument("dim"), len(x.dims))]


@lowers("aten.expand_as")
def expand_as(ctx: Context) -> Value:
    return stretched(ctx.tensor("self"), ctx.tensor("other").shape)


@lowers("aten.copy")
def copy(ctx: Context) -> Value:
    """`copy(into, of)` gives `of` in the shape and the type of `into`."""
    ctx.raw("self", "non_blocking")
    return stretched(ctx.operand("src"), ctx.tensor("self").shape)


@lowers("hlo.broadcast")
def hlo_broadcast(ctx: Context) -> Value:
    x, at, shape = ctx.tensor("self"), ctx.sizes("dims"), ctx.sizes("shape")
    dims: list[Any] = [()] * len(shape)
    for dim, place in zip(x.dims, at, strict=False):
        dims[ctx.dim(place, len(shape))] = dim
    return stretched(View(x.base, tuple(dims), x.scale), shape)


def bounds(ctx: Context, extent: int, start: Any, end: Any) -> tuple[int, int]:
    """(start, size) after clamping open or negative bounds as torch does."""
    start = 0 if start is None else start
    end = extent if end is None else end
    if not isinstance(start, int) or not isinstance(end, int):
        raise Unsupported("its bounds are not known")
    start, end = (max(0, min(extent, b + extent if b < 0 else int(b))) for b in (start, end))
    return start, max(0, end - start)


def zeros_of(ctx: Context, shape: Sequence[int]) -> View:
    """Zeros; of a shape with an extent of 0 a tensor without elements."""
    return need(ctx.side.constant(scale(0)).expanded(shape))


def beside(x: View, more: int) -> View:
    """A view with so many dimensions of one position behind its own: a number per channel, to be
    broadcast over dimensions in space."""
    for _ in range(more):
        x = x.unsqueezed(len(x.dims))
    return x


def sliced(ctx: Context, x: View, dim: int, start: int, size: int) -> View:
    """A slice."""
    if size == 0:
        return zeros_of(ctx, [*x.shape[:dim], 0, *x.shape[dim + 1 :]])
    if is_symbolic(x.shape[dim]) and size != x.shape[dim]:
        raise Unsupported("a slice of a size that depends on data")
    return need(ctx.side.slice(x, dim, start, size))


@lowers("aten.slice")
def slice_(ctx: Context) -> Value:
    x = ctx.tensor("self")
    dim = ctx.dim(ctx.argument("dim", default=0), len(x.dims))
    start, size = bounds(ctx, x.shape[dim], ctx.argument("start"), ctx.argument("end"))
    return stepped(ctx, x, dim, start, size, step_of(ctx))


def step_of(ctx: Context) -> int:
    """The step of a slice."""
    step = ctx.argument("step", default=1)
    if type(step) is not int or step < 1:
        raise Unsupported("its step is not known")
    return step


def stepped(ctx: Context, x: View, dim: int, start: int, size: int, step: int) -> View:
    """Every ``step``-th of so many positions: the dimension as two, of which the inner one has
    ``step`` positions and one of them is taken."""
    total, extent = -(-size // step), x.shape[dim]
    if step == 1 or total < 2:
        return sliced(ctx, x, dim, start, total)
    if extent % step:
        full = min(total, (extent - start) // step)
        within = sliced(ctx, x, dim, start, full * step)
        pieces = [stepped(ctx, within, dim, 0, full * step, step)]
        if full < total:
            pieces.append(sliced(ctx, x, dim, start + full * step, 1))
        return joined(ctx, pieces, dim)
    apart = need(x.reshaped([*x.shape[:dim], extent // step, step, *x.shape[dim + 1 :]]))
    column = sliced(ctx, apart, dim + 1, start % step, 1).without(dim + 1)
    return sliced(ctx, column, dim, start // step, total)


@lowers("aten.narrow")
def narrow(ctx: Context) -> Value:
    x = ctx.tensor("self")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    start, length = ctx.argument("start"), ctx.argument("length")
    if not isinstance(start, int) or not isinstance(length, int):
        raise Unsupported("its bounds are not known")
    return sliced(ctx, x, dim, *bounds(ctx, x.shape[dim], start, start + length))


@lowers("aten.select")
def select(ctx: Context) -> Value:
    x = ctx.tensor("self")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    index = ctx.argument("index")
    if not isinstance(index, int):
        raise Unsupported("its index is not known")
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise ValueError(f"index {index} is out of range for {x.shape[dim]} positions")
    return sliced(ctx, x, dim, index % x.shape[dim], 1).without(dim)


def pieces(ctx: Context, x: View, dim: int, sizes: Any) -> Value:
    """Slices of the given sizes, one after the other."""
    if sum(sizes) != x.shape[dim]:
        raise ValueError(f"sizes {list(sizes)} do not add up to {x.shape[dim]}")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(
        sliced(ctx, x, dim, start, size) for start, size in zip(starts, sizes, strict=True)
    )


@lowers("aten.split_with_sizes", "aten.unsafe_split_with_sizes")
def split_with_sizes(ctx: Context) -> Value:
    x = ctx.tensor("self")
    dim = ctx.dim(ctx.argument("dim", default=0), len(x.dims))
    return pieces(ctx, x, dim, ctx.sizes("split_sizes"))


@lowers("aten.split", "aten.chunk", "aten.unsafe_split", "aten.unsafe_chunk")
def split(ctx: Context) -> Value:
    x = ctx.tensor("self")
    dim = ctx.dim(ctx.argument("dim", default=0), len(x.dims))
    sizes = ctx.argument("split_size", "split_sizes", "chunks")
    if is_symbolic(x.shape[dim]):
        raise Unsupported("a split of a size that depends on data")
    if isinstance(sizes, int):
        extent = x.shape[dim]
        width = -(-extent // sizes) if "chunks" in ctx.node.bound else sizes
        sizes = tuple(min(width, extent - at) for at in range(0, extent, width))
    return pieces(ctx, x, dim, sizes)


@lowers("aten.unbind")
def unbind(ctx: Context) -> Value:
    x = ctx.tensor("self")
    dim = ctx.dim(ctx.argument("dim", default=0), len(x.dims))
    if is_symbolic(x.shape[dim]):
        raise Unsupported("a split of a size that depends on data")
    return tuple(v.without(dim) for v in pieces(ctx, x, dim, (1,) * x.shape[dim]))


def tensors(ctx: Context) -> list[View]:
    """A list of tensors, without empty ones, in the type of the result."""
    raw = ctx.raw("tensors")
    listed = raw if isinstance(raw, tuple) else ()
    views = [ctx.as_tensor(ctx.value(v)) for v in listed]
    if not views or any(v is None for v in views):
        raise Unsupported("its operands are not all known")
    after = ctx.node.dtype or ""
    typed = [cast(ctx, v, ctx.dtype_of(r), after) for v, r in zip(views, listed, strict=True) if v]
    return [v for v in typed if 0 not in v.shape]


@lowers("aten.cat", "aten.concat", "aten.concatenate", "hlo.concatenate")
def cat(ctx: Context) -> Value:
    views = tensors(ctx)
    return joined(ctx, views, ctx.dim(ctx.argument("dim", "axis", default=0), len(views[0].dims)))


@lowers("aten.stack")
def stack(ctx: Context) -> Value:
    views = tensors(ctx)
    dim = ctx.dim(ctx.argument("dim", default=0), len(views[0].dims) + 1)
    return joined(ctx, [v.unsqueezed(dim) for v in views], dim)


def joined(ctx: Context, views: list[View], dim: int) -> View:
    """Views one after the other; where that is no plain concatenation, an operator that needs
    the dimension whole."""
    others = {(*v.shape[:dim], *v.shape[dim + 1 :]) for v in views}
    if len(others) > 1:
        raise ValueError(f"shapes {[list(v.shape) for v in views]} differ beyond dimension {dim}")
    if len(views) > 1 and any(is_symbolic(v.shape[dim]) for v in views):
        raise Unsupported("a concatenation of sizes that depend on data")
    if all(ctx.side.is_zero(v) for v in views):
        shape = list(views[0].shape)
        shape[dim] = sum(v.shape[dim] for v in views)
        return zeros_of(ctx, shape)
    made = ctx.side.concat(views, dim)
    if made is None:
        made = ctx.side.opaque_concat([valued(ctx, v) for v in views], dim, True)
    elif ctx.side.name == "dist" and any(
        e == 1 for e in views[0].shape[:dim] + views[0].shape[dim + 1 :]
    ):
        ctx.side.as_opaque(made, views, dim)
    return need(made, "its dimensions do not split into whole digits")


def surrounded(ctx: Context, x: View, dim: int, before: int, after: int, value: Scale) -> View:
    """``x`` between so many positions of a dimension that hold ``value``."""

    def span(size: int) -> View:
        shape = [*x.shape[:dim], size, *x.shape[dim + 1 :]]
        return need(ctx.side.constant(value).expanded(shape))

    front, behind = ([span(n)] if n else [] for n in (before, after))
    parts = [*front, *([x] if x.shape[dim] else []), *behind]
    return joined(ctx, parts, dim) if len(parts) > 1 else parts[0] if parts else x


@lowers("aten.slice_scatter")
def slice_scatter(ctx: Context) -> Value:
    x, part = ctx.tensor("self"), ctx.operand("src")
    dim = ctx.dim(ctx.argument("dim", default=0), len(x.dims))
    if ctx.argument("step", default=1) != 1:
        raise Unsupported("a slice with a step")
    extent = x.shape[dim]
    start, size = bounds(ctx, extent, ctx.argument("start"), ctx.argument("end"))
    if part.shape[dim] != size:
        raise Unsupported(f"{part.shape[dim]} positions do not fill {size}")
    if not size:
        return x
    around = [(0, start), (start + size, extent - start - size)]
    kept = [sliced(ctx, x, dim, at, n) if n else None for at, n in around]
    return joined(ctx, [v for v in (kept[0], part, kept[1]) if v is not None], dim)


@lowers("aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.zero")
def zeros(ctx: Context) -> Value:
    return filled(ctx, scale(0))


@lowers("aten.ones", "aten.ones_like", "aten.new_ones")
def ones(ctx: Context) -> Value:
    return filled(ctx, scale(1))


@lowers("aten.fill")
def fill(ctx: Context) -> Value:
    return filled(ctx, ctx.number("value"))


def filled(ctx: Context, value: Any) -> View:
    """A constant in the shape of the node."""
    shape = ctx.node.shape
    ctx.raw("self")  # of a tensor like which it is made only the shape and the type are read
    asked = ctx.raw("size")
    if value is None or shape is None or any(isinstance(e, str) for e in shape):
        raise Unsupported("its value or shape is not known")
    in_type(ctx, value)
    if not agrees(asked, shape):
        raise ValueError(f"sizes {asked} are not {list(shape)}")
    return need(ctx.side.constant(value).expanded([int(e) for e in shape]))


@lowers(
    "aten.empty",
    "aten.empty_like",
    "aten.new_empty",
    "aten.empty_strided",
    "aten.new_empty_strided",
    "aten.empty_permuted",
)
def empty(ctx: Context) -> Value:
    shape = ctx.node.shape
    for name in ("self", "size", "stride", "physical_layout"):  # the shape of the node says them
        ctx.raw(name)
    if shape is None or any(isinstance(e, str) for e in shape):
        raise Unsupported("its shape is not known")
    view = ctx.side.source([int(e) for e in shape], "uninitialised")
    ctx.notes.uninitialised.append((ctx.side.name, ctx.rank, ctx.node.name))
    return view
