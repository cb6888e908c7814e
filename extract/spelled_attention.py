"""Attention kernels in plain operators: scores, what a mask hides of them, softmax, values.

So a kernel is what another program does by hand, or in parts: blocks of keys that are merged by the
logarithms of their sums, a prefix of the keys instead of a causal mask, gradients of one block with
the statistics of all.
"""

from __future__ import annotations

from typing import NamedTuple

from gg_datalog.extract.context import Context, Unsupported
from gg_datalog.extract.exponent_rules import exponential, logarithm, softmax_form
from gg_datalog.extract.exponents import is_real
from gg_datalog.extract.lower_contract import contract
from gg_datalog.extract.lower_mask import diagonal, inverted, masked_infinite, operands_of
from gg_datalog.extract.lower_math import added
from gg_datalog.extract.lower_movement import need
from gg_datalog.extract.lower_product import multiplied
from gg_datalog.extract.lower_reduce import reduced
from gg_datalog.extract.notes import Cleared
from gg_datalog.extract.records import Operator
from gg_datalog.extract.scale import ONE, Scale, scale
from gg_datalog.extract.view import View

MINUS = scale(-1)
LOW = -float("inf")
QUERY, KEY, SCORES = tuple("bkgsd"), tuple("bktd"), tuple("bkgst")


class Asked(NamedTuple):
    """What a kernel is given: query [b, k, g, s, d], of ``g`` heads for each of the key and value,
    [b, k, t, d] both; what scores are multiplied with; a mask, of truths that keep or to be added.
    """

    query: View
    key: View
    value: View
    by: Scale
    causal: bool
    mask: View | None
    truths: bool


def grouped(query: View, heads: int) -> View:
    """A tensor per query head with a dimension of its own for the heads of each key."""
    batch, all_heads, *rest = query.shape
    return need(query.reshaped([batch, heads, all_heads // heads, *rest]))


def forward(ctx: Context, of: Asked) -> tuple[View, View]:
    """What attention gives, and the logarithms of the sums that it divides by."""
    scores = _scores(ctx, of)
    low = logarithm(ctx, reduced(ctx, exponential(ctx, scores), [4], "sum", True))
    _need_finite(ctx, low)
    made = ctx.elementwise("softmax", [scores], whole=(4,))[0]
    weights = softmax_form(ctx, made, scores, low)
    out = contract(ctx, weights, SCORES, of.value, tuple("bkte"), tuple("bkgse"))
    return _ungrouped(out), _ungrouped(low.without(4))


def gradients(
    ctx: Context, of: Asked, gradient: View, out: View, low: View
) -> tuple[View, View, View]:
    """The gradients of query, key and value, with what the forward pass gave of all keys."""
    _need_finite(ctx, low)
    scores = _scores(ctx, of)
    weights = exponential(ctx, added(ctx, [(scores, ONE), (low.unsqueezed(4), MINUS)]))
    of_value = contract(ctx, weights, SCORES, gradient, tuple("bkgse"), tuple("bkte"))
    of_weights = contract(ctx, gradient, tuple("bkgse"), of.value, tuple("bkte"), SCORES)
    inner = reduced(ctx, multiplied(ctx, gradient, out), [4], "sum", True)
    of_scores = multiplied(ctx, weights, added(ctx, [(of_weights, ONE), (inner, MINUS)]))
    of_query = contract(ctx, of_scores, SCORES, of.key, KEY, QUERY).scaled(of.by)
    of_key = contract(ctx, of_scores, SCORES, of.query, QUERY, KEY).scaled(of.by)
    return _ungrouped(of_query), of_key, of_value


def _need_finite(ctx: Context, low: View) -> None:
    """A kernel gives other numbers than its formula in rows that a mask hides entirely."""
    if not is_real(ctx, low.base):
        raise Unsupported("rows of which nothing may be left")


def _ungrouped(x: View) -> View:
    batch, heads, groups, *rest = x.shape
    return need(x.reshaped([batch, heads * groups, *rest]))


def _scores(ctx: Context, of: Asked) -> View:
    """The scores, -inf where a mask hides them."""
    scores = contract(ctx, of.query, QUERY, of.key, KEY, SCORES).scaled(of.by)
    if of.causal and scores.shape[4] > 1:
        hidden = diagonal(ctx, scores.shape[3], scores.shape[4], upper=True, by=1)
        scores = masked_infinite(ctx, scores, hidden, LOW)
    if of.mask is None:
        return scores
    mask = _over_groups(of.mask, of.key.shape[1])
    if of.truths:
        return masked_infinite(ctx, scores, inverted(ctx, mask), LOW)
    hidden_by = _hiding(ctx, mask)
    if hidden_by is not None:
        return masked_infinite(ctx, scores, hidden_by, LOW)
    return added(ctx, [(scores, ONE), (mask, ONE)])


def _over_groups(mask: View, heads: int) -> View:
    """A mask with a dimension for the groups of heads, where it has one for heads."""
    if len(mask.dims) < 3:
        return mask
    own = mask.shape[-3]
    return mask.unsqueezed(len(mask.dims) - 2) if own == 1 else need(_split(mask, heads))


def _split(mask: View, heads: int) -> View | None:
    *batch, own, rows, columns = mask.shape
    return mask.reshaped([*batch, heads, own // heads, rows, columns])


def _hiding(ctx: Context, mask: View) -> View | None:
    """What a mask of 0 and -inf hides."""
    made = mask.base.made
    filled = isinstance(made, Operator) and made.signature == f"masked_fill({LOW})"
    found = operands_of(mask.base) if filled else None
    seen = None if found is None else Cleared(*found).seen_as(mask)
    return seen[1] if seen is not None and ctx.side.is_zero(seen[0]) else None
