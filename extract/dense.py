"""Rows that each choose the matrices of their own expert, computed for every expert.

What is computed of a row with the matrices that its id chooses is one row of what would be computed
with all matrices: f(w[i], x) is row i of f(w, x). So it is a lookup in that, however many operators
lie between the lookup of the matrices and the result. Ranks that have a range of the experts clamp
the other ids, compute something with the wrong matrices and put 0 in its place in the end: that is
the lookup masked, which the rules know as their part of it. Gradients of the matrices are products
of all experts' rows with the one-hot ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gg_datalog.extract.context import Notes
from gg_datalog.extract.finite import gives_finite, holds_infinity
from gg_datalog.extract.labels import FINE as CUT
from gg_datalog.extract.labels import Letters, Naming, Space, space
from gg_datalog.extract.lower_lookup import TAKEN, _naming, hot_along, looked_along
from gg_datalog.extract.lower_math import FINITE
from gg_datalog.extract.records import Concat, Lookup, OneHot, Operator, Slice, Sum
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.side import At, Side, _as_term
from gg_datalog.extract.view import Base, Digit, Dims, View, compose, identity

MATRICES = 3  # dimensions of a table that holds a matrix per expert
SIDES = {(0, 1): "b", (0,): "i", (1,): "j"}

Record = Operator | Sum | Slice | Concat
Operands = Sequence[tuple[View, Letters]]


class Window(NamedTuple):
    """The experts [low, high) that a rank has, of those that ``of`` chooses; all of them where
    nothing is ``masked``."""

    of: Base
    low: int
    high: int
    masked: bool


class Chosen(NamedTuple):
    """A tensor as rows that ids choose: ``every`` has a dimension for the experts in front of those
    of the tensor, ``at`` are the ids in the dimensions of the tensor. ``masked``: 0 where the
    expert is another rank's; ``finite``: finite there, where what it is computed from is."""

    every: View
    at: Dims
    masked: bool
    finite: bool = True


@dataclass
class Rows:
    """What is chosen by one window, by tensor."""

    side: Side
    notes: Notes
    window: Window
    of: dict[Base, Chosen] = field(default_factory=dict)
    ids: Base | None = None  # of the window's rows, once asked for
    mask: Base | None = None


def chooses_matrices(side: Side) -> bool:
    """Are there rows that choose their own matrices?"""
    shapes = [found.operands[0].base.shape for found in side.lookups if _plain(found)]
    return any(len(shape) >= MATRICES for shape in shapes)


def dense_rows(side: Side, notes: Notes) -> None:
    """Notes what is computed with matrices that ids choose as lookups, on one side."""
    tables = [found for found in side.lookups if _plain(found)]
    records = list(dict.fromkeys(b.made for b in side.bases if b.made is not None))
    for window in list(dict.fromkeys(_windows(side, tables))):
        rows = Rows(side, notes, window)
        for found in tables:
            _looked_up(rows, found)
        for record in records:
            if isinstance(record, Record):
                _follow(rows, record)


def _plain(found: Lookup) -> bool:
    """Is it a lookup in an input, which has its experts first?"""
    table, ids = found.operands
    plain = table.base.kind == "input" and table.scale == ids.scale == ONE and found.mask is None
    return plain and len(table.base.shape) > 1 and bool(_experts(found))


def _experts(found: Lookup) -> int:
    """How many rows the table has, where that is a dimension of its own."""
    for digits in found.maps[0]:
        if any(label == found.label for _, label, _ in digits):
            return digits[0][0] if len(digits) == 1 else 0
    return 1


