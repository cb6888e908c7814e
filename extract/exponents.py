"""Products with exponentials in one form: a tensor as ``core * exp(sum of terms)``.

What is taken away before an exponential so that it does not overflow (a maximum, a log-sum-exp)
comes out of every sum along which it is constant, and cancels against what is put back later. So a
softmax that is merged from blocks, each with a maximum of its own, is the one that was not cut:
``exp(m - n) * sum(exp(s - m) v) = exp(-n) * sum(exp(s) v)``, whatever ``m`` is.

An operator is lowered as it is written; where its tensor has this form, and was written in
another, the form is noted as one more way to compute it. Over the reals both are equal where what
cancels is finite (:func:`is_real`), which is asked of every term that is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

from gg_datalog.extract.context import Context, Unsupported
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.finite import may_be_infinite
from gg_datalog.extract.notes import Share, Shared, Weighted
from gg_datalog.extract.records import Operator, Sum
from gg_datalog.extract.scale import ONE, Scale
from gg_datalog.extract.view import Base, Digit, View, compose, identity, merge

EXTREMA = ((0, "max"), (0, "min"))  # what a function that never falls lets pass
MINUS = Scale(Fraction(-1))
FINITE = (
    "finite exponents",
    "what is taken away before an exponential, and put back later, is finite, so that it cancels",
)


# ---- terms and their sums
def is_real(ctx: Context, base: Base) -> bool:
    """Is the tensor finite where the inputs are? That those are is an assumption."""
    if not is_finite(ctx, base):
        return False
    if base.kind != "constant" and ctx.side.exponentials:
        ctx.notes.assume(*FINITE)
    return True


def is_finite(ctx: Context, base: Base) -> bool:
    """The same, where nothing is made of it yet."""
    return not may_be_infinite(base, ctx.side.notes.positive, ctx.side.notes.finite)


def leaves(ctx: Context, x: View) -> list[View]:
    """The terms of a tensor that is a sum (of sums), else the tensor."""
    record, found = x.base.made, ctx.side.notes.summed.get(x.base)
    if found is None and isinstance(record, Sum) and record.kind == "sum":
        found = tuple(record.terms)
    if found is None:
        return [x]
    seen = [compose(x, t.dims, t.base, t.scale) for t in found]
    if any(v is None for v in seen):
        return [x]
    return [leaf for v in seen if v is not None for leaf in leaves(ctx, tidy(v))]


def written_terms(x: View, deep: bool = True) -> list[View]:
    """The terms of a tensor that is a sum (of sums, if ``deep``) as it is written, else the
    tensor."""
    record = x.base.made
    if not isinstance(record, Sum) or record.kind != "sum":
        return [x]
    seen = [compose(x, t.dims, t.base, t.scale) for t in record.terms]
    if any(v is None for v in seen):
        return [x]
    terms = [v for v in seen if v is not None]
    return [leaf for v in terms for leaf in written_terms(v)] if deep else terms


def tidy(x: View) -> View:
    """The view, its repetitions written in one way."""
    dims = (tuple(Digit(-1, d.extent, 1) if d.dim < 0 else d for d in dim) for dim in x.dims)
    return replace(x, dims=tuple(merge(dim) for dim in dims))


def collected(ctx: Context, terms: Iterable[View]) -> tuple[View, ...] | None:
    """Equal terms added up; what cancels is left out. None where that may be infinite."""
    total: dict[Any, Fraction] = {}
    for term in map(tidy, terms):
        key = (term.base, term.dims, term.scale.atoms)
        total[key] = total.get(key, Fraction(0)) + term.scale.ratio
    if any(ratio == 0 and not is_real(ctx, key[0]) for key, ratio in total.items()):
        return None
    return tuple(View(b, d, Scale(r, a)) for (b, d, a), r in total.items() if r)


def wide(x: View, shape: Sequence[int]) -> View:
    """The view broadcast to ``shape``."""
    found = x.expanded(shape)
    if found is None:
        raise Unsupported("its digits do not split that way")
    return tidy(found)


def repeats(dim: Sequence[Digit]) -> bool:
    """Is a tensor constant along a dimension with these digits?"""
    return all(d.dim < 0 for d in dim)


def total_of(ctx: Context, terms: Sequence[View], shape: Sequence[int]) -> View:
    """The sum of terms, computed once for dimensions along which all of them are constant."""
    rows = [wide(t, shape) for t in terms]
    same = [i for i in range(len(shape)) if all(repeats(t.dims[i]) for t in rows)]
    rows = [
        replace(t, dims=tuple(() if i in same else d for i, d in enumerate(t.dims))) for t in rows
    ]
    found = ctx.side.sum(rows)
    if found is None:
        raise Unsupported("its digits do not split that way")
    return wide(found, shape)


# ---- the form
def weighted(ctx: Context, x: View) -> Weighted:
    """A tensor in this form: itself, without any term, where nothing else is known."""
    note = ctx.side.notes.weighted.get(x.base)
    seen = None if note is None else note.seen_as(x)
    return Weighted(View(x.base, x.dims), (), x.scale) if seen is None else seen


def is_weighted(ctx: Context, *views: View) -> bool:
    """Is any of them known in this form?"""
    return any(v.base in ctx.side.notes.weighted for v in views)


def power(ctx: Context, terms: Sequence[View], shape: Sequence[int]) -> View:
    """exp(sum of terms); of a single logarithm what it is of."""
    if len(terms) == 1 and terms[0].scale == ONE:
        of = ctx.side.notes.logarithms.get(terms[0].base)
        found = None if of is None else compose(wide(terms[0], shape), of.dims, of.base, of.scale)
        if found is not None:
            return found
    return _power(ctx, total_of(ctx, terms, shape), terms)


def _power(ctx: Context, x: View, terms: Sequence[View]) -> View:
    made = ctx.elementwise("exp(%)", [x], passes=EXTREMA)[0]
    if all(is_finite(ctx, t.base) for t in terms):
        ctx.side.notes.positive.add(made.base)
    rows = [over(made, wide(t, made.shape)) for t in terms]
    if all(r is not None for r in rows):
        note = Weighted(None, tuple(r for r in rows if r is not None))
        ctx.side.notes.weighted.setdefault(made.base, note)
    same = ctx.side.notes.same.get(made.base)
    found = None if same is None else compose(made, same.dims, same.base, same.scale)
    return made if found is None else found


def written(ctx: Context, of: Weighted, shape: Sequence[int]) -> View:
    """The tensor, computed in this form."""
    if not of.terms:
        if of.core is None:
            raise Unsupported("a product of nothing")
        return wide(of.core, shape).scaled(of.by)
    by = power(ctx, of.terms, shape)
    if of.core is None:
        return by.scaled(of.by)
    both = [wide(of.core, shape).scaled(of.by), by]
    made = ctx.elementwise("mul", both, linear=(0, 1))[0]
    if of.by == ONE:
        learn_positive(ctx, made, *both)
    same = ctx.side.notes.same.get(made.base)
    found = None if same is None else compose(made, same.dims, same.base, same.scale)
    return made if found is None else found


def noted(ctx: Context, made: View, of: Weighted | None) -> View:
    """``made``, of which it is noted that it has this form too; what is left without exponentials
    is taken as such."""
    if of is None:
        return made
    try:
        if not of.terms and of.core is not None:
            return wide(of.core, made.shape).scaled(of.by)
        _note(ctx, made, of)
    except Unsupported:
        pass
    return made


def _note(ctx: Context, made: View, of: Weighted) -> None:
    if made.base in ctx.side.notes.weighted or not of.terms:
        return
    core = None if of.core is None else over(made, wide(of.core, made.shape))
    rows = [over(made, wide(t, made.shape)) for t in of.terms]
    if any(r is None for r in rows) or (core is None) != (of.core is None):
        return
    terms = tuple(r for r in rows if r is not None)
    form = Weighted(core, terms, of.by * made.scale.inverse())
    base = identity(made.base)
    other = written(ctx, form, base.shape)
    ctx.side.notes.weighted.setdefault(made.base, form)
    if other.base is made.base or _alike(other.base, made.base):
        return
    ctx.side.alternative(base, other)
    if (other.dims, other.scale) == (base.dims, ONE):
        ctx.side.notes.same.setdefault(other.base, base)


def _alike(a: Base, b: Base) -> bool:
    """Do operators that differ in the order of their operands alone give both?"""
    one, two = a.made, b.made
    if not isinstance(one, Operator) or not isinstance(two, Operator):
        return False
    if one.signature != two.signature or len(one.operands) != len(two.operands):
        return False
    return {(v.base, v.scale) for v in one.operands} == {(v.base, v.scale) for v in two.operands}


def over(made: View, x: View) -> View | None:
    """``x``, which has the shape of a view ``made``, in the dimensions of the base of ``made``;
    None where the view does not show every position of the base once."""
    digits = [d for dim in made.dims for d in dim]
    flat = x.reshaped([d.extent for d in digits])
    if flat is None or any(d.dim < 0 and not repeats(flat.dims[i]) for i, d in enumerate(digits)):
        return None
    order = sorted(
        (i for i, d in enumerate(digits) if d.dim >= 0),
        key=lambda i: (digits[i].dim, -digits[i].stride),
    )
    shape = made.base.shape
    for dim, extent in enumerate(shape):
        step = 1
        for i in reversed([i for i in order if digits[i].dim == dim]):
            if digits[i].stride != step:
                return None
            step *= digits[i].extent
        if step != extent:
            return None
    found = flat.permuted(order).reshaped(shape)
    return None if found is None else tidy(found)


def learn_positive(ctx: Context, made: View, *of: View) -> None:
    """Notes that a tensor is more than 0, where what it is made of is."""
    positive = ctx.side.notes.positive
    if all(v.base in positive and not v.scale.atoms and v.scale.ratio > 0 for v in of):
        positive.add(made.base)


# ---- operators
def exponential(ctx: Context, x: View) -> View:
    """exp(x), as the operator table has it."""
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


def also_sum(ctx: Context, made: View, terms: Sequence[View], known: bool = True) -> None:
    """Notes that ``made`` is the sum of ``terms``, too, and whether it is to be ``known`` as such
    wherever it is added to something."""
    rows = [over(made, wide(t, made.shape)) for t in terms]
    if any(r is None for r in rows):
        return
    by = made.scale.inverse()
    found = tuple(r.scaled(by) for r in rows if r is not None)
    if known:
        ctx.side.notes.summed.setdefault(made.base, found)
    ctx.side.other_sum(made.base, found)


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
    return noted(ctx, made, Weighted(core, terms, one.by * two.by))


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


# ---- sigmoid: the share that one of two sums of exponentials has of both
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


def note_shared(ctx: Context, made: View, a: View, b: View) -> None:
    """Notes a product with a share."""
    shares = ctx.side.notes.shares
    if (a.base in shares) == (b.base in shares):
        return
    part, of = (a, b) if a.base in shares else (b, a)
    found = [over(made, wide(v, made.shape)) for v in (part, of)]
    if made.scale == ONE and part.scale == ONE and found[0] is not None and found[1] is not None:
        ctx.side.notes.shared.setdefault(made.base, Shared(found[0], found[1]))


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
