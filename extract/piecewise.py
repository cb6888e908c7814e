"""What is linear or works element by element, done piece by piece: a sum of flat buffers, or of
zeros with something in them, is the sums of what lies at one place, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from gg_datalog.extract.pieces import (
    MOST,
    Pieces,
    Span,
    Spans,
    apart,
    boxes,
    concatenated,
    flattened,
    in_line,
    in_shape,
    line,
    spans_of,
    taken,
)
from gg_datalog.extract.view import Digit, Dims, View, compose, cut

if TYPE_CHECKING:
    from gg_datalog.extract.side import Side

Add = Callable[[list[View]], View | None]


class Cell(NamedTuple):
    """Operands as they lie in their own tensors, and the range of the result that counts."""

    row: list[View]
    start: int
    size: int


def cells(side: Side, operands: Sequence[Spans], sums: bool) -> list[Cell] | None:
    """Operands of one dimension in pieces that lie alike on all of them; None where there is one
    such piece only. Of ``sums`` the same range of several tensors is a range of their sum."""
    ends = {sum(s.size for s in spans[:k]) for spans in operands for k in range(len(spans) + 1)}
    found: list[Cell] = []
    for start, end in pairwise(sorted(ends)):
        here = [taken(spans, start, end - start)[0] for spans in operands]
        if sums and _alike(here):
            found.append(Cell([apart(span.of) for span in here], *here[0][1:]))
            continue
        leader = max(here, key=lambda span: len([d for d in span.of.dims[0] if d.dim >= 0]))
        at = start
        for box in boxes(side, leader) or []:
            size = prod(box.shape)
            row = [in_shape(side, taken(s, at, size), box.shape, True) for s in operands]
            found.append(Cell([view for view in row if view is not None], 0, size))
            at += size
        if at != end or any(len(cell.row) != len(operands) for cell in found):
            return None
    partial = any(cell.size < prod(cell.row[0].shape) for cell in found)
    return found if len(found) > 1 or partial else None


def _alike(spans: Sequence[Span]) -> bool:
    """Are they the same range of sums of one form? (All of them together are one sum then.)"""
    first = spans[0]
    forms = {(span.start, span.size, apart(span.of).shape) for span in spans}
    sums = all(span.of.base.kind == "sum" for span in spans)
    return sums and len(forms) == 1 and first.size < first.of.shape[0]


def by_piece(
    side: Side,
    views: Sequence[View],
    apply: Callable[[list[View]], Sequence[View] | None],
    sums: bool = False,
) -> list[View] | None:
    """The results of something that works element by element on flat buffers, piece by piece; None
    where it is done as it is: on tensors that are no flat buffers, or where all is one piece."""
    wide = [line(view) for view in views if any(view.dims)]
    lines = [view for view in wide if view is not None]
    if not lines or len(lines) < len(wide) or len({view.shape for view in lines}) > 1:
        return None
    pieces = [spans_of(side, view) for view in lines]
    found = cells(side, [spans for spans, _ in pieces], sums)
    if found is None:
        return None
    outs: list[list[Span]] = []
    for row, start, size in found:
        given = iter(row)
        made = apply([next(given) if any(v.dims) else View(v.base, (), v.scale) for v in views])
        if made is None:
            return None
        outs.append([Span(flattened(view), start, size) for view in made])
    local = all(alike for _, alike in pieces) and not _gathered(side, [cell.row for cell in found])
    shape = max((view.shape for view in views), key=prod)
    done = [in_line(side, spans, local) for spans in zip(*outs, strict=True)]
    shaped = [None if view is None else view.reshaped(shape) for view in done]
    whole = [view for view in shaped if view is not None]
    return whole if len(whole) == len(done) else None


def _gathered(side: Side, rows: Sequence[Sequence[View]]) -> bool:
    """Is a piece that of one operand, the others being 0 there?"""
    alone = (sum(not side.is_zero(view) for view in row) == 1 < len(row) for row in rows)
    return any(alone)


def summed(side: Side, terms: Sequence[View], add: Add) -> View | None:
    """A sum of what is put together from pieces: piece by piece. None where there are no pieces, or
    not in all terms."""
    views = [view for view in terms if not side.is_zero(view)]
    if len(views) < 2:
        return None

    def one(row: list[View]) -> list[View] | None:
        made = add(row)
        return None if made is None else [made]

    flat = by_piece(side, views, one, sums=True)
    return flat[0] if flat else _summed_along(side, views, add)


def _summed_along(side: Side, views: Sequence[View], add: Add) -> View | None:
    """The same of tensors of several dimensions that are put together along one of them."""
    notes = [side.notes.pieces.get(view.base) for view in views]
    known = [note for note in notes if note is not None]
    if len(known) < len(views) or len({view.dims for view in views}) > 1:
        return None
    if len({(note.dims, note.dim) for note in known}) > 1:
        return None
    if len([dim for dim in known[0].dims if dim]) < 2:
        return None
    dim = known[0].dim
    scaled = [
        tuple(span._replace(of=span.of.scaled(view.scale)) for span in note.spans)
        for note, view in zip(known, views, strict=True)
    ]
    ends = {sum(s.size for s in spans[:k]) for spans in scaled for k in range(len(spans) + 1)}
    parts, rows = [], []
    for start, end in pairwise(sorted(ends)):
        here = [taken(spans, start, end - start)[0] for spans in scaled]
        row = [side.slice(span.of, dim, span.start, span.size) for span in here]
        rows.append([view for view in row if view is not None])
        part = None
        if len(rows[-1]) == len(row):
            part = summed(side, rows[-1], add) or add(rows[-1])
        if part is None:
            return None
        parts.append(part)
    local = all(note.local for note in known) and not _gathered(side, rows)
    whole = concatenated(side, parts, dim, local)
    return None if whole is None else _under(views[0], known[0].dims, whole)


def _under(view: View, dims: Dims, whole: View) -> View | None:
    """``whole``, which has the dimensions ``dims`` of a base, in those of a view of that base."""
    inner: list[list[Digit] | None] = [None] * len(view.base.shape)
    for digits, over in zip(dims, whole.dims, strict=True):
        step = prod(d.extent for d in digits)
        for digit in digits:
            step //= digit.extent
            part = cut(over, step, digit.extent)
            if digit.dim >= 0:
                inner[digit.dim] = part
            elif part is None or any(d.dim >= 0 for d in part):
                return None
    if any(part is None for part in inner):
        return None
    found = tuple(tuple(part) for part in inner if part is not None)
    return compose(View(view.base, view.dims), found, whole.base, whole.scale)


def sliced(side: Side, view: View, dim: int, start: int, size: int) -> View | None:
    """Positions [start, start + size) of a dimension: pieces of what the view is put together from,
    or boxes of what it is flattened from. None where it is neither."""
    flat = line(view)
    if flat is not None:
        spans, local = spans_of(side, flat)
        if len(spans) == 1 and spans[0].of == flat and len(flat.dims[0]) == 1:
            return None
        made = in_line(side, taken(spans, start, size), local)
        shape = [size if k == dim else 1 for k in range(len(view.dims))]
        return None if made is None else made.reshaped(shape)
    found = _sliced_along(side, view, dim, start, size)
    return found or _sliced_rows(side, view, dim, start, size)


def _sliced_rows(side: Side, view: View, dim: int, start: int, size: int) -> View | None:
    """The same of a flat buffer that is viewed in rows (a share of each rank in one): the pieces
    that lie there, row by row."""
    flat, shape = flattened(view), view.shape
    note = side.notes.pieces.get(view.base)
    if note is None or not _flat(note) or any(digit.dim < 0 for digit in flat.dims[0]):
        return None  # (what has dimensions of its own is cut as those are)
    spans, local = spans_of(side, flat)
    rows, inner = prod(shape[:dim]), prod(shape[dim + 1 :])
    row, ends = shape[dim] * inner, [sum(s.size for s in spans[:k]) for k in range(len(spans))]
    flat_buffer = len(spans) >= rows or any(end % row for end in ends)
    if len(spans) < 2 or not flat_buffer or not 1 < rows <= MOST:
        return None  # (pieces of several whole rows each are a concatenation like any other)
    found: list[Span] = []
    for row in range(rows):
        found += taken(spans, (row * shape[dim] + start) * inner, size * inner)
    sliced_shape = [size if k == dim else extent for k, extent in enumerate(shape)]
    return in_shape(side, found, sliced_shape, local)


def _flat(note: Pieces) -> bool:
    """Are the pieces flat buffers, one after the other or each a row?"""
    beside = [digits for at, digits in enumerate(note.dims) if digits and at != note.dim]
    return not beside or (len(beside) == 1 and all(span.size == 1 for span in note.spans))


def _sliced_along(side: Side, view: View, dim: int, start: int, size: int) -> View | None:
    """The same of several dimensions, with zeros among the pieces."""
    note = side.notes.pieces.get(view.base)
    if note is None or view.dims[dim] != note.dims[note.dim]:
        return None
    if sorted(view.dims, key=repr) != sorted(note.dims, key=repr):
        return None
    inside = taken(note.spans, start, size)
    taps = any(span.of.base in side.taps for span in inside)  # neighbours add to the borders
    hollow = any(_hollow(side, span, note.dim) for span in inside)
    if view.base.kind == "concat" and not taps and not hollow:
        return None
    parts = [side.slice(span.of, note.dim, span.start, span.size) for span in inside]
    if any(part is None for part in parts):
        return None
    whole = concatenated(side, [part for part in parts if part is not None], note.dim, note.local)
    if whole is None:
        return None
    return whole.permuted(_order(note.dims, view.dims)).scaled(view.scale)


def _hollow(side: Side, span: Span, dim: int) -> bool:
    """Is it a part of what is put together with zeros among the pieces?"""
    base = span.of.base
    put_together = base.kind != "concat" and base in side.notes.pieces
    return put_together and span.size < span.of.shape[dim]


def _order(of: Dims, wanted: Dims) -> list[int]:
    """Where each of some dimensions is among others, which are the same in another order."""
    places = list(range(len(of)))
    return [places.pop(next(i for i, k in enumerate(places) if of[k] == d)) for d in wanted]