# ---- whose experts
def _windows(side: Side, tables: Iterable[Lookup]) -> Iterator[Window]:
    """The ranges of experts that lookups and masks speak of."""
    masks = {note.mask.base: None for note in side.notes.cleared.values()}
    for mask in masks:  # of one expert there is no id to choose it by
        hidden = side.notes.tables.get(mask)
        if hidden is not None and len(hidden.values) - sum(map(bool, hidden.values)) == 1:
            low = hidden.values.index(0)
            yield Window(hidden.of, low, low + 1, True)
    for found in tables:
        ids, extent = found.operands[1].base, _experts(found)
        known = side.notes.tables.get(ids)
        if known is None or known.of is ids:
            yield Window(ids, 0, extent, False)
            continue
        for mask in masks:
            hidden = side.notes.tables.get(mask)
            if hidden is None or hidden.of is not known.of:
                continue
            shown = [i for i, n in enumerate(hidden.values) if not n]
            if shown and shown == list(range(shown[0], shown[0] + extent)):
                yield Window(known.of, shown[0], shown[-1] + 1, True)


def _fits(rows: Rows, ids: Base, extent: int) -> bool:
    """Do ids choose row i - low for what chooses expert i, wherever that is in the window?"""
    window, known = rows.window, rows.side.notes.tables.get(ids)
    if window.high - window.low != extent:
        return False
    if known is None or not window.masked:
        return ids is window.of and not window.masked
    return known.of is window.of and known.values[window.low : window.high] == tuple(range(extent))


def _hides(rows: Rows, mask: Base) -> bool:
    """Is a mask true for exactly the experts outside of the window?"""
    window, known = rows.window, rows.side.notes.tables.get(mask)
    if known is None or known.of is not window.of or not window.masked:
        return False
    return all((window.low <= i < window.high) != bool(n) for i, n in enumerate(known.values))


# ---- what is chosen
def _looked_up(rows: Rows, found: Lookup) -> None:
    """The lookup of the matrices themselves."""
    extent = _experts(found)
    table, ids = (
        _as_term(v, m, found.labels) for v, m in zip(found.operands, found.maps, strict=True)
    )
    if not _fits(rows, ids.base, extent):
        return
    every = View(table.base, (table.dims[found.label], *(table.dims[k] for k in found.result)))
    rows.of[found.gives] = Chosen(every, tuple(ids.dims[k] for k in found.result), False)


def _follow(rows: Rows, record: Record) -> None:
    """What a record gives, where it is chosen."""
    gives = record.gives[0][0] if isinstance(record, Operator) else record.gives
    if gives in rows.of or gives.ring or (isinstance(record, Operator) and len(record.gives) > 1):
        return
    rows.side.at = At(record.rank, record.node, record.target)
    found = _cleared(rows, gives)
    if found is None and isinstance(record, Operator):
        _onto_experts(rows, record)
        _onto_one(rows, record)
        found = _operator(rows, record)
    elif found is None and not isinstance(record, Operator):
        found = _moved(rows, record)
    if found is None:
        return
    rows.of[gives] = found
    apart = any(d.dim >= 0 for d in found.every.dims[0]) or rows.window.high == rows.window.low + 1
    if found.masked == rows.window.masked and apart:
        _note(rows, gives, found)


def _cleared(rows: Rows, gives: Base) -> Chosen | None:
    """A tensor that is 0 where a mask is true."""
    note = rows.side.notes.cleared.get(gives)
    if note is None or not _hides(rows, note.mask.base) or note.mask.scale != ONE:
        return None
    every: View | None = View(note.of.base, (_again(rows), *note.of.dims), note.of.scale)
    if (chosen := rows.of.get(note.of.base)) is not None:
        every = _through(note.of, chosen.every)
        at = compose(View(note.of.base, note.of.dims), chosen.at, rows.window.of, ONE)
        if at is None or at.dims != note.mask.dims:
            return None
    elif note.of.base.kind == "uninitialised":
        return None
    return None if every is None else Chosen(every, note.mask.dims, True)


def _through(view: View, every: View) -> View | None:
    """A view of a tensor, as the same of what it is for every expert."""
    inner = compose(view, every.dims[1:], every.base, every.scale)
    return inner and View(inner.base, (every.dims[0], *inner.dims), inner.scale)


