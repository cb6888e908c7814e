"""Cross entropy: the loss over classes, its gradient and that of the logarithm of softmax.

They are lowered to what a rank that has some of the classes computes as well (as torch's
``loss_parallel`` does): sums, a lookup of the target, products with the one-hot targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gg_datalog.extract.context import Context, Unsupported, Value, lowers
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.exponent_rules import (
    exponential,
)
from gg_datalog.extract.exponents import (
    also_sum,
    collected,
    over,
    repeats,
    tidy,
    wide,
    written_terms,
)
from gg_datalog.extract.graph import Ref, is_symbolic
from gg_datalog.extract.late import also_divided
from gg_datalog.extract.lower_contract import contract
from gg_datalog.extract.lower_index import note_classes, one_hot
from gg_datalog.extract.lower_lookup import TAKEN, take
from gg_datalog.extract.lower_mask import inverted, masked
from gg_datalog.extract.lower_math import added, plain
from gg_datalog.extract.lower_movement import need, zeros_of
from gg_datalog.extract.lower_positions import never
from gg_datalog.extract.lower_product import multiplied
from gg_datalog.extract.lower_reduce import reduced
from gg_datalog.extract.quotients import divided
from gg_datalog.extract.scale import ONE, Scale, scale
from gg_datalog.extract.view import View

NONE, MEAN, SUM = 0, 1, 2  # torch's numbers for reductions of a loss
MINUS = scale(-1)


# ---- the gradient of the logarithm of softmax
@lowers("aten._log_softmax_backward_data")
def log_softmax_backward(ctx: Context) -> Value:
    """g - exp(out) * sum(g). Of the gradient of a chosen class the sum is known, and of one that is
    the same for all classes, so that a rank needs no other classes than its own: that is noted as
    another form."""
    gradient, out = ctx.tensor("grad_output"), ctx.tensor("output")
    dim = ctx.dim(ctx.argument("dim"), len(gradient.dims))
    ctx.raw("input_dtype")  # the dtype of the result says it
    if not is_float(ctx.node.dtype or ""):
        raise Unsupported("a gradient that is no float")
    name = "log_softmax_backward_data"
    made = ctx.elementwise(name, [gradient, out], whole=(dim,), linear=(0,))[0]
    parts = [per_row(ctx, t, dim) for t in written_terms(gradient)]
    if made.scale == ONE and parts and all(p is not None for p in parts):
        _by_rows(ctx, made, out, [p for p in parts if p is not None], gradient)
    return made


class Part(NamedTuple):
    """A gradient as ``factor``, which has one position of the classes, times a ``pattern`` over
    them (nothing: the same for all), of which the sum is ``total``. ``hidden`` is the pattern with
    0 in some rows where the factor is 0."""

    factor: View
    pattern: View | None
    total: Scale
    hidden: View | None = None


def per_row(ctx: Context, x: View, dim: int) -> Part | None:
    """A gradient as a factor per row times a pattern of which the sum over the classes is known."""
    note = ctx.side.notes.classes.get(x.base)
    if note is not None and (chosen := note.seen_as(x, dim)) is not None:
        factor, pattern, hidden = chosen
        return Part(factor, pattern, ONE, hidden)
    if not repeats(x.dims[dim]) or x.shape[dim] == 1:
        return None
    row = replace(x, dims=tuple(() if i == dim else d for i, d in enumerate(x.dims)))
    return Part(row, None, scale(x.shape[dim]))


def _by_rows(
    ctx: Context, made: View, out: View, parts: list[Part], gradient: View | None = None
) -> None:
    """Another form of a gradient of which every term is a factor per row times a pattern: the
    patterns less as many times exp(out), times the factor."""
    factors = {(p.factor.base, tidy(p.factor).dims) for p in parts}
    if len(factors) > 1:
        return
    power, shape, rows = exponential(ctx, out), made.shape, []
    ones = need(ctx.side.constant(ONE).expanded(shape))
    for part in parts:
        by = part.factor.scale
        rows += [(part.pattern or ones, by), (power, by * part.total * MINUS)]
    one = replace(parts[0].factor, scale=ONE)
    if ctx.side.is_one(one):
        found = collected(ctx, [v.scaled(by) for v, by in rows])
        if found:
            also_sum(ctx, made, found, known=False)
        if gradient is not None and ctx.side.exponentials:
            softmax = collected(ctx, [power.scaled(by) for _, by in rows[1::2]])
            _of_two(ctx, made, gradient, softmax)
        return
    if len(parts) == 1:  # the factor stays outside, where other forms find it
        ours = parts[0].factor.scaled(MINUS)
        apart = added(ctx, [(power, parts[0].total), (parts[0].pattern or ones, MINUS)])
        ctx.side.alternative(made, ctx.elementwise("mul", [apart, ours], linear=(0, 1))[0])
        if gradient is not None and ctx.side.exponentials:  # as it comes of each term of a loss
            softened = multiplied(ctx, power, one)
            softened = softened.scaled(parts[0].factor.scale * parts[0].total * MINUS)
            _of_two(ctx, made, gradient, [softened])
    else:
        apart = added(ctx, rows)
        ctx.side.alternative(made, ctx.elementwise("mul", [apart, one], linear=(0, 1))[0])
    if any(part.hidden is not None for part in parts):
        rest = [p._replace(pattern=p.hidden or p.pattern, hidden=None) for p in parts]
        _by_rows(ctx, made, out, rest)


def _of_two(ctx: Context, made: View, gradient: View, softmax: Sequence[View] | None) -> None:
    """Notes a gradient as that of the target's own score and that of the logarithm of the sum."""
    if not softmax:
        return
    terms = [gradient, *softmax]
    also_sum(ctx, made, terms, known=False)
    rows = [over(made, wide(term, made.shape)) for term in terms]
    found = [row.scaled(made.scale.inverse()) for row in rows if row is not None]
    if len(found) == len(rows):
        ctx.side.sum_of_multiples(made.base, found)


