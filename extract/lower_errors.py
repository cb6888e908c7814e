"""Losses element by element, of how far numbers are from their targets: less than squared where
that is far (smooth L1, Huber), and of probabilities."""

from __future__ import annotations

from math import prod

from gg_datalog.extract.context import Context, Unsupported, Value, count, lowers
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.lower_loss import MEAN, NONE, reduction_asked
from gg_datalog.extract.lower_math import added
from gg_datalog.extract.lower_reduce import reduced
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.view import View


def _both(ctx: Context) -> tuple[View, View]:
    """The numbers and their targets."""
    x, target = ctx.tensor("self"), ctx.tensor("target")
    if x.shape != target.shape or not all(
        is_float(ctx.dtype(name) or "float") for name in ("self", "target")
    ):
        raise Unsupported("its operands are broadcast against each other, or no floats")
    return x, target


def _apart(ctx: Context) -> View:
    x, target = _both(ctx)
    return added(ctx, [(x, ONE), (target, scale(-1))])


def _bend(ctx: Context) -> float:
    """Up to how far it is a square."""
    bend = ctx.argument("beta", "delta", default=1.0)
    if not isinstance(bend, (int, float)) or isinstance(bend, bool) or bend <= 0:
        raise Unsupported("up to how far it is a square is not known")
    return float(bend)


def _total(ctx: Context, each: View) -> View:
    """What is asked for of the loss of each element."""
    reduction = reduction_asked(ctx)
    if reduction == NONE:
        return each
    total = reduced(ctx, each, range(len(each.dims)), "sum", False)
    return total.scaled(count(prod(each.shape)).inverse()) if reduction == MEAN else total


def _share(ctx: Context, made: View) -> View:
    """The gradient of a mean."""
    if reduction_asked(ctx) != MEAN:
        return made
    return made.scaled(count(prod(made.shape)).inverse())


@lowers("aten.smooth_l1_loss")
def smooth_l1_loss(ctx: Context) -> Value:
    return _total(ctx, ctx.elementwise(f"smooth_l1(%, {_bend(ctx)!r})", [_apart(ctx)])[0])


@lowers("aten.huber_loss")
def huber_loss(ctx: Context) -> Value:
    by, made = ctx.scale(_bend(ctx)), smooth_l1_loss(ctx)
    return made.scaled(by) if isinstance(made, View) else made


@lowers("aten.smooth_l1_loss_backward")
def smooth_l1_loss_backward(ctx: Context) -> Value:
    slope = ctx.elementwise(f"smooth_l1_slope(%, {_bend(ctx)!r})", [_apart(ctx)])[0]
    both = [slope, ctx.tensor("grad_output")]
    return _share(ctx, ctx.elementwise("mul", both, linear=(0, 1))[0])


@lowers("aten.huber_loss_backward")
def huber_loss_backward(ctx: Context) -> Value:
    by, made = ctx.scale(_bend(ctx)), smooth_l1_loss_backward(ctx)
    return made.scaled(by) if isinstance(made, View) else made


@lowers("aten.binary_cross_entropy", "aten.binary_cross_entropy_with_logits")
def binary_cross_entropy(ctx: Context) -> Value:
    if any(ctx.argument(name) is not None for name in ("weight", "pos_weight")):
        raise Unsupported("a loss with weights")
    name = ctx.node.target.split(".")[1]
    return _total(ctx, ctx.elementwise(f"{name}(%, %)", list(_both(ctx)))[0])


@lowers("aten.binary_cross_entropy_backward")
def binary_cross_entropy_backward(ctx: Context) -> Value:
    if ctx.argument("weight") is not None:
        raise Unsupported("a loss with weights")
    operands = [ctx.tensor("grad_output"), *_both(ctx)]
    name = "binary_cross_entropy_backward(%, %, %)"
    return _share(ctx, ctx.elementwise(name, operands, linear=(0,))[0])
