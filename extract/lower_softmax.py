"""Softmax, its logarithm, and sums of exponentials under a logarithm.

They are lowered to what a rank that has some of the classes computes as well (as torch's
``loss_parallel`` does): maximum, exponentials, sum, logarithm.
"""

from __future__ import annotations

from gg_datalog.extract.context import Context, Unsupported, Value, lowers, result_shapes
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.exponent_rules import (
    exponential,
    logarithm,
    powered,
    softmax_form,
)
from gg_datalog.extract.exponent_shares import (
    log_share,
    share,
)
from gg_datalog.extract.exponents import (
    EXTREMA,
    also_sum,
    collected,
    is_real,
    leaves,
    over,
    repeats,
)
from gg_datalog.extract.lower_contract import contract
from gg_datalog.extract.lower_mask import operands_of
from gg_datalog.extract.lower_math import added, is_bottomless, plain
from gg_datalog.extract.lower_movement import stretched, zeros_of
from gg_datalog.extract.lower_product import multiplied
from gg_datalog.extract.lower_reduce import members, reduced, summand
from gg_datalog.extract.notes import Cleared, Shifted
from gg_datalog.extract.records import DigitMap, Label, Operator
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.side import _as_term
from gg_datalog.extract.stacks import members_of, stacked
from gg_datalog.extract.view import View, compose

MINUS = scale(-1)
HIDDEN = "masked_fill(-inf)"


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
    sums = [
        reduced(ctx, exponential(ctx, part), dims, "sum", True) for part in members(ctx, x, dims)
    ]
    made = logarithm(ctx, added(ctx, [(one, ONE) for one in sums]))
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
    made = logarithm(ctx, added(ctx, [(exponential(ctx, x), ONE) for x in both]))
    if isinstance(one := plain(ctx), View):
        ctx.side.alternative(made, one)  # as it is it lets maxima pass
    return made


@lowers("aten.exp")
def exp(ctx: Context) -> Value:
    if is_bottomless(ctx.tensor("self")):
        return zeros_of(ctx, ctx.tensor("self").shape)
    if stacked(ctx.side, ctx.tensor("self")) is not None:
        return exponential(ctx, ctx.operand("self"))
    out = plain(ctx)
    if not isinstance(out, View):
        return out
    also_cleared(ctx, out, "exp(%)")
    return powered(ctx, out, ctx.operand("self"))


@lowers("aten.sigmoid")
def sigmoid(ctx: Context) -> Value:
    out = plain(ctx)
    if not isinstance(out, View) or not is_float(ctx.dtype("self") or "float"):
        return out
    also_cleared(ctx, out, "sigmoid(%)")
    return share(ctx, out, ctx.operand("self"))


def also_cleared(ctx: Context, made: View, signature: str) -> None:
    """Notes that an exponential, or a sigmoid, of what a mask hides with -inf is 0 there."""
    x = ctx.operand("self")
    of = x.base.made
    found = operands_of(x.base) if isinstance(of, Operator) and of.signature == HIDDEN else None
    seen = None if found is None else Cleared(*found).seen_as(x)
    if seen is None or x.scale.atoms or x.scale.ratio <= 0:
        return
    kept = ctx.elementwise(signature, [seen[0]], passes=EXTREMA)[0]
    views = [stretched(v, made.shape) for v in (kept, seen[1])]
    ctx.side.alternative(made, ctx.elementwise("masked_fill(0)", views, linear=(0,))[0])


@lowers("aten.log_sigmoid_backward")
def log_sigmoid_backward(ctx: Context) -> Value:
    """The gradient times the sigmoid of -x. What the forward pass kept is, if anything, a function
    of x."""
    gradient, x, kept = ctx.operand("grad_output"), ctx.operand("self"), ctx.tensor("buffer")
    views = [gradient, x, *([kept] if kept.shape == x.shape else [])]
    return ctx.elementwise("log_sigmoid_backward", views, linear=(0,))[0]


@lowers("aten.log_sigmoid_forward")
def log_sigmoid(ctx: Context) -> Value:
    x = ctx.operand("self")
    out = ctx.elementwise("log_sigmoid(%)", [x], passes=EXTREMA)[0]
    shapes = result_shapes(ctx, ctx.node)
    buffer = None  # what the gradient reads; some devices have none
    if len(shapes) > 1 and shapes[1] == x.shape:
        buffer = ctx.elementwise("log_sigmoid_buffer(%)", [x])[0]
    return (log_share(ctx, out, x), buffer)


