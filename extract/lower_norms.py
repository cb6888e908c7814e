"""Norms by what they are made of: means and variances, which ranks may add up in parts.

A norm over channels (batch norm) is always told so. A layer norm is an operator of its own that
needs what it norms whole; it is told so, too, where the other program norms in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from gg_datalog.extract.context import Context, Unsupported, Value, count, lowers
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.exponents import over, wide
from gg_datalog.extract.lower_math import added
from gg_datalog.extract.lower_movement import beside
from gg_datalog.extract.lower_optimizer import squared
from gg_datalog.extract.lower_product import multiplied
from gg_datalog.extract.lower_reduce import reduced
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.view import View

MINUS = scale(-1)


class Moments(NamedTuple):
    """Mean and variance over some dimensions, kept with one position, and what is left without the
    mean."""

    mean: View
    spread: View
    apart: View


def moments(ctx: Context, x: View, dims: Sequence[int], less: int = 0) -> Moments:
    """The variance is the mean of squares of what is left, and that of all squares without the
    square of the mean."""
    many = prod(x.shape[i] for i in dims)
    if many <= less or not is_float(ctx.node.dtype or "float"):
        raise Unsupported("a variance of too few numbers, or of integers")
    mean = reduced(ctx, x, dims, "sum", True).scaled(count(many).inverse())
    apart = added(ctx, [(x, ONE), (mean, MINUS)])
    total = reduced(ctx, squared(ctx, apart), dims, "sum", True)
    squares = reduced(ctx, squared(ctx, x), dims, "sum", True)
    terms = [squares, squared(ctx, mean).scaled(count(many) * MINUS)]
    rows = [over(total, wide(t, total.shape).scaled(total.scale.inverse())) for t in terms]
    known = [row for row in rows if row is not None]
    if len(known) == len(rows):
        ctx.side.other_sum(total.base, known)
    return Moments(mean, total.scaled(count(many - less).inverse()), apart)


def variance_of(ctx: Context, x: View, dims: Sequence[int], less: float) -> View | None:
    """The variance over ``dims`` where it is to be told by its moments."""
    if not ctx.side.moments or less not in (0, 1):
        return None
    found = moments(ctx, x, dims, int(less)).spread
    for dim in sorted(dims, reverse=True):
        found = found.without(dim)
    return found


def _inverse_root(ctx: Context, spread: View) -> View:
    eps = ctx.number("eps")
    if eps is None:
        raise Unsupported("its epsilon is not known")
    above = added(ctx, [(spread, ONE), (ctx.side.constant(eps), ONE)])
    return ctx.elementwise("rsqrt(%)", [above])[0]


def _scaled(ctx: Context, x: View, trailing: int) -> View:
    """Weight and bias, which have dimensions in front of ``trailing`` ones."""
    for name in ("weight", "bias"):
        if ctx.argument(name) is not None:
            by = beside(ctx.tensor(name), trailing)
            x = multiplied(ctx, x, by) if name == "weight" else added(ctx, [(x, ONE), (by, ONE)])
    return x


# ---- over channels
BATCH = (
    "aten.native_batch_norm",
    "aten._native_batch_norm_legit",
    "aten._native_batch_norm_legit_no_training",
)


@lowers(*BATCH)
def batch_norm(ctx: Context) -> Value:
    x, training = ctx.operand("input"), bool(ctx.argument("training", default=False))
    ctx.raw("momentum")
    kept = [ctx.argument(name) for name in ("running_mean", "running_var")]
    if len(x.dims) < 2 or (training and any(k is not None for k in kept)):
        raise Unsupported("it moves statistics on")
    space = len(x.dims) - 2
    if training:
        mean, spread, apart = moments(ctx, x, [i for i in range(len(x.dims)) if i != 1])
    else:
        mean, spread = (beside(ctx.tensor(n), space) for n in ("running_mean", "running_var"))
        apart = added(ctx, [(x, ONE), (mean, MINUS)])
    root = _inverse_root(ctx, spread)
    out = _scaled(ctx, multiplied(ctx, apart, root), space)
    if not training:
        return out, None, None
    return out, _per_channel(mean), _per_channel(root)


def _per_channel(x: View) -> View:
    for dim in reversed(range(len(x.dims))):
        x = x if dim == 1 else x.without(dim)
    return x


@lowers("aten.native_batch_norm_backward")
def batch_norm_backward(ctx: Context) -> Value:
    g, x, wanted = ctx.operand("grad_out"), ctx.operand("input"), ctx.argument("output_mask")
    for name in ("running_mean", "running_var", "eps"):
        ctx.raw(name)
    if not ctx.argument("train") or not isinstance(wanted, tuple) or len(wanted) != 3:
        raise Unsupported("its statistics are not those of the batch")
    space, over_all = len(x.dims) - 2, [i for i in range(len(x.dims)) if i != 1]
    mean, root = (beside(ctx.tensor(n), space) for n in ("save_mean", "save_invstd"))
    many = count(prod(x.shape[i] for i in over_all)).inverse()
    apart = added(ctx, [(x, ONE), (mean, MINUS)])
    of_bias = reduced(ctx, g, over_all, "sum", True)
    together = reduced(ctx, multiplied(ctx, g, apart), over_all, "sum", True)
    by = multiplied(ctx, squared(ctx, root), together)
    rest = [(g, ONE), (of_bias, MINUS * many), (multiplied(ctx, apart, by), MINUS * many)]
    of_input = multiplied(ctx, added(ctx, rest), root)
    if ctx.argument("weight") is not None:
        of_input = multiplied(ctx, of_input, beside(ctx.tensor("weight"), space))
    found = (of_input, _per_channel(multiplied(ctx, together, root)), _per_channel(of_bias))
    return tuple(v if asked else None for v, asked in zip(found, wanted, strict=True))


# ---- over the last dimensions
LAYER = ("aten.native_layer_norm", "aten.layer_norm")


def spelled(ctx: Context, name: str, kernel: Value) -> Value:
    """The results of a kernel of the table; of a layer norm in plain operators, where the other
    program norms in another way."""
    if name not in LAYER or not ctx.side.moments:
        return kernel
    x = ctx.operand("input")
    last = len(ctx.sizes("normalized_shape"))
    mean, spread, apart = moments(ctx, x, range(len(x.dims) - last, len(x.dims)))
    root = _inverse_root(ctx, spread)
    out = _scaled(ctx, multiplied(ctx, apart, root), 0)
    ctx.side.alternative(out, kernel[0] if isinstance(kernel, tuple) else kernel)
    return (out, mean, root) if isinstance(kernel, tuple) else out
