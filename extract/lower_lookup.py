"""Lowering of lookups: rows that ids choose, and what a mask does to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gg_datalog.extract.context import Context
from gg_datalog.extract.labels import Letters, Space, space
from gg_datalog.extract.records import Label, Lookup
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.side import _as_term
from gg_datalog.extract.view import Base, View, compose, identity

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
    return view


def _note_lookup(
    ctx: Context,
    gives: Base,
    operands: list[View],
    made: Space,
    out: Letters,
    mask: Base | None = None,
) -> None:
    segments = made.segments[TAKEN]
    if len(segments) != 1 or gives in ctx.side.notes.taken:
        return
    label = segments[0][0]
    labels = tuple(
        Label(x.extent, x.factor, "sum") if i == label else x for i, x in enumerate(made.labels)
    )
    name = f"{gives.name}?lookup"
    found = Lookup(name, operands, labels, made.maps, label, made.result(out)[0], gives, mask)
    ctx.side.lookups.append(found)
    ctx.side.notes.taken[gives] = found


IDS_IN_RANGE = ("ids in range", "ids lie inside the table that they look up ([0, rows))")
