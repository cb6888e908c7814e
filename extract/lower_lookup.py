"""Lowering of lookups: rows that ids choose, and what a mask does to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gg_datalog.extract.context import Context, Unsupported
from gg_datalog.extract.exponents import (
    also_sum,
    over,
    repeats,
    tidy,
    total_of,
)
from gg_datalog.extract.graph import is_symbolic
from gg_datalog.extract.labels import Letters, Space, space
from gg_datalog.extract.notes import Looked
from gg_datalog.extract.records import Label, Lookup, Sum
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.side import Side, _as_term
from gg_datalog.extract.view import Base, Digit, View, compose, identity

TAKEN = "v"


def masked_lookup(ctx: Context, gives: Base, of: View, mask: View) -> None:
    """Notes ``gives`` = 0 where ``mask``, else ``of``, if ``of`` is a lookup and the mask has the
    very positions of its ids."""
    found = ctx.side.notes.taken.get(of.base)
    if found is None or found.mask is not None or of.scale != ONE or mask.scale != ONE:
        return
    if of.dims == mask.dims and of.base.shape == mask.base.shape:
        of, mask = identity(of.base), identity(mask.base)
    table, ids = (_over_result(found, place, v) for place, v in enumerate(found.operands))
    ids_at, table_at = (compose(of, v.dims, v.base, ONE) for v in (ids, table))
    if ids_at is None or table_at is None or ids_at.dims != mask.dims:
        return
    if ids_at.base.shape != mask.base.shape:
        return
    digits = _as_term(found.operands[0], found.maps[0], found.labels).dims[found.label]
    digits = tuple(d for d in digits if d.extent > 1)
    letters = [str(i) for i in range(len(of.dims))]
    operands = [View(table.base, (*table_at.dims, digits)), View(ids.base, ids_at.dims)]
    made = space([(operands[0], [*letters, TAKEN]), (operands[1], letters)], _naming)
    if made is None or tuple(made.labels[k].extent for k in made.result(letters)[0]) != gives.shape:
        return
    _note_lookup(ctx, gives, operands, made, letters, mask.base)


def of_rows(ctx: Context, gives: View, x: View, apply: Callable[[View], View]) -> None:
    """Notes what is applied to rows that ids choose, element by element, as rows of a table that it
    is applied to: the mask may come after it."""
    found = ctx.side.notes.taken.get(x.base)
    plainly = gives.dims == x.dims and gives.base.shape == x.base.shape
    if found is None or found.mask is not None or not plainly or {x.scale, gives.scale} != {ONE}:
        return
    table, ids = found.operands
    rows = apply(table)
    if rows.dims != table.dims or rows.base.shape != table.base.shape or rows.scale != ONE:
        return
    if gives.base in ctx.side.notes.taken:
        return
    name = f"{gives.base.name}?lookup"
    made = replace(found, name=name, operands=[rows, ids], gives=gives.base)
    ctx.side.lookups.append(made)
    ctx.side.notes.taken[gives.base] = made
    gives.base.needs += [rows.base, ids.base]


def _over_result(found: Lookup, place: int, view: View) -> View:
    """An operand with one dimension per dimension of the result."""
    term = _as_term(view, found.maps[place], found.labels)
    return replace(term, dims=tuple(term.dims[k] for k in found.result))


def _naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
    if letter == TAKEN:
        return "v", "whole"
    return {(0, 1): "b", (0,): "x", (1,): "t"}.get(places, "b"), "parallel"


def take(ctx: Context, table: View, lt: Letters, ids: View, li: Letters, out: Letters) -> View:
    """``table`` at the positions ``ids`` of dimension ``v``."""
    plain = table.scale == ONE and not table.base.ring
    passes = ((0, "max"), (0, "min")) if plain else ()
    view = ctx.apply("take", [(table, lt), (ids, li)], [out], _naming, (0,), passes)[0]
    made = space([(table, lt), (ids, li)], _naming)
    if made is not None and table.scale == ids.scale == ONE:
        _note_lookup(ctx, view.base, [table, ids], made, out)
    ctx.notes.assume(*IDS_IN_RANGE)
    between(ctx, ids, 0, table.shape[list(lt).index(TAKEN)] - 1)
    looked = Looked(table, tuple(lt), ids, tuple(li), tuple(out), view.dims)
    if view.scale == ONE and view.base not in ctx.side.notes.looked:
        ctx.side.notes.looked[view.base] = looked
        _distributed(ctx, view, looked)
    return view


def between(ctx: Context, ids: View, low: int, high: int) -> None:
    """Notes between what ids lie that are looked up: they are trusted to."""
    if ids.scale == ONE and not is_symbolic(high):
        known = ctx.side.notes.ids.get(ids.base, (low, high))
        ctx.side.notes.ids[ids.base] = max(low, known[0]), min(high, known[1])


def ids_between(side: Side, base: Base) -> tuple[int, int] | None:
    """Between what integers lie that are computed from ids, as far as that is known."""
    if not side.notes.ids:
        return None
    if side.is_one(View(base, ())):
        return 1, 1
    known, found = side.notes.ids.get(base), _computed(side, base)
    if known is None or found is None:
        return known or found
    return max(known[0], found[0]), min(known[1], found[1])


def _computed(side: Side, base: Base) -> tuple[int, int] | None:
    """The same, by what it is computed from."""
    for gives, rows in side.integers.sums:
        if gives is base:
            ends = [ids_between(side, of) for of, _ in rows]
            spans = [(e, n) for e, (_, n) in zip(ends, rows, strict=True) if e is not None]
            if len(spans) == len(rows):
                low = sum(min(a * n, b * n) for (a, b), n in spans)
                return low, sum(max(a * n, b * n) for (a, b), n in spans)
    for gives, of, _, value in side.integers.fills:
        if gives is base and (inner := ids_between(side, of)) is not None:
            return min(value, inner[0]), max(value, inner[1])
    return None


def _distributed(ctx: Context, made: View, of: Looked) -> None:
    """Notes that a lookup in a sum is the lookup in the terms that change along what is looked up,
    plus those that are constant along it."""
    record = of.table.base.made
    if not isinstance(record, Sum) or record.kind != "sum":
        return
    _term_by_term(ctx, made, of, record.terms)
    if ctx.side.exponentials and (other := ctx.side.notes.summed.get(of.table.base)):
        # of the logarithm of a softmax: the scores, and the logarithm of all their exponentials
        _term_by_term(ctx, made, of, other)


def _term_by_term(ctx: Context, made: View, of: Looked, written: Sequence[View]) -> None:
    at, shape = of.lt.index(TAKEN), of.table.shape
    terms = [compose(of.table, t.dims, t.base, t.scale) for t in written]
    if any(t is None for t in terms):
        return
    apart = [t for t in terms if t is not None and not repeats(t.dims[at])]
    constant = [t for t in terms if t is not None and repeats(t.dims[at])]
    if apart and constant and made.base.dtype != "bool" and not made.base.ring:
        try:
            table = total_of(ctx, apart, shape)
            inner = take(ctx, table, of.lt, of.ids, of.li, of.out)
        except Unsupported:
            return
        also_sum(ctx, made, [inner, *(beside(of, t) for t in constant)])


def beside(of: Looked, constant: View) -> View:
    """A term of the table that is constant along what is looked up, in the dimensions of the
    result."""
    ids = dict(zip(of.li, of.ids.shape, strict=True))
    dims = []
    for n in of.out:
        dim = constant.dims[of.lt.index(n)] if n in of.lt else ()
        dims.append(dim or ((Digit(-1, ids[n], 1),) if ids.get(n, 1) > 1 else ()))
    return tidy(View(constant.base, tuple(dims), constant.scale))


def _note_lookup(
    ctx: Context,
    gives: Base,
    operands: list[View],
    made: Space,
    out: Letters,
    mask: Base | None = None,
) -> None:
    rows = looked_along(made)
    if rows is None or gives in ctx.side.notes.taken:
        return
    labels, label = rows
    name = f"{gives.name}?lookup"
    found = Lookup(name, operands, labels, made.maps, label, made.result(out)[0], gives, mask)
    ctx.side.lookups.append(found)
    ctx.side.notes.taken[gives] = found


def looked_along(made: Space) -> tuple[tuple[Label, ...], int] | None:
    """The labels of a lookup, and which of them is looked up: of a table of one row a label that no
    operand carries."""
    segments = made.segments[TAKEN]
    if not segments:
        return (*made.labels, Label(1, "v", "parallel")), len(made.labels)
    label = segments[0][0]
    if len(segments) > 1 or label < 0:
        return None
    summed = [
        Label(x.extent, x.factor, "sum") if i == label else x for i, x in enumerate(made.labels)
    ]
    return tuple(summed), label


def hot_along(made: Space) -> tuple[tuple[Label, ...], int]:
    """The labels of one-hot ids, and which of them counts the ids: of one id a label that the
    result does not have."""
    if not made.segments[TAKEN]:
        return (*made.labels, Label(1, "v", "parallel")), len(made.labels)
    return made.labels, made.segments[TAKEN][0][0]


IDS_IN_RANGE = ("ids in range", "ids lie inside the table that they look up ([0, rows))")


# ---- scores without their maximum
def without_maximum(ctx: Context, x: View) -> list[View]:
    """A score that was looked up, or the logarithm of the sum of all exponentials, as the same
    without the maximum of the scores, and that."""
    notes = ctx.side.notes
    terms: tuple[View, ...] | None = notes.stable.get(x.base)
    of = notes.looked.get(x.base)
    if terms is None and of is not None:
        terms = _apart(ctx, x, of)
    seen = [compose(x, t.dims, t.base, t.scale) for t in terms or ()]
    return [x] if not seen or any(v is None for v in seen) else [v for v in seen if v is not None]


def _apart(ctx: Context, x: View, of: Looked) -> tuple[View, ...] | None:
    """The lookup ``of`` (which gives the base of ``x``) in scores without their maximum, and that,
    both over the base."""
    found = ctx.side.notes.lows.get(of.table.base)
    at = of.lt.index(TAKEN)
    if found is None or of.table.dims != found.of.dims or found.dim != at:
        return None
    made = View(x.base, of.dims)
    by = of.table.scale * found.of.scale.inverse()
    low = take(ctx, found.low.scaled(by), of.lt, of.ids, of.li, of.out)
    rows = [over(made, v) for v in (low, beside(of, found.high.scaled(by)))]
    return None if any(r is None for r in rows) else tuple(r for r in rows if r is not None)
