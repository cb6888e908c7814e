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
from typing import Any

from gg_datalog.extract.context import Context, Unsupported
from gg_datalog.extract.finite import may_be_infinite
from gg_datalog.extract.notes import Notes, Weighted
from gg_datalog.extract.records import Operator, Sum
from gg_datalog.extract.scale import ONE, Scale
from gg_datalog.extract.view import Base, Digit, View, compose, identity, merge

Terms = Callable[[View], "list[View] | None"]  # of a view that is a sum
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
    return not may_be_infinite(base, ctx.side.notes.finiteness())


def flattened(views: Iterable[View], terms: Terms) -> list[View]:
    """What is added up in the end, in its order: a view with ``terms`` is replaced by these, and
    they by theirs. The residual sum of a deep model is a sum in a sum for every layer."""
    found, left = [], list(views)[::-1]
    while left:
        x = left.pop()
        inner = terms(x)
        if inner is None:
            found.append(x)
        else:
            left += inner[::-1]
    return found


def leaves(ctx: Context, x: View) -> list[View]:
    """The terms of a tensor that is a sum (of sums), else the tensor."""

    def terms(x: View) -> list[View] | None:
        noted = ctx.side.notes.summed.get(x.base)
        inner = _written(x) if noted is None else _seen(x, noted)
        return None if inner is None else [tidy(v) for v in inner]

    return flattened([x], terms)


def written_terms(x: View, deep: bool = True) -> list[View]:
    """The terms of a tensor that is a sum (of sums, if ``deep``) as it is written, else the
    tensor."""
    return flattened([x], _written) if deep else _written(x) or [x]


def adds_noted(notes: Notes, terms: Iterable[View]) -> bool:
    """Is any term, or what is added up in it as it is written, known in other words? That every
    view fits is not asked, so it may be true of too many. A deep model asks for every layer, of
    all before it: what was found plain is so until something is noted."""
    known = len(notes.summed) + len(notes.stable)
    seen, left = set[Base](), [t.base for t in terms]
    while left:
        base = left.pop()
        if base in notes.summed or base in notes.stable:
            return True
        record = base.made
        told = base in seen or notes.plain.get(base) == known
        if isinstance(record, Sum) and record.kind == "sum" and not told:
            seen.add(base)
            left += [t.base for t in record.terms]
    notes.plain.update(dict.fromkeys(seen, known))
    return False


def _written(x: View) -> list[View] | None:
    """The terms of a tensor that was written as a sum."""
    record = x.base.made
    if not isinstance(record, Sum) or record.kind != "sum":
        return None
    return _seen(x, record.terms)


def _seen(x: View, terms: Iterable[View]) -> list[View] | None:
    """Terms of its base as the view sees them."""
    seen = [compose(x, t.dims, t.base, t.scale) for t in terms]
    return None if any(v is None for v in seen) else [v for v in seen if v is not None]


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
    is taken as such, and so is a number times an exponential."""
    if of is None:
        return made
    try:
        if not of.terms and of.core is not None:
            return wide(of.core, made.shape).scaled(of.by)
        if of.core is None and of.by != ONE and of.terms:
            return written(ctx, of, made.shape)
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


def also_sum(ctx: Context, made: View, terms: Sequence[View], known: bool = True) -> None:
    """Notes that ``made`` is the sum of ``terms``, too, and whether it is to be ``known`` as such
    wherever it is added to something."""
    rows = [over(made, wide(t, made.shape)) for t in terms]
    if any(r is None for r in rows):
        return
    by = made.scale.inverse()
    found = tuple(r.scaled(by) for r in rows if r is not None)
    if known and not _made_of(ctx, found, made.base):
        ctx.side.notes.summed.setdefault(made.base, found)
    if len(found) == 1:
        ctx.side.alternative(identity(made.base), found[0])
    ctx.side.other_sum(made.base, found)


def _made_of(ctx: Context, terms: Iterable[View], base: Base) -> bool:
    """Is one of the terms the tensor itself, in other words? (It is put together, say.)"""
    seen: set[Base] = set()
    todo = [t.base for t in terms]
    while todo:
        one = todo.pop()
        if one is base:
            return True
        if one not in seen:
            seen.add(one)
            todo += [t.base for t in ctx.side.notes.summed.get(one, ())]
    return False
