"""Gradients of slices and of a squared error."""

from __future__ import annotations

from math import prod

from gg_datalog.extract.context import Context, Unsupported, Value, count, lowers
from gg_datalog.extract.graph import is_symbolic
from gg_datalog.extract.lower_index import rows_added
from gg_datalog.extract.lower_loss import MEAN, NONE, reduction_asked
from gg_datalog.extract.lower_math import added, factor
from gg_datalog.extract.lower_movement import bounds, joined, need, sliced, step_of, surrounded
from gg_datalog.extract.lower_optimizer import squared
from gg_datalog.extract.lower_reduce import reduced
from gg_datalog.extract.notes import Padded
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.view import View


@lowers("aten.slice_backward")
def slice_backward(ctx: Context) -> Value:
    g, sizes = ctx.tensor("grad_output"), ctx.sizes("input_sizes")
    dim = ctx.dim(ctx.argument("dim"), len(sizes))
    extent, step = sizes[dim], step_of(ctx)
    start, size = bounds(ctx, extent, ctx.argument("start"), ctx.argument("end"))
    if g.shape[dim] != -(-size // step):
        raise ValueError(f"a gradient of {g.shape[dim]} positions for a slice of {size}")
    if step == 1 or g.shape[dim] == 1:
        return padded(ctx, g, dim, start, extent)
    if extent % step:
        raise Unsupported("a slice with a step that does not divide the dimension")
    column = padded(ctx, g.unsqueezed(dim + 1), dim + 1, start % step, step)
    whole = padded(ctx, column, dim, start // step, extent // step)
    return need(whole.reshaped(sizes))


@lowers("aten.select_backward")
def select_backward(ctx: Context) -> Value:
    g, sizes = ctx.tensor("grad_output"), ctx.sizes("input_sizes")
    dim = ctx.dim(ctx.argument("dim"), len(sizes))
    index = ctx.argument("index")
    if not isinstance(index, int) or not -sizes[dim] <= index < sizes[dim]:
        raise Unsupported("its index is not known")
    return padded(ctx, g.unsqueezed(dim), dim, index % sizes[dim], sizes[dim])


@lowers("aten.select_scatter")
def select_scatter(ctx: Context) -> Value:
    x, part = ctx.tensor("self"), ctx.operand("src")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    index, extent = ctx.argument("index"), x.shape[dim]
    if not isinstance(index, int) or not -extent <= index < extent:
        raise Unsupported("its index is not known")
    at = index % extent
    kept = [(0, at), (at + 1, extent - at - 1)]
    before, after = (sliced(ctx, x, dim, i, n) if n else None for i, n in kept)
    pieces = [before, part.unsqueezed(dim), after]
    return joined(ctx, [p for p in pieces if p is not None], dim)


def padded(ctx: Context, piece: View, dim: int, start: int, extent: int) -> View:
    """``piece`` at position ``start`` of a dimension, 0 around it."""
    if is_symbolic(extent):
        raise Unsupported("a slice of a size that depends on data")
    after = extent - start - piece.shape[dim]
    made = surrounded(ctx, piece, dim, start, after, scale(0))
    if (start or after) and piece.shape[dim] and made.scale == ONE:
        ctx.side.notes.padded[made.base] = Padded(piece, made.dims, dim, start)
    return made


@lowers("aten.index_add")
def index_add(ctx: Context) -> Value:
    x, ids, source = ctx.tensor("self"), ctx.tensor("index"), ctx.operand("source")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    by = factor(ctx, "alpha")
    return added(ctx, [(x, ONE), (rows_added(ctx, x, dim, ids, source), by)])


@lowers("aten.mse_loss")
def mse_loss(ctx: Context) -> Value:
    x, target = ctx.tensor("self"), ctx.tensor("target")
    if x.shape != target.shape:
        raise Unsupported("its operands are broadcast against each other")
    reduction = reduction_asked(ctx)
    square = squared(ctx, added(ctx, [(x, ONE), (target, scale(-1))]))
    if reduction == NONE:
        return square
    total = reduced(ctx, square, range(len(square.dims)), "sum", False)
    return total.scaled(count(prod(x.shape)).inverse()) if reduction == MEAN else total


@lowers("aten.mse_loss_backward")
def mse_loss_backward(ctx: Context) -> Value:
    g, x, y = ctx.tensor("grad_output"), ctx.tensor("self"), ctx.tensor("target")
    if x.shape != y.shape:  # a mean would be over the elements of the first
        raise Unsupported("its operands are broadcast against each other")
    reduction = reduction_asked(ctx)
    apart = added(ctx, [(x, scale(2)), (y, scale(-2))])
    made = ctx.elementwise("mul", [apart, g], linear=(0, 1))[0]
    elements = 1
    for extent in apart.shape:
        elements *= extent
    return made.scaled(count(elements).inverse()) if reduction == MEAN else made