def _ids_of(rows: Rows, operands: Sequence[View]) -> Dims | None:
    """The ids in the dimensions of operands, some of which are chosen, by the same ones."""
    found = []
    for view in operands:
        chosen = rows.of.get(view.base)
        if chosen is None:
            continue
        at = compose(View(view.base, view.dims), chosen.at, rows.window.of, ONE)
        if at is None:
            return None
        found.append(at.dims)
    same = [[d for d in dims if any(e.dim >= 0 for e in d)] for dims in found]
    if not found or any(s != same[0] for s in same):
        return None
    places = [[any(e.dim >= 0 for e in d) for d in dims] for dims in found]
    return found[0] if all(p == places[0] for p in places) else None


def _operator(rows: Rows, record: Operator) -> Chosen | None:
    """A product, or what works element by element or adds up, for every expert."""
    side, labels = rows.side, record.labels
    pairs = zip(record.operands, record.maps, strict=True)
    terms = [_as_term(view, digits, labels) for view, digits in pairs]
    if not any(t.base in rows.of for t in terms) or record.signature in side.draws:
        return None
    at, out = _ids_of(rows, terms), record.gives[0][1]
    kinds = {(x.factor, x.kind) for x in labels}
    plain = record.signature in ("contract", "sum") or kinds <= {("e", "parallel")}
    if at is None or not plain:
        return None
    carried = [i for i, dim in enumerate(at) if any(d.dim >= 0 for d in dim)]
    if any(i not in out or labels[i].kind != "parallel" for i in carried):
        return None
    masked = [i for i, t in enumerate(terms) if t.base in rows.of and rows.of[t.base].masked]
    if masked and not _stays_0(rows, record, masked):
        return None
    every = _for_every(rows, record, terms)
    if every is None:
        return None
    finite = all(rows.of[t.base].finite for t in terms if t.base in rows.of)
    finite = bool(masked) or (finite and gives_finite(record.signature))
    return Chosen(every, tuple(at[i] for i in out), bool(masked), finite)


def _stays_0(rows: Rows, record: Operator, masked: Sequence[int]) -> bool:
    """Is the result 0 where some operands are, whatever the others are there?"""
    others = [v.base for i, v in enumerate(record.operands) if i not in masked]
    known = [rows.of[base].finite for base in others if base in rows.of]
    linear = any((record.signature, i) in rows.side.linear for i in masked)
    if not linear or not all(known) or any(holds_infinity(base) for base in others):
        return False
    rows.notes.assume(*FINITE)
    return True


def _for_every(rows: Rows, record: Operator, terms: Sequence[View]) -> View | None:
    """The operator on what its operands are for every expert."""
    labels, operands = record.labels, []
    for term in terms:
        letters = [str(i) for i, dim in enumerate(term.dims) if any(d.dim >= 0 for d in dim)]
        seen: View | None = View(term.base, tuple(term.dims[int(n)] for n in letters), term.scale)
        if seen is not None and (chosen := rows.of.get(term.base)) is not None:
            seen = _through(seen, chosen.every)
            letters = [TAKEN, *letters]
            if seen is not None and all(d.dim < 0 for d in seen.dims[0]):
                seen, letters = seen.without(0), letters[1:]
        if seen is None:
            return None
        kept = [k for k, dim in enumerate(seen.dims) if any(d.dim >= 0 for d in dim)]
        seen = View(seen.base, tuple(seen.dims[k] for k in kept), seen.scale)
        operands.append((seen, [letters[k] for k in kept]))
    places = tuple(i for i, (_, letters) in enumerate(operands) if TAKEN in letters)

    def naming(letter: str, carried: tuple[int, ...]) -> tuple[str, str]:
        kind = "parallel" if letter == TAKEN else labels[int(letter)].kind
        if record.signature == "contract" and kind == "parallel":
            return SIDES.get(carried, "b"), kind
        return ("e" if letter == TAKEN else labels[int(letter)].factor), kind

    carried = {n for _, letters in operands for n in letters} - {TAKEN}
    lost = [i for i in range(len(labels)) if str(i) not in carried]
    if any(labels[i].kind != "parallel" for i in lost):
        return None
    out = [str(i) for i in record.gives[0][1] if i not in lost]
    every = _applied(rows, record, operands, [TAKEN, *out] if places else out, naming)
    return every and _recurring(every, [labels[i].extent * (i in lost) for i in record.gives[0][1]])


