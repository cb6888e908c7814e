"""Tensors that are put together from pieces: flat buffers, and zeros around what a rank has.

A concatenation is noted with its pieces. Pieces of one tensor that continue each other are that
tensor again, and a range of a flattened tensor that begins or ends within a row is boxes of it, one
after the other. So what is flattened, taken out of a buffer and viewed is what it was before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from gg_datalog.extract.records import Concat
from gg_datalog.extract.scale import scale
from gg_datalog.extract.view import Digit, Dims, View, identity, merge

if TYPE_CHECKING:
    from gg_datalog.extract.side import Side

MOST = 64
"""Into how many pieces a tensor may fall that is viewed in rows which are not its own."""


class Span(NamedTuple):
    """[start, start + size) of a dimension of ``of``; of a flat buffer that has one dimension."""

    of: View
    start: int
    size: int

    def part(self, start: int, size: int) -> Span:
        """[start, start + size) of it."""
        return Span(self.of, self.start + start, size)


Spans = tuple[Span, ...]


class Pieces(NamedTuple):
    """How a base was put together: in dimensions ``dims`` and along ``dim`` of these, one after
    the other. ``local``: each of them is something of its own, not a share that a rank has."""

    dims: Dims
    dim: int
    spans: Spans
    local: bool


def line(view: View) -> View | None:
    """The view in one dimension, where it has no more than one of several positions."""
    wide = [dim for dim in view.dims if dim]
    return View(view.base, (wide[0],), view.scale) if len(wide) == 1 else None


def flattened(view: View) -> View:
    """All elements in row-major order."""
    return View(view.base, (merge([d for dim in view.dims for d in dim]),), view.scale)


def apart(flat: View) -> View:
    """A view of one dimension with a dimension for each of its digits."""
    return View(flat.base, tuple((digit,) for digit in flat.dims[0]), flat.scale)


def spans_of(side: Side, flat: View) -> tuple[Spans, bool]:
    """The pieces of a view of one dimension, which may be the view alone, and if they are local."""
    alone = (Span(flat, 0, flat.shape[0]),), True
    note = side.notes.pieces.get(flat.base)
    if note is None or flat.dims[0] != merge([d for dim in note.dims for d in dim]):
        return alone
    rows, inner = (
        prod(d.extent for dim in dims for d in dim)
        for dims in (note.dims[: note.dim], note.dims[note.dim + 1 :])
    )
    if rows > MOST:
        return alone
    members = [(s, *spans_of(side, flattened(s.of.scaled(flat.scale)))) for s in note.spans]
    found: list[Span] = []
    for row in range(rows):
        for span, deeper, _ in members:
            start = row * span.of.shape[note.dim] + span.start
            found += taken(deeper, start * inner, span.size * inner)
    return continued(side, found), note.local and all(alike for _, _, alike in members)


def taken(spans: Sequence[Span], start: int, size: int) -> list[Span]:
    """Positions [start, start + size) of spans one after the other."""
    found, at = [], 0
    for span in spans:
        low, high = max(start, at), min(start + size, at + span.size)
        if low < high:
            found.append(span.part(low - at, high - low))
        at += span.size
    return found


def continued(side: Side, spans: Iterable[Span]) -> Spans:
    """Spans of one tensor that continue each other as one; so are zeros."""
    found: list[Span] = []
    for span in spans:
        last = found[-1] if found else None
        if last and side.is_zero(last.of) and side.is_zero(span.of):
            found[-1] = zeros(side, last.size + span.size)
        elif last and last.of == span.of and last.start + last.size == span.start:
            found[-1] = last._replace(size=last.size + span.size)
        else:
            found.append(zeros(side, span.size) if side.is_zero(span.of) else span)
    return tuple(found)


def zeros(side: Side, size: int) -> Span:
    """So many zeros."""
    digits = (Digit(-1, size, 1),) if size > 1 else ()
    return Span(View(side.constant(scale(0)).base, (digits,)), 0, size)


# ---- boxes
def boxes(side: Side, span: Span) -> list[View] | None:
    """A span as boxes of its tensor, one after the other: whole rows, and what is left of the first
    row and of the last one."""
    return _boxes(side, apart(span.of), span.start, span.size)


def _boxes(side: Side, of: View, start: int, size: int) -> list[View] | None:
    if size == prod(of.shape):
        return [of]
    if len(of.dims) == 1:  # (of a box it would be boxes of what the box is cut from)
        cut = side.plain_slice if of.base.kind == "slice" else side.slice
        return _listed(cut(of, 0, start, size))
    inner, found, at = prod(of.shape[1:]), list[View](), start
    while at < start + size:
        row, within = divmod(at, inner)
        rows = (start + size - at) // inner
        if within or not rows:
            step = min(inner - within, start + size - at)
            one = side.slice(of, 0, row, 1)
            boxes_of = None if one is None else _boxes(side, one.without(0), within, step)
        else:
            step = rows * inner
            boxes_of = _listed(side.slice(of, 0, row, rows))
        if boxes_of is None:
            return None
        found += boxes_of
        at += step
    return found


def _listed(view: View | None) -> list[View] | None:
    return None if view is None else [view]


# ---- putting together
def in_line(side: Side, spans: Sequence[Span], local: bool) -> View | None:
    """Spans one after the other as a view of one dimension."""
    spans = continued(side, spans)
    found: list[View] = []
    for span in spans:
        inside = boxes(side, span)
        if inside is None:
            return None
        found += map(flattened, inside)
    if len(found) == 1:
        note_origin(side, found[0], spans[0])
        return found[0]
    return concatenated(side, found, 0, local, spans)


def note_origin(side: Side, box: View, span: Span) -> None:
    """Notes of what a box is a part, so that it is known what continues it."""
    whole = merge([d for dim in identity(box.base).dims for d in dim])
    apart_from_it = box.base.kind == "slice" and box.base is not span.of.base
    if apart_from_it and box.dims[0] == whole and box.scale == span.of.scale:
        of = View(span.of.base, span.of.dims)
        note = Pieces(box.dims, 0, (span._replace(of=of),), True)
        side.notes.pieces.setdefault(box.base, note)


def members_of(made: Concat, most: int) -> list[tuple[View, int]]:
    """The members of a rank's concatenation, in place of members that are such concatenations along
    the same dimension what these are made of; up to so many."""
    found: list[tuple[View, int]] = []
    for view, start in made.members:
        inner = view.base.made
        within = isinstance(inner, Concat) and inner.local and inner.dim == made.dim
        if not isinstance(inner, Concat) or not within or view.dims != identity(view.base).dims:
            found.append((view, start))
            continue
        rest = members_of(inner, most)
        found += [(part.scaled(view.scale), start + offset) for part, offset in rest]
    return found if len(found) <= most else made.members


def concatenated(
    side: Side, views: list[View], dim: int, local: bool, spans: Spans = ()
) -> View | None:
    """Views one after the other; with zeros among them an operator that needs the dimension whole,
    which nothing looks at that takes pieces."""
    made = side.plain_concat(views, dim, local, spans)
    return made or side.opaque_concat(views, dim, local, spans)


def in_shape(side: Side, spans: Sequence[Span], shape: Sequence[int], local: bool) -> View | None:
    """Spans one after the other, in row-major order as ``shape``."""
    spans = continued(side, spans)
    if len(spans) == 1 and (block := _block(side, spans[0], shape)) is not None:
        return block
    wide = [extent for extent in shape if extent != 1]
    if len(wide) < 2:
        made = in_line(side, spans, local)
        return None if made is None else made.reshaped(shape)
    rows: list[View] = []
    at, inner = 0, prod(wide[1:])
    while at < prod(wide):
        first = taken(spans, at, prod(wide) - at)[0]
        count = first.size // inner
        row = _block(side, first.part(0, count * inner), [count, *wide[1:]]) if count else None
        if row is None:  # it is made of several, or lies in rows of another size
            count, row = 1, in_shape(side, taken(spans, at, inner), [1, *wide[1:]], local)
        if row is None or len(rows) == MOST:
            return None
        rows.append(row)
        at += count * inner
    made = concatenated(side, rows, 0, local)
    return None if made is None else made.reshaped(shape)


def _block(side: Side, span: Span, shape: Sequence[int]) -> View | None:
    """The span as ``shape``, where it is one box that divides so."""
    inside = boxes(side, span)
    return inside[0].reshaped(shape) if inside is not None and len(inside) == 1 else None