@lowers("aten._softmax", "aten.softmax", "aten._safe_softmax")
def softmax(ctx: Context) -> Value:
    x = summand(ctx, "self")
    if not is_float(ctx.node.dtype or "float"):
        raise Unsupported("a softmax that is no float")
    ctx.raw("half_to_float")  # the dtype of the result says it
    ctx.raw("dtype")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    safe = "_safe_softmax" in ctx.node.target  # 0 in rows of -inf alone
    if not safe and (parts := members_of(ctx.side, x, [dim])) is not None:
        return _of_members(ctx, x, parts)
    made = ctx.elementwise("safe_softmax" if safe else "softmax", [x], whole=(dim,))[0]
    if not ctx.side.exponentials or not x.dims or (safe and not is_real(ctx, x.base)):
        return made
    low = logarithm(ctx, reduced(ctx, exponential(ctx, x), [dim], "sum", True))
    return softmax_form(ctx, made, x, low)


def _of_members(ctx: Context, x: View, parts: list[View]) -> View:
    """The softmax over a stack: of each member its share of the sum of all exponentials."""
    total = added(ctx, [(exponential(ctx, part), ONE) for part in parts])
    low = stretched(logarithm(ctx, total), x.shape)
    return exponential(ctx, added(ctx, [(x, ONE), (low, MINUS)]))


@lowers("aten._softmax_backward_data")
def softmax_backward(ctx: Context) -> Value:
    gradient, result = ctx.tensor("grad_output"), ctx.tensor("output")
    name = ctx.node.target.split(".")[1].lstrip("_")
    dim = ctx.dim(ctx.argument("dim"), len(gradient.dims))
    ctx.raw("input_dtype")  # the dtype of the result says it
    if not is_float(ctx.node.dtype or ""):
        raise Unsupported("a gradient that is no float")
    made = ctx.elementwise(name, [gradient, result], whole=(dim,), linear=(0,))[0]
    if ctx.side.exponentials and made.scale == ONE:
        for inner in (
            _by_columns(ctx, gradient, result, dim),
            _by_output(ctx, gradient, result, dim),
        ):
            if inner is not None:
                apart = added(ctx, [(gradient, ONE), (inner, MINUS)])
                ctx.side.alternative(made, multiplied(ctx, result, apart))
    return made


# ---- the gradient of a softmax: result * (gradient - what both give together in a row)
def _by_columns(ctx: Context, gradient: View, result: View, dim: int) -> View:
    """The product of both, added up over the columns."""
    return reduced(ctx, multiplied(ctx, gradient, result), [dim], "sum", True)


def _by_output(ctx: Context, gradient: View, result: View, dim: int) -> View | None:
    """The same where the gradient is a product of matrices ``a`` and ``b``, of which ``b`` has the
    columns: ``sum_j (sum_d a_d b_jd) r_j = sum_d a_d (sum_j r_j b_jd)``, the gradient of what the
    softmax was multiplied with times that, so that no rank needs all columns."""
    record, digits = gradient.base.made, gradient.dims[dim]
    weights = over(gradient, result)
    plain = isinstance(record, Operator) and record.signature == "contract" and len(digits) == 1
    if not plain or not isinstance(record, Operator) or weights is None:
        return None
    rows = [str(k) for k in record.gives[0][1]]
    if digits[0].extent != gradient.base.shape[digits[0].dim]:
        return None
    column = rows[digits[0].dim]
    operands = [
        _lettered(v, m, record.labels) for v, m in zip(record.operands, record.maps, strict=True)
    ]
    with_columns = [column in letters for _, letters in operands]
    if with_columns not in ([True, False], [False, True]):
        return None
    (b, lb), (a, la) = operands if with_columns[0] else operands[::-1]
    kept = [n for n in dict.fromkeys([*rows, *lb]) if n != column]
    out = contract(ctx, weights, rows, b, lb, kept)
    if set(kept) != set(la):
        return None
    each = multiplied(ctx, a, out.permuted([kept.index(n) for n in la]))
    gone = [i for i, n in enumerate(la) if n not in rows]
    total = reduced(ctx, each, gone, "sum", False)
    left = [n for n in la if n in rows]
    order = [left.index(n) for n in rows if n != column]
    inner = total.permuted(order).unsqueezed(rows.index(column))
    wide = inner.expanded(gradient.base.shape)
    # (a view composes scales: that of the gradient comes in here)
    return None if wide is None else compose(gradient, wide.dims, wide.base, wide.scale)


def _lettered(x: View, digits: DigitMap, labels: tuple[Label, ...]) -> tuple[View, list[str]]:
    """An operand with a dimension, and a letter, per label that it carries."""
    term = _as_term(x, digits, labels)
    kept = [i for i, dim in enumerate(term.dims) if not repeats(dim)]
    return View(x.base, tuple(term.dims[i] for i in kept), x.scale), [str(i) for i in kept]
