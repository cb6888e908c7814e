"""Sigmoid as the share that one of two sums of exponentials has of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gg_datalog.extract.context import Context
from gg_datalog.extract.exponent_rules import logarithm, of_sum, product
from gg_datalog.extract.exponents import (
    MINUS,
    also_sum,
    collected,
    is_real,
    leaves,
    noted,
    over,
    power,
    tidy,
    total_of,
    wide,
    written_terms,
)
from gg_datalog.extract.notes import Share, Weighted
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.view import View, compose


def share(ctx: Context, made: View, x: View) -> View:
    """``made``, which is sigmoid(x): of log(a) - log(b) it is a / (a + b)."""
    terms = _log_ratio(ctx, x)
    if terms is None:
        return made
    one, _, both = terms
    found = [over(made, wide(t, made.shape)) for t in terms]
    if all(f is not None for f in found):
        notes = [f for f in found if f is not None]
        ctx.side.notes.shares.setdefault(made.base, Share(*notes))
    return noted(ctx, made, Weighted(None, (one, both.scaled(MINUS))))


def log_share(ctx: Context, made: View, x: View) -> View:
    """``made``, which is the logarithm of sigmoid(x)."""
    terms = _log_ratio(ctx, x)
    if terms is not None and made.base not in ctx.side.notes.summed:
        also_sum(ctx, made, [terms[0], terms[2].scaled(MINUS)])
    return made


def _log_ratio(ctx: Context, x: View) -> tuple[View, View, View] | None:
    """log(a), log(b) and log(a + b) of positive tensors, where ``x`` is log(a) - log(b)."""
    terms = collected(ctx, leaves(ctx, x)) or ()
    logs = ctx.side.notes.logarithms
    if len(terms) != 2 or {t.scale for t in terms} != {ONE, MINUS}:
        return None
    if any(t.base not in logs or not is_real(ctx, t.base) for t in terms):
        return None
    one, other = (replace(t, scale=ONE) for t in sorted(terms, key=lambda t: t.scale != ONE))
    parts = [power(ctx, [t], x.shape) for t in (one, other)]
    total = of_sum(ctx, total_of(ctx, parts, x.shape), parts)
    return one, other, logarithm(ctx, total)


def interpolated(ctx: Context, terms: Sequence[View]) -> list[View] | None:
    """``x + c * share * (y - x / c)`` as ``x * (1 - share) + c * share * y``, in which every term
    has one form; None where the terms are no such."""
    for at, term in enumerate(terms):
        note = ctx.side.notes.shared.get(term.base)
        if note is None:
            continue
        part, of = (compose(term, v.dims, v.base, v.scale) for v in note)
        if part is None or of is None or (known := ctx.side.notes.shares.get(part.base)) is None:
            continue
        rest = [(i, x) for i, x in enumerate(terms) if i != at]
        apart = written_terms(tidy(of))
        for i, x in rest:
            gone = [t for t in apart if tidy(t.scaled(MINUS)) == tidy(x)]
            if gone:
                plain = View(part.base, part.dims)
                seen = [compose(plain, v.dims, v.base, v.scale) for v in known]
                others = [v for v in apart if v is not gone[0]]
                if any(v is None for v in seen):
                    break
                other, both = (v for v in seen[1:] if v is not None)
                less = power(ctx, [other, both.scaled(MINUS)], part.shape)
                less = noted(ctx, less, Weighted(None, (other, both.scaled(MINUS))))
                found = [_product(ctx, less, x)]
                found += [_product(ctx, replace(part, scale=ONE), v) for v in others]
                return [*found, *(v for j, v in rest if j != i)]
    return None


def _product(ctx: Context, a: View, b: View) -> View:
    by = a.scale * b.scale
    both = [replace(a, scale=ONE), replace(b, scale=ONE)]
    return product(ctx, ctx.elementwise("mul", both, linear=(0, 1))[0], *both).scaled(by)