def _recurring(every: View, extents: Sequence[int]) -> View:
    """The view, the same along further dimensions (where an extent is given) that only the ids
    have: every choice of a row has its place among what is the same for all of them."""
    left = iter(every.dims[1:])
    dims = [(Digit(-1, extent, 1),) if extent else next(left) for extent in extents]
    return View(every.base, (every.dims[0], *dims), every.scale)


def _applied(
    rows: Rows, record: Operator, operands: Operands, out: list[str], naming: Naming
) -> View | None:
    side = rows.side
    linear = [i for s, i in side.linear if s == record.signature]
    passes = [(i, kind) for s, i, kind in side.passes if s == record.signature]
    made = side.operator(record.signature, operands, [out], naming, linear=linear, passes=passes)
    if made is None:
        return None
    if TAKEN in out:
        return made[0]
    return View(made[0].base, (_again(rows), *made[0].dims), made[0].scale)


def _again(rows: Rows) -> tuple[Digit, ...]:
    """The same for every expert."""
    extent = rows.window.high - rows.window.low
    return (Digit(-1, extent, 1),) if extent > 1 else ()


# ---- what only moves or adds up
def _moved(rows: Rows, record: Sum | Slice | Concat) -> Chosen | None:
    """A sum, a slice or a concatenation of what is chosen."""
    if isinstance(record, Sum):
        return _sum(rows, record)
    views = [record.of] if isinstance(record, Slice) else [v for v, _ in record.members]
    chosen = [rows.of.get(v.base) for v in views]
    at, dim = _ids_of(rows, views), record.dim
    if any(c is None for c in chosen) or at is None or any(d.dim >= 0 for d in at[dim]):
        return None
    if len({c.masked for c in chosen if c is not None}) > 1:
        return None
    every = [_through(v, rows.of[v.base].every) for v in views]
    seen = [v for v in every if v is not None]
    if len(seen) < len(views):
        return None
    size = record.size if isinstance(record, Slice) else record.gives.shape[dim]
    if isinstance(record, Slice):
        whole = rows.side.slice(seen[0], dim + 1, record.start, size)
    else:
        whole = rows.side.plain_concat(seen, dim + 1, local=True)
    if whole is None:
        return None
    kept = [(Digit(-1, size, 1),)] if size > 1 else []
    whole = whole if kept else whole.without(dim + 1)
    finite = all(rows.of[v.base].finite for v in views)
    at = (*at[:dim], *kept, *at[dim + 1 :])
    return Chosen(whole, at, rows.of[views[0].base].masked, finite)


def _sum(rows: Rows, record: Sum) -> Chosen | None:
    """A sum of which some terms are chosen; where it is masked all of them are."""
    at = _ids_of(rows, record.terms)
    masked = [t.base in rows.of and rows.of[t.base].masked for t in record.terms]
    if at is None or (any(masked) and not (all(masked) and record.kind == "sum")):
        return None
    terms = []
    for term in record.terms:
        chosen = rows.of.get(term.base)
        over = View(term.base, (_again(rows), *term.dims), term.scale)
        terms.append(over if chosen is None else _through(term, chosen.every))
    seen = [t for t in terms if t is not None]
    whole = rows.side.sum(seen, record.kind) if len(seen) == len(terms) else None
    finite = all(rows.of[t.base].finite for t in record.terms if t.base in rows.of)
    return None if whole is None else Chosen(whole, at, any(masked), finite)


