"""Softmax, its logarithm, and sums of exponentials under a logarithm.

They are lowered to what a rank that has some of the classes computes as well (as torch's
``loss_parallel`` does): maximum, exponentials, sum, logarithm.
"""

from __future__ import annotations

from gg_datalog.extract.context import Context, Unsupported, Value, lowers
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.exponents import (
    also_sum,
    collected,
    exponential,
    leaves,
    logarithm,
    over,
    softmax_form,
)
from gg_datalog.extract.lower_math import added
from gg_datalog.extract.lower_reduce import reduced, summand
from gg_datalog.extract.notes import Shifted
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.view import View

MINUS = scale(-1)


def shifted(ctx: Context, x: View, dims: list[int]) -> tuple[View, View, View]:
    """The maximum over ``dims``, what is left of ``x`` without it, and the logarithm of the sum of
    the exponentials of that."""
    high = reduced(ctx, x, dims, "max", True)
    low = added(ctx, [(x, ONE), (high, MINUS)])
    if len(dims) == 1:
        ctx.side.notes.lows.setdefault(x.base, Shifted(x, dims[0], low, high))
    total = reduced(ctx, exponential(ctx, low), dims, "sum", True)
    return high, low, logarithm(ctx, total)


@lowers("aten._log_softmax", "aten.log_softmax")
def log_softmax(ctx: Context) -> Value:
    x = summand(ctx, "self")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    ctx.raw("half_to_float")  # the dtype of the result says it
    if not x.dims:
        raise Unsupported("a softmax over no dimension")
    _, low, sum_ = shifted(ctx, x, [dim])
    made = added(ctx, [(low, ONE), (sum_, MINUS)])
    if terms := collected(ctx, leaves(ctx, made)):
        also_sum(ctx, made, terms)
    return made


@lowers("aten.logsumexp")
def logsumexp(ctx: Context) -> Value:
    x = summand(ctx, "self")
    if not is_float(ctx.dtype("self") or "float") or not x.dims:
        raise Unsupported("a sum of exponentials of integers, or over no dimension")
    dims = sorted(ctx.dims(len(x.dims), "dim"))
    made = logarithm(ctx, reduced(ctx, exponential(ctx, x), dims, "sum", True))
    high, _, rest = shifted(ctx, x, dims)
    if made.scale == ONE and made.base not in ctx.side.notes.stable:
        rows = [over(made, v) for v in (high, rest)]
        if all(r is not None for r in rows):
            ctx.side.notes.stable[made.base] = tuple(r for r in rows if r is not None)
            also_sum(ctx, made, [high, rest], known=False)
    if not ctx.argument("keepdim", default=False):
        for dim in reversed(dims):
            made = made.without(dim)
    return made


@lowers("aten.logaddexp")
def logaddexp(ctx: Context) -> Value:
    both = [ctx.operand("self"), ctx.operand("other")]
    if not is_float(ctx.node.dtype or "float"):
        raise Unsupported("a sum of exponentials of integers")
    return logarithm(ctx, added(ctx, [(exponential(ctx, x), ONE) for x in both]))


@lowers("aten._softmax", "aten.softmax", "aten._safe_softmax")
def softmax(ctx: Context) -> Value:
    x = summand(ctx, "self")
    if not is_float(ctx.node.dtype or "float"):
        raise Unsupported("a softmax that is no float")
    ctx.raw("half_to_float")  # the dtype of the result says it
    ctx.raw("dtype")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    name = "safe_softmax" if "_safe_softmax" in ctx.node.target else "softmax"
    made = ctx.elementwise(name, [x], whole=(dim,))[0]
    if not ctx.side.exponentials or not x.dims:
        return made
    low = logarithm(ctx, reduced(ctx, exponential(ctx, x), [dim], "sum", True))
    return softmax_form(ctx, made, x, low)


@lowers("aten._softmax_backward_data")
def softmax_backward(ctx: Context) -> Value:
    gradient, result = ctx.tensor("grad_output"), ctx.tensor("output")
    name = ctx.node.target.split(".")[1].lstrip("_")
    dim = ctx.dim(ctx.argument("dim"), len(gradient.dims))
    ctx.raw("input_dtype")  # the dtype of the result says it
    if not is_float(ctx.node.dtype or ""):
        raise Unsupported("a gradient that is no float")
    return ctx.elementwise(name, [gradient, result], whole=(dim,), linear=(0,))[0]
