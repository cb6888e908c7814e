"""Cross entropy: the logarithm of softmax, the loss over classes, and their gradients.

They are lowered to what a rank that has some of the classes computes as well (as torch's
``loss_parallel`` does): sums, a lookup of the target, products with the one-hot targets.
"""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.extract.context import Context, Unsupported, Value, lowers
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.lower_contract import contract
from gg_datalog.extract.lower_index import one_hot
from gg_datalog.extract.lower_lookup import TAKEN, take
from gg_datalog.extract.lower_mask import inverted, masked
from gg_datalog.extract.lower_math import added
from gg_datalog.extract.lower_reduce import reduced, summand
from gg_datalog.extract.notes import Classes
from gg_datalog.extract.quotients import divided
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.view import View

MEAN, SUM = 1, 2  # torch's numbers for reductions of a loss; 0 is none
MINUS = scale(-1)
EXTREMA = ((0, "max"), (0, "min"))  # what a function that never falls lets pass


# ---- the logarithm of softmax
def exponential(ctx: Context, x: View) -> View:
    """exp(x), as the operator table has it."""
    return ctx.elementwise("exp(%)", [x], passes=EXTREMA)[0]


@lowers("aten._log_softmax", "aten.log_softmax")
def log_softmax(ctx: Context) -> Value:
    x = summand(ctx, "self")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    ctx.raw("half_to_float")  # the dtype of the result says it
    if not x.dims:
        raise Unsupported("a softmax over no dimension")
    low = added(ctx, [(x, ONE), (reduced(ctx, x, [dim], "max", True), MINUS)])
    total = reduced(ctx, exponential(ctx, low), [dim], "sum", True)
    return added(ctx, [(low, ONE), (ctx.elementwise("log(%)", [total], passes=EXTREMA)[0], MINUS)])


@lowers("aten._log_softmax_backward_data")
def log_softmax_backward(ctx: Context) -> Value:
    """g - exp(out) * sum(g). Of the gradient of a chosen class the sum is known, so that a rank
    needs no other classes than its own: that is noted as another form."""
    gradient, out = ctx.tensor("grad_output"), ctx.tensor("output")
    dim = ctx.dim(ctx.argument("dim"), len(gradient.dims))
    ctx.raw("input_dtype")  # the dtype of the result says it
    if not is_float(ctx.node.dtype or ""):
        raise Unsupported("a gradient that is no float")
    name = "log_softmax_backward_data"
    made = ctx.elementwise(name, [gradient, out], whole=(dim,), linear=(0,))[0]
    note = ctx.side.notes.classes.get(gradient.base)
    if note is not None and (chosen := note.seen_as(gradient, dim)) is not None:
        apart = added(ctx, [(exponential(ctx, out), ONE), (chosen[1], MINUS)])
        back = chosen[0].scaled(MINUS)
        ctx.side.alternative(made, ctx.elementwise("mul", [apart, back], linear=(0, 1))[0])
    return made


# ---- the loss over classes
def loss_operands(ctx: Context) -> tuple[View, View, int, int]:
    """Scores, targets, the reduction and the ignored class."""
    x, target = ctx.tensor("self"), ctx.tensor("target")
    if ctx.argument("weight") is not None:
        raise Unsupported("a loss with weights per class")
    reduction = ctx.argument("reduction", default=MEAN)
    ignored = ctx.argument("ignore_index", default=-100)
    if len(x.dims) != len(target.dims) + 1 or not target.dims or not isinstance(ignored, int):
        raise Unsupported("scores without a dimension of classes")
    return x, target, reduction, ignored


def with_classes(letters: Sequence[str]) -> list[str]:
    """Letters of scores, whose classes come second, from those of the targets."""
    return [letters[0], TAKEN, *letters[1:]]


def targets(ctx: Context, target: View, ignored: int) -> tuple[View, View, View]:
    """The targets with 0 in place of ignored ones, so that all of them are classes; where they
    are not ignored, and where they are."""
    kept = ctx.elementwise(f"ne(%, {ignored})", [target])[0]
    ctx.side.notes.truths.add(kept.base)
    gone = inverted(ctx, kept)
    return masked(ctx, target, gone, scale(0)), kept, gone


@lowers("aten.nll_loss_forward", "aten.nll_loss2d_forward")
def nll_loss(ctx: Context) -> Value:
    x, target, reduction, ignored = loss_operands(ctx)
    ids, kept, gone = targets(ctx, target, ignored)
    letters = [f"t{i}" for i in range(len(ids.dims))]
    each = take(ctx, x, with_classes(letters), ids, letters, letters)
    each = masked(ctx, each.scaled(MINUS), gone, scale(0))
    if reduction not in (MEAN, SUM):
        return (each, ctx.side.constant(scale(0)))
    total, many = (reduced(ctx, v, range(len(letters)), "sum", False) for v in (each, kept))
    if reduction == MEAN:
        total = ctx.elementwise("div", [total, many], linear=(0,))[0]
    return (total, many)


@lowers("aten.nll_loss_backward", "aten.nll_loss2d_backward")
def nll_loss_backward(ctx: Context) -> Value:
    g = ctx.tensor("grad_output")
    x, target, reduction, ignored = loss_operands(ctx)
    ids, _, gone = targets(ctx, target, ignored)
    count = ctx.tensor("total_weight")
    if reduction == MEAN:
        g = divided(ctx, g, count)
    by = masked(ctx, g, gone, scale(0))
    letters = [f"t{i}" for i in range(len(ids.dims))]
    hot = one_hot(ctx, ids, letters, x.shape[1])
    hot = hot.permuted([0, len(letters), *range(1, len(letters))])
    made = contract(ctx, by, letters, hot, with_classes(letters), with_classes(letters))
    ctx.side.notes.classes[made.base] = Classes(made.dims, by.scaled(made.scale.inverse()), hot)
    return made.scaled(MINUS)
