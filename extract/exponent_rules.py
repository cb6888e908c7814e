"""Operators that keep a product with exponentials in its form (:mod:`.exponents`): exponentials and
logarithms, products and quotients, sums, and what is added up along dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from gg_datalog.extract.context import Context
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.exponents import (
    EXTREMA,
    MINUS,
    also_sum,
    collected,
    is_finite,
    is_real,
    is_weighted,
    learn_positive,
    leaves,
    noted,
    over,
    power,
    repeats,
    tidy,
    total_of,
    weighted,
    wide,
    written,
    written_terms,
)
from gg_datalog.extract.notes import Shared, Weighted
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.stacks import by_member
from gg_datalog.extract.view import Digit, View


def exponential(ctx: Context, x: View) -> View:
    """exp(x), as the operator table has it."""
    stack = by_member(ctx.side, [x], lambda row: [exponential(ctx, row[0])])
    if stack is not None:
        return stack[0]
    made = ctx.elementwise("exp(%)", [x], passes=EXTREMA)[0]
    return powered(ctx, made, x)


def powered(ctx: Context, made: View, x: View) -> View:
    """``made``, which is exp(x)."""
    if not is_float(ctx.node.dtype or "float"):
        return made
    if is_finite(ctx, x.base):
        ctx.side.notes.positive.add(made.base)
    terms = collected(ctx, leaves(ctx, x))
    if not terms:
        return made
    if len(terms) == 1 and terms[0].scale == ONE and terms[0].base in ctx.side.notes.logarithms:
        return power(ctx, terms, made.shape)
    return noted(ctx, made, Weighted(None, terms))


def logarithm(ctx: Context, x: View) -> View:
    """log(x), as the operator table has it."""
    stack = by_member(ctx.side, [x], lambda row: [logarithm(ctx, row[0])])
    if stack is not None:
        return stack[0]
    made = ctx.elementwise("log(%)", [x], passes=EXTREMA)[0]
    return of_logarithm(ctx, made, x)


def of_logarithm(ctx: Context, made: View, x: View) -> View:
    """``made``, which is log(x): of a product with an exponential a sum."""
    notes, form = ctx.side.notes, weighted(ctx, x)
    if form.by != ONE:
        return made
    if not form.terms and form.core is not None:
        core = over(made, form.core)
        if x.base in notes.positive and core is not None:
            notes.logarithms.setdefault(made.base, core)
        return made
    terms = list(form.terms)
    if form.core is not None:
        if form.core.base not in notes.positive:
            return made
        terms.append(wide(logarithm(ctx, form.core), made.shape))
    rows = collected(ctx, terms)
    if rows and not notes.summed.get(made.base):
        also_sum(ctx, made, rows)
    return made


def product(ctx: Context, made: View, a: View, b: View) -> View:
    """``made``, which is a * b."""
    learn_positive(ctx, made, a, b)
    if not is_weighted(ctx, a, b):
        return made
    note_shared(ctx, made, a, b)
    one, two = weighted(ctx, a), weighted(ctx, b)
    shape = made.shape
    terms = collected(ctx, [wide(t, shape) for t in (*one.terms, *two.terms)])
    if terms is None:
        return made
    core = _times(ctx, one.core, two.core)
    form = Weighted(core, terms, one.by * two.by)
    if ctx.side.name == "dist" and terms and core is not None:
        _term_by_term(ctx, made, core, form)
    return noted(ctx, made, form)


MOST = 4  # terms of a factor


def _term_by_term(ctx: Context, made: View, core: View, form: Weighted) -> None:
    """Notes an exponential times a sum per row (of the gradients of several losses) as the sum of
    the products with each: another program may have added them up after."""
    wide_core = wide(core, made.shape)
    apart = written_terms(wide_core, deep=False)
    alike = [e > 1 and repeats(d) for d, e in zip(wide_core.dims, made.shape, strict=True)]
    if not 2 <= len(apart) <= MOST or not any(alike):
        return
    by = power(ctx, form.terms, made.shape)
    rows = []
    for term in apart:
        one = replace(term, scale=ONE)
        product_of = (
            by if ctx.side.is_one(term) else ctx.elementwise("mul", [one, by], linear=(0, 1))[0]
        )
        rows.append(over(made, product_of.scaled(term.scale * form.by * made.scale.inverse())))
    found = [row for row in rows if row is not None]
    if len(found) == len(rows):
        ctx.side.sum_of_multiples(made.base, found)


def _times(ctx: Context, a: View | None, b: View | None) -> View | None:
    if a is None or b is None:
        return b if a is None else a
    made = ctx.elementwise("mul", [a, b], linear=(0, 1))[0]
    learn_positive(ctx, made, a, b)
    return made


def quotient(ctx: Context, made: View, a: View, b: View) -> View:
    """``made``, which is a / b."""
    learn_positive(ctx, made, a, b)
    if not is_weighted(ctx, a, b) and b.base not in ctx.side.notes.positive:
        return made
    one, two = weighted(ctx, a), weighted(ctx, b)
    shape, core = made.shape, one.core
    below = list(two.terms)
    if two.core is not None and two.core.base in ctx.side.notes.positive:
        below.append(logarithm(ctx, two.core))
    elif two.core is not None:
        if core is None:
            return made
        core = ctx.elementwise("div", [core, two.core], linear=(0,))[0]
    minus = [wide(t, shape).scaled(MINUS) for t in below]
    terms = collected(ctx, [*(wide(t, shape) for t in one.terms), *minus])
    if terms is None:
        return made
    if terms and core is not None and ctx.side.is_one(core):
        core = None  # a number by something: it is in ``by``
    return noted(ctx, made, Weighted(core, terms, one.by * two.by.inverse()))


def of_sum(ctx: Context, made: View, terms: Sequence[View]) -> View:
    """``made``, which is the sum of terms: what all of them are multiplied by comes out."""
    learn_positive(ctx, made, *terms)
    if made.base in ctx.side.notes.positive:
        _flattened(ctx, made, terms)
    if not all(is_weighted(ctx, t) for t in terms) or len(terms) < 2:
        return made
    shape = made.shape
    forms = [weighted(ctx, t) for t in terms]
    common = _common(forms, shape)
    if common is None:
        forms = [_lifted(ctx, f, shape) for f in forms]
        common = _common(forms, shape)
    if common is None:
        common, forms = _taken_out(ctx, forms, shape)
    if common is None or any(f.core is None for f in forms):
        return made
    cores = [wide(f.core, shape).scaled(f.by) for f in forms if f.core is not None]
    flat = [leaf for c in cores for leaf in written_terms(c)]
    total = total_of(ctx, flat, shape)
    learn_positive(ctx, total, *flat)
    return noted(ctx, made, Weighted(View(total.base, total.dims), common, total.scale))


def _flattened(ctx: Context, made: View, terms: Sequence[View]) -> None:
    """Notes that a sum of sums of exponentials is one sum: blocks may be merged in any order, and
    some of the inner sums are of ranges that do not meet."""
    flat = [leaf for t in terms for leaf in written_terms(t)]
    if len(flat) > len(terms):
        also_sum(ctx, made, flat, known=False)


def _common(forms: Sequence[Weighted], shape: Sequence[int]) -> tuple[View, ...] | None:
    """The terms, where they are the same for all."""
    rows = [[wide(t, shape) for t in f.terms] for f in forms]
    if len({frozenset((t.base, t.dims, t.scale) for t in row) for row in rows}) > 1:
        return None
    return tuple(rows[0])


def _taken_out(
    ctx: Context, forms: Sequence[Weighted], shape: Sequence[int]
) -> tuple[tuple[View, ...] | None, list[Weighted]]:
    """The terms that all have, and what is left of each without them: of one position per rank the
    sum of exponentials is the exponential itself."""
    rows = [[wide(t, shape) for t in f.terms] for f in forms]
    keys = [{(t.base, t.dims, t.scale) for t in row} for row in rows]
    shared = set.intersection(*keys)
    common = tuple(t for t in rows[0] if (t.base, t.dims, t.scale) in shared)
    if not common or not all(is_real(ctx, t.base) for row in rows for t in row):
        return None, list(forms)
    left = []
    for form, row in zip(forms, rows, strict=True):
        rest = [t for t in row if (t.base, t.dims, t.scale) not in shared]
        core = _times(ctx, form.core, power(ctx, rest, shape)) if rest else form.core
        left.append(Weighted(core, common, form.by))
    return common, left


def _lifted(ctx: Context, form: Weighted, shape: Sequence[int]) -> Weighted:
    """Exponentials of logarithms as what they are logarithms of."""
    core, terms = form.core, []
    for term in form.terms:
        if term.scale == ONE and term.base in ctx.side.notes.logarithms:
            core = _times(ctx, core, power(ctx, [term], shape))
        else:
            terms.append(term)
    return Weighted(core, tuple(terms), form.by)


Again = Callable[[Sequence[View]], View]


def over_dims(
    ctx: Context,
    made: View,
    operands: Sequence[tuple[View, Sequence[str]]],
    out: Sequence[str],
    again: Again,
) -> View:
    """``made``, for which operands with these letters are multiplied and added up over letters that
    the result does not have: terms that are constant along those come out. ``again`` computes it of
    other operands."""
    if len(operands) == 1:
        learn_positive(ctx, made, operands[0][0])
    if not is_weighted(ctx, *(v for v, _ in operands)):
        return made
    extents = {n: e for v, ls in operands for n, e in zip(ls, v.shape, strict=True) if e > 1}
    shape = [extents.get(n, 1) for n in out]
    if tuple(shape) != made.shape:
        return made
    rest, outside, by = [], [], ONE
    for view, letters in operands:
        form = weighted(ctx, view)
        inner, outer = _parted(ctx, form, letters, out)
        if form.core is None and not inner:
            return made
        if outer:
            rest.append(written(ctx, Weighted(form.core, tuple(inner)), view.shape))
            by = by * form.by
        else:
            rest.append(view)
        outside += [_under(t, letters, out, extents) for t in outer]
    terms = collected(ctx, outside)
    if not outside or terms is None:
        return made
    core = again(rest)
    if len(operands) == 1:
        learn_positive(ctx, core, rest[0])
    return noted(ctx, made, Weighted(View(core.base, core.dims), terms, by * core.scale))


def _parted(
    ctx: Context, form: Weighted, letters: Sequence[str], out: Sequence[str]
) -> tuple[list[View], list[View]]:
    """The terms that change along what is added up, and those that are constant along it."""
    gone = [i for i, n in enumerate(letters) if n not in out]
    inner: list[View] = []
    outer: list[View] = []
    for term in form.terms:
        constant = all(repeats(term.dims[i]) for i in gone)
        (outer if constant and is_real(ctx, term.base) else inner).append(term)
    return inner, outer


def _under(term: View, letters: Sequence[str], out: Sequence[str], extents: dict[str, int]) -> View:
    """A term in the dimensions of the result."""
    at = {n: i for i, n in enumerate(letters)}
    dims = []
    for n in out:
        dim = term.dims[at[n]] if n in at else ()
        short = extents.get(n, 1) // prod(d.extent for d in dim)
        dims.append(dim if short == 1 else (Digit(-1, short, 1),))
    return tidy(replace(term, dims=tuple(dims)))


def softmax_form(ctx: Context, made: View, x: View, low: View) -> View:
    """``made``, which is exp(x - low)."""
    terms = collected(ctx, [*leaves(ctx, x), *(wide(low, x.shape).scaled(MINUS),)])
    return made if not terms else noted(ctx, made, Weighted(None, terms))


def note_shared(ctx: Context, made: View, a: View, b: View) -> None:
    """Notes a product with a share."""
    shares = ctx.side.notes.shares
    if (a.base in shares) == (b.base in shares):
        return
    part, of = (a, b) if a.base in shares else (b, a)
    found = [over(made, wide(v, made.shape)) for v in (part, of)]
    if made.scale == ONE and part.scale == ONE and found[0] is not None and found[1] is not None:
        ctx.side.notes.shared.setdefault(made.base, Shared(found[0], found[1]))
