"""Tensors that are put together from pieces: what flat buffers and zeros around pieces are.

A concatenation is noted with its pieces. What is linear or works element by element is done piece by
piece, a slice takes pieces, and pieces of one tensor that continue each other are that tensor again:
a gradient that is flattened, reduced with others in a buffer, taken out and viewed is the reduced
gradient. A range of a flattened tensor that begins or ends within a row is boxes of it, one after
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from gg_datalog.extract.scale import scale
from gg_datalog.extract.view import Digit, Dims, View, compose, cut, identity, merge

if TYPE_CHECKING:
    from gg_datalog.extract.side import Side

Add = Callable[[list[View]], View | None]
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
    """How a base was put together: in dimensions ``dims``, along ``dim``, these one after the other.
    ``local``: each of them is something of its own, not a share that a rank has."""

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
    note = side.notes.pieces.get(flat.base)
    if note is None or any(note.dims[: note.dim]):
        return (Span(flat, 0, flat.shape[0]),), True
    if flat.dims[0] != merge([d for dim in note.dims for d in dim]):
        return (Span(flat, 0, flat.shape[0]),), True
    inner = prod(prod(d.extent for d in dim) for dim in note.dims[note.dim + 1 :])
    found: list[Span] = []
    local = note.local
    for span in note.spans:
        of = flattened(span.of.scaled(flat.scale))
        deeper, alike = spans_of(side, of)
        local = local and alike
        found += taken(deeper, span.start * inner, span.size * inner)
    return continued(side, found), local


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
    if len(of.dims) == 1:
        return _listed(side.slice(of, 0, start, size))
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
        _origin(side, found[0], spans[0])
        return found[0]
    return concatenated(side, found, 0, local, spans)


def _origin(side: Side, box: View, span: Span) -> None:
    """Notes of what a box is a part, so that it is known what continues it."""
    whole = merge([d for dim in identity(box.base).dims for d in dim])
    if box.base.kind == "slice" and box.dims[0] == whole and box.scale == span.of.scale:
        of = View(span.of.base, span.of.dims)
        note = Pieces(box.dims, 0, (span._replace(of=of),), True)
        side.notes.pieces.setdefault(box.base, note)


def concatenated(
    side: Side, views: list[View], dim: int, local: bool, spans: Spans = ()
) -> View | None:
    """Views one after the other; with zeros among them an operator that needs the dimension whole,
    which nothing looks at that takes pieces."""
    made = side.plain_concat(views, dim, local, spans)
    return made or side.opaque_concat(views, dim, local, spans)


def in_shape(
    side: Side, spans: Sequence[Span], shape: Sequence[int], local: bool
) -> View | None:
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


# ---- what is done piece by piece
def cells(side: Side, operands: Sequence[Spans]) -> list[list[View]] | None:
    """Operands of one dimension in pieces that lie alike on all of them, each as it lies in its own
    tensor; None where there is one such piece only."""
    ends = {sum(s.size for s in spans[:k]) for spans in operands for k in range(len(spans) + 1)}
    found: list[list[View]] = []
    for start, end in pairwise(sorted(ends)):
        here = [taken(spans, start, end - start)[0] for spans in operands]
        leader = max(here, key=lambda span: len([d for d in span.of.dims[0] if d.dim >= 0]))
        at = start
        for box in boxes(side, leader) or [flattened(leader.of)]:
            size = prod(box.shape)
            row = [in_shape(side, taken(s, at, size), box.shape, True) for s in operands]
            found.append([view for view in row if view is not None])
            at += size
        if at != end or any(len(row) != len(operands) for row in found):
            return None
    return found if len(found) > 1 else None


def by_piece(
    side: Side, views: Sequence[View], apply: Callable[[list[View]], Sequence[View] | None]
) -> list[View] | None:
    """The results of something that works element by element on flat buffers, piece by piece; None
    where it is done as it is: on tensors that are no flat buffers, or where all is one piece."""
    wide = [line(view) for view in views if any(view.dims)]
    lines = [view for view in wide if view is not None]
    if not lines or len(lines) < len(wide) or len({view.shape for view in lines}) > 1:
        return None
    pieces = [spans_of(side, view) for view in lines]
    rows = cells(side, [spans for spans, _ in pieces])
    if rows is None:
        return None
    outs: list[list[Span]] = []
    for row in rows:
        given = iter(row)
        made = apply([next(given) if any(v.dims) else View(v.base, (), v.scale) for v in views])
        if made is None:
            return None
        flat = [flattened(view) for view in made]
        outs.append([Span(view, 0, view.shape[0]) for view in flat])
    local = all(alike for _, alike in pieces) and not _gathered(side, rows)
    shape = max((view.shape for view in views), key=prod)
    done = [in_line(side, spans, local) for spans in zip(*outs, strict=True)]
    shaped = [None if view is None else view.reshaped(shape) for view in done]
    found = [view for view in shaped if view is not None]
    return found if len(found) == len(done) else None


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

    flat = by_piece(side, views, one)
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
        part = add(rows[-1]) if len(rows[-1]) == len(row) else None
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
    return _sliced_along(side, view, dim, start, size)


def _sliced_along(side: Side, view: View, dim: int, start: int, size: int) -> View | None:
    """The same of several dimensions, with zeros among the pieces."""
    note = side.notes.pieces.get(view.base)
    if note is None or view.dims[dim] != note.dims[note.dim] or view.base.kind == "concat":
        return None
    inside = taken(note.spans, start, size)
    parts = [side.slice(span.of, note.dim, span.start, span.size) for span in inside]
    if any(part is None for part in parts):
        return None
    whole = concatenated(side, [part for part in parts if part is not None], note.dim, note.local)
    return None if whole is None else _under(view, note.dims, whole)