# ---- the loss over classes
def reduction_asked(ctx: Context) -> int:
    """What is made of the loss of each element; other numbers than torch's own are refused."""
    asked = ctx.argument("reduction", default=MEAN)
    if asked not in (NONE, MEAN, SUM):
        raise Unsupported(f"a reduction {asked}")
    return int(asked)


def loss_operands(ctx: Context) -> tuple[View, View, int, int]:
    """Scores, targets, the reduction and the ignored class."""
    x, target = ctx.tensor("self"), ctx.tensor("target")
    if ctx.argument("weight") is not None:
        raise Unsupported("a loss with weights per class")
    reduction = reduction_asked(ctx)
    ignored = ctx.argument("ignore_index", default=-100)
    if len(x.dims) != len(target.dims) + 1 or not target.dims or not isinstance(ignored, int):
        raise Unsupported("scores without a dimension of classes")
    classes = x.shape[1]
    if target.scale == ONE and target.base not in ctx.side.notes.ids and not is_symbolic(classes):
        ends = min(0, ignored), max(classes - 1, ignored)
        ctx.side.notes.ids[target.base] = ends
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


def none_ignored(ctx: Context, target: View, ignored: int, classes: int) -> bool:
    """May no target be the ignored one? Positions are other numbers. Else it is no class, no
    program has the number for anything else than its loss, the other side has no loss operator, so
    that it leaves none out, and it is not among the numbers that the programs were tried with."""
    told = ctx.side.told
    if never(ctx, target, ignored):
        return True
    if told is None or ignored in told or 0 <= ignored < classes:
        return False
    if any(low <= ignored <= high for low, high in ctx.side.samples):
        return False
    ctx.notes.assume(
        "targets",
        f"no target of the loss is {ignored}, which it would ignore: the other side does not",
    )
    return True


LOSSES = ("aten.nll_loss_forward", "aten.nll_loss2d_forward")


@lowers("aten.eq")
def equal(ctx: Context) -> Value:
    """Where targets are the ignored class: nowhere, if the loss may not ignore any."""
    number, of = ctx.raw("other"), ctx.raw("self")
    for user in ctx.graph.users.get(of.name, ()) if isinstance(of, Ref) else ():
        if not user.target.startswith(LOSSES) or user.bound.get("target") != of:
            continue
        scores = ctx.value(user.bound.get("self"))
        asked = type(number) is int and user.bound.get("ignore_index") == number
        target = ctx.tensor("self")
        if (
            asked
            and isinstance(scores, View)
            and none_ignored(ctx, target, number, scores.shape[1])
        ):
            return zeros_of(ctx, target.shape)
    return plain(ctx)


@lowers("aten.nll_loss_forward", "aten.nll_loss2d_forward")
def nll_loss(ctx: Context) -> Value:
    x, target, reduction, ignored = loss_operands(ctx)
    letters = [f"t{i}" for i in range(len(target.dims))]
    if none_ignored(ctx, target, ignored, x.shape[1]):
        each = take(ctx, x, with_classes(letters), target, letters, letters).scaled(MINUS)
        kept = need(ctx.side.constant(ONE).expanded(target.shape))
    else:
        ids, kept, gone = targets(ctx, target, ignored)
        each = take(ctx, x, with_classes(letters), ids, letters, letters)
        each = masked(ctx, each.scaled(MINUS), gone, scale(0))
    if reduction == NONE:
        return (each, ctx.side.constant(scale(0)))
    total, many = (reduced(ctx, v, range(len(letters)), "sum", False) for v in (each, kept))
    return (averaged(ctx, total, many) if reduction == MEAN else total, many)


def averaged(ctx: Context, total: View, many: View) -> View:
    """A sum over so many elements, divided by their number."""
    by = ctx.as_number(many)
    if by is not None and not by.zero:
        return total.scaled(by.inverse())
    return divided(ctx, total, many)


@lowers("aten.nll_loss_backward", "aten.nll_loss2d_backward")
def nll_loss_backward(ctx: Context) -> Value:
    g, count = ctx.tensor("grad_output"), ctx.tensor("total_weight")
    x, target, reduction, ignored = loss_operands(ctx)
    if reduction != MEAN:
        return _onto_scores(ctx, g, x, target, ignored)
    made = _onto_scores(ctx, averaged(ctx, g, count), x, target, ignored)
    if ctx.side.late and ctx.as_number(count) is None:
        also_divided(ctx, made, _onto_scores(ctx, g, x, target, ignored), count)
    return made


def _onto_scores(ctx: Context, g: View, x: View, target: View, ignored: int) -> View:
    """The gradient of the chosen scores, added up or not."""
    if none_ignored(ctx, target, ignored, x.shape[1]):
        ids, gone, by = target, None, need(g.expanded(target.shape))
    else:
        ids, _, gone = targets(ctx, target, ignored)
        by = masked(ctx, g, gone, scale(0))
    letters = [f"t{i}" for i in range(len(ids.dims))]
    hot = one_hot(ctx, ids, letters, x.shape[1])
    hidden = None if gone is None else one_hot(ctx, ids, letters, x.shape[1], gone)
    order = [0, len(letters), *range(1, len(letters))]
    out = with_classes(letters)
    made = contract(ctx, by, letters, hot.permuted(order), out, out)
    note_classes(ctx, made, by, letters, hot, letters, out, hidden)
    if hidden is not None:
        again = contract(ctx, by, letters, hidden.permuted(order), out, out)
        ctx.side.alternative(made, again)
    return made.scaled(MINUS)