# ---- what the rules know
def _note(rows: Rows, gives: Base, chosen: Chosen) -> None:
    """Notes a lookup in what there is for every expert."""
    every = chosen.every
    if every.scale != ONE:
        return
    ids, mask = _ids(rows)
    letters = [str(i) for i in range(len(gives.shape))]
    operands = [View(every.base, (*every.dims[1:], every.dims[0])), View(ids, chosen.at)]
    lettered = [(operands[0], [*letters, TAKEN]), (operands[1], letters)]
    # (a dimension of the result may show fewer digits than the ids do)
    found = (space(lettered, _naming, fine=fine) for fine in (CUT, ()))
    made = next((m for m in found if m is not None and _shape(m, letters) == gives.shape), None)
    along = None if made is None else looked_along(made)
    if made is None or along is None:
        return
    (labels, label), result = along, made.result(letters)[0]
    name = f"{gives.name}?lookup{len(rows.side.lookups)}"
    rows.side.lookups.append(Lookup(name, operands, labels, made.maps, label, result, gives, mask))
    gives.needs += [every.base, ids, *([] if mask is None else [mask])]


def _shape(made: Space, letters: Letters) -> tuple[int, ...]:
    """The extents of the labels of a result."""
    return tuple(made.labels[k].extent for k in made.result(letters)[0])


def _ids(rows: Rows) -> tuple[Base, Base | None]:
    """The ids of the window's rows, and where they are not in the window."""
    window, side = rows.window, rows.side
    if not window.masked:
        return window.of, None
    if rows.ids is None:
        x, low = identity(window.of), window.low
        mask = above = _compared(side, x, "ge", window.high)
        if low:
            below = _compared(side, x, "lt", low)
            mask = _each(side, "logical_or", [below, above])
            side.integers.pairs.append((mask.base, "or", below.base, above.base))
        shift = side.constant(scale(-low)).expanded(x.shape)
        of = side.sum([x, shift], integers=True) if low and shift is not None else x
        assert of is not None  # all of them are elementwise over one base
        filled = _each(side, "masked_fill(0)", [of, mask])
        side.integers.fills.append((filled.base, of.base, mask.base, 0))
        rows.ids, rows.mask = filled.base, mask.base
    return rows.ids, rows.mask


def _compared(side: Side, x: View, kind: str, bound: int) -> View:
    made = _each(side, kind, [x, side.constant(scale(bound))])
    side.integers.tests.append((made.base, x.base, kind, bound))
    return made


def _each(side: Side, signature: str, views: Sequence[View]) -> View:
    letters = [str(i) for i in range(len(views[0].dims))]
    operands = [(v, letters if v.dims else []) for v in views]
    made = side.operator(signature, operands, [letters], lambda _, __: ("e", "parallel"))
    assert made is not None  # they are elementwise over one base
    return made[0]


# ---- gradients of the matrices
def _onto_experts(rows: Rows, record: Operator) -> None:
    """Rows added up for each expert, as the product of all experts' rows with the one-hot ids."""
    hots = [rows.side.onehots.get(v.base) for v in record.operands]
    if record.signature != "contract" or len([h for h in hots if h is not None]) != 1:
        return
    place = 0 if hots[0] is not None else 1
    hot, labels = hots[place], record.labels
    assert hot is not None
    pairs = zip(record.operands, record.maps, strict=True)
    terms = [_as_term(view, digits, labels) for view, digits in pairs]
    given, term = rows.of.get(terms[1 - place].base), terms[place]
    extent = hot.labels[hot.label].extent
    if given is None or given.masked != rows.window.masked or hot.mask is not None:
        return
    if not _fits(rows, hot.ids.base, extent) or term.scale != ONE:
        return
    ids = _as_term(hot.ids, hot.maps[0], hot.labels)
    over = compose(term, tuple(ids.dims[k] for k in hot.result), ids.base, ONE)
    at = compose(View(terms[1 - place].base, terms[1 - place].dims), given.at, rows.window.of, ONE)
    last = hot.result.index(hot.label)
    mine = [i for i, dim in enumerate(term.dims) if any(d.dim == last for d in dim)]
    if over is None or at is None or len(mine) != 1:
        return
    if [_of(d) for d in over.dims] != [_of(d) for d in at.dims]:
        return
    _product(rows, record, terms[1 - place], given, over.dims, mine[0], 1 - place)


def _of(dim: tuple[Digit, ...]) -> tuple[Digit, ...]:
    """What a dimension shows of the ids; nothing where it does not tell them apart."""
    return dim if any(d.dim >= 0 for d in dim) else ()


def _product(
    rows: Rows, record: Operator, of: View, given: Chosen, at: Dims, mine: int, place: int
) -> None:
    hot, seen = _one_hot(rows), _through(of, given.every)
    if seen is None:
        return
    dims = [dim if any(d.dim >= 0 for d in dim) else () for dim in seen.dims[1:]]
    dims[mine] = seen.dims[0] if any(d.dim >= 0 for d in seen.dims[0]) else ()
    rest = [_of(dim) for dim in at]
    rest[mine] = (Digit(len(hot.shape) - 1, hot.shape[-1], 1),)
    pair = [View(seen.base, tuple(dims), seen.scale), View(hot, tuple(rest))]
    pair = pair if place == 0 else pair[::-1]
    both = bool(dims[mine])

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        label = record.labels[int(letter)]
        return ("b" if both and int(letter) == mine else label.factor), label.kind

    operands = []
    for view in pair:
        kept = [k for k, dim in enumerate(view.dims) if dim]
        shown = View(view.base, tuple(view.dims[k] for k in kept), view.scale)
        operands.append((shown, [str(k) for k in kept]))
    if len({n for _, letters in operands for n in letters}) < len(record.labels):
        return
    out = [str(i) for i in record.gives[0][1]]
    made = rows.side.operator("contract", operands, [out], naming, linear=(0, 1))
    if made is not None:
        rows.side.alternative(identity(record.gives[0][0]), made[0])


def _one_hot(rows: Rows) -> Base:
    """1 where the last dimension is the id, in the dimensions of the window's ids."""
    side, (ids, mask) = rows.side, _ids(rows)
    letters = [str(i) for i in range(len(ids.shape))]
    extent = {TAKEN: rows.window.high - rows.window.low}
    operands = [(identity(b), letters) for b in (ids, mask) if b is not None]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return ("v", "created") if letter == TAKEN else ("t", "parallel")

    name, out = "one_hot" if mask is None else "masked one_hot", [*letters, TAKEN]
    made, shown = (
        side.operator(name, operands, [out], naming, extent),
        space(operands, naming, extent),
    )
    assert made is not None and shown is not None  # they have the same dimensions
    base, (labels, label) = made[0].base, hot_along(shown)
    record = OneHot(
        f"{base.name}?hot", operands[0][0], labels, shown.maps, label,
        shown.result(out)[0], base, mask,
    )  # fmt: skip
    side.onehots.setdefault(base, record)
    return base


def _onto_one(rows: Rows, record: Operator) -> None:
    """Rows added up for the one expert of the window: the same with one column of one-hot ids."""
    if record.signature != "sum" or rows.window.high > rows.window.low + 1:
        return
    of = record.operands[0]
    given = rows.of.get(of.base)
    if given is None or not given.masked:
        return
    term = _as_term(of, record.maps[0], record.labels)
    seen = _through(term, given.every)
    at = compose(View(term.base, term.dims), given.at, rows.window.of, ONE)
    if seen is None or at is None or any(d.dim < 0 for dim in seen.dims for d in dim):
        return
    chosen = [i for i, dim in enumerate(at.dims) if _of(dim)]
    if {i for i, x in enumerate(record.labels) if x.kind == "sum"} - set(chosen):
        return

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        kind = record.labels[int(letter)].kind
        return ("k" if kind == "sum" else SIDES.get(places, "b")), kind

    letters = [str(i) for i in range(len(record.labels))]
    hot = View(_one_hot(rows), tuple(at.dims[i] for i in chosen))
    operands = [(seen.without(0), letters), (hot, [letters[i] for i in chosen])]
    out = [str(i) for i in record.gives[0][1]]
    made = rows.side.operator("contract", operands, [out], naming, linear=(0, 1))
    if made is not None:
        rows.side.alternative(identity(record.gives[0][0]), made[0])
