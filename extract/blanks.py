"""What masks that compare positions (:mod:`.halves`) leave of a tensor: -inf, and 0 once it is an
exponential or a sigmoid, or where the mask is a factor. A sum does not see the zeros, nor a
maximum -inf, so a rank may leave such blocks out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gg_datalog.extract.finite import may_be_infinite
from gg_datalog.extract.halves import Half, leaves_some, of_slice, under_labels, whole_dims
from gg_datalog.extract.records import Concat, Operator, Slice, Sum
from gg_datalog.extract.view import Base, View

if TYPE_CHECKING:
    from gg_datalog.extract.notes import Notes

LOW = -float("inf")
VANISHING = ("exp", "sigmoid")  # 0 of -inf, and above 0 of every number
FILL = re.compile(r"masked_fill\((.+)\)$")


class Blank(NamedTuple):
    """A tensor is ``value``, 0 or -inf, in all these halves. ``exact``: outside of them it is
    finite and, where the value is 0, above 0, the inputs being finite."""

    value: float
    halves: tuple[Half, ...]
    exact: bool


def learn(notes: Notes, record: Operator | Sum | Slice | Concat) -> None:
    """Notes what is known of the tensors that a record gives, once it is made."""
    if isinstance(record, Slice):
        _sliced(notes, record)
    elif isinstance(record, Sum):
        _added(notes, record)
    elif isinstance(record, Operator) and (notes.halves or notes.blanks):
        name, gives = re.split(r"[(\[# ]", record.signature)[0], record.gives[0][0]
        blank = _of_operator(notes, record, name)
        if blank is not None:
            _note(notes, record, gives, blank)
        _reduced(notes, record, name)


def _note(notes: Notes, record: Operator, gives: Base, blank: Blank) -> None:
    """Notes a blank in labels as one of the result."""
    if blank.exact and blank.value == 0:
        notes.finite.add(gives)
    places = {label: dim for dim, label in enumerate(record.gives[0][1])}
    kept = [half.renamed(places) for half in blank.halves]
    found = tuple(half for half in kept if half is not None)
    if found:
        notes.blanks[gives] = Blank(blank.value, found, blank.exact and len(found) == len(kept))


def _sliced(notes: Notes, cut: Slice) -> None:
    half, blank = notes.halves.get(cut.of.base), notes.blanks.get(cut.of.base)
    if half is not None and (found := of_slice(cut, half)) is not None:
        notes.halves[cut.gives] = found
    if blank is not None:
        kept = [of_slice(cut, one) for one in blank.halves]
        there = tuple(one for one in kept if one is not None)
        if there:
            exact = blank.exact and len(there) == len(kept)
            notes.blanks[cut.gives] = Blank(blank.value, there, exact)


def blank_of(notes: Notes, base: Base) -> Blank | None:
    """What is known of a tensor; a mask is 0 where it is not true, and 1 elsewhere."""
    half = notes.halves.get(base)
    if half is None:
        return notes.blanks.get(base)
    return Blank(0, (half.otherwise(),), True)


# ---- operators, in their labels
def operand_blank(notes: Notes, record: Operator, place: int) -> Blank | None:
    """What is known of an operand, in labels."""
    view = record.operands[place]
    blank = blank_of(notes, view.base)
    if blank is None or (blank.value and not _rises(view)):
        return None
    places = under_labels(record.maps[place], record.labels)
    kept = [half.renamed(places) for half in blank.halves]
    found = tuple(half for half in kept if half is not None)
    exact = blank.exact and len(found) == len(kept) and (bool(blank.value) or _rises(view))
    return Blank(blank.value, found, exact) if found else None


def operand_half(notes: Notes, record: Operator, place: int) -> Half | None:
    """In labels where a mask that compares positions is true."""
    view = record.operands[place]
    half = notes.halves.get(view.base)
    if half is None or view.scale.atoms or view.scale.ratio != 1:
        return None
    return half.renamed(under_labels(record.maps[place], record.labels))


def _rises(view: View) -> bool:
    return not view.scale.atoms and view.scale.ratio > 0


def _finite(notes: Notes, views: Iterable[View]) -> bool:
    return not any(may_be_infinite(v.base, notes.finiteness()) for v in views)


def _of_operator(notes: Notes, record: Operator, name: str) -> Blank | None:
    if name == "masked_fill" and len(record.operands) == 2:
        return _filled(notes, record)
    blanks = [operand_blank(notes, record, i) for i in range(len(record.operands))]
    if name in VANISHING and blanks[0] is not None and blanks[0].value == LOW:
        return blanks[0]._replace(value=0)
    if name in ("mul", "contract", "logical_and") and len(blanks) == 2:
        return _product(notes, record.operands, blanks)
    if name == "div" and blanks[0] is not None and blanks[0].value == 0:
        by = record.operands[1].base in notes.positive
        return blanks[0] if by else None
    if name == "sum" and blanks[0] is not None and blanks[0].value == 0:
        return blanks[0]._replace(exact=False)
    return None


def _filled(notes: Notes, record: Operator) -> Blank | None:
    """What is filled in under a mask, and where it was there before."""
    half, found = operand_half(notes, record, 1), FILL.match(record.signature)
    of = record.operands[0]
    value = float(found[1]) if found is not None and found[1] in ("0", "-inf") else None
    if half is None or value is None:
        return None
    before = operand_blank(notes, record, 0)
    same = before is not None and before.value == value
    more = before.halves if before is not None and same else ()
    halves = tuple(dict.fromkeys((half, *more)))
    if value == 0:
        return Blank(value, halves, _above_0(notes, of))
    exact = before.exact if before is not None and same else _finite(notes, [of])
    return Blank(value, halves, exact)


def _product(
    notes: Notes, operands: Sequence[View], blanks: Sequence[Blank | None]
) -> Blank | None:
    """0 where one factor is, the other one being finite."""
    found = []
    for blank, other in zip(blanks, operands[::-1], strict=True):
        if blank is not None and blank.value == 0 and _finite(notes, [other]):
            found.append((blank, _above_0(notes, other)))
    if len(found) > 1:
        halves = tuple(dict.fromkeys(half for blank, _ in found for half in blank.halves))
        return Blank(0, halves, all(blank.exact for blank, _ in found))
    return next((b._replace(exact=b.exact and above) for b, above in found), None)


def _above_0(notes: Notes, x: View) -> bool:
    """Is it more than 0 everywhere, the inputs being finite?"""
    made = x.base.made
    if not isinstance(made, Operator) or re.split(r"[(\[# ]", made.signature)[0] not in VANISHING:
        return x.base in notes.positive and _rises(x)
    return _rises(x) and _finite(notes, made.operands)


def _reduced(notes: Notes, record: Operator, name: str) -> None:
    """A sum of exponentials of which some is left everywhere is above 0, and such a maximum is
    finite."""
    if name not in ("sum", "max") or (blank := operand_blank(notes, record, 0)) is None:
        return
    gone = [k for k, label in enumerate(record.labels) if label.kind == name]
    shape = [label.extent for label in record.labels]
    value = 0 if name == "sum" else LOW
    if len(gone) != 1 or not blank.exact or blank.value != value:
        return
    base, some = record.gives[0][0], leaves_some(blank.halves, gone[0], shape)
    if name == "sum":
        notes.finite.add(base)
    if some:
        (notes.positive if name == "sum" else notes.finite).add(base)
    else:
        notes.spotted[base] = name


def _together(notes: Notes, record: Sum) -> None:
    """What blocks give together of which some hide all of a row: one is enough that does not."""
    whole = notes.positive if record.kind == "sum" else notes.finite
    inside = [term.base in whole for term in record.terms]
    rest = [t for t, there in zip(record.terms, inside, strict=True) if not there]
    spotted = all(notes.spotted.get(t.base) == record.kind for t in rest) and all(
        map(_rises, record.terms)
    )
    if rest and spotted and any(inside):
        whole.add(record.gives)


def _added(notes: Notes, record: Sum) -> None:
    """A sum is -inf where one term is, and 0 where all are."""
    if notes.spotted and record.kind in ("sum", "max"):
        _together(notes, record)
    if record.kind != "sum" or not any(blank_of(notes, term.base) for term in record.terms):
        return
    found = [_term(notes, term) for term in record.terms]
    values = {blank.value for blank in found if blank is not None}
    if values == {0} and all(blank is not None for blank in found):
        every = [set(blank.halves) for blank in found if blank is not None]
        both = set.intersection(*every)
        exact = all(b is not None and b.exact and set(b.halves) == both for b in found)
        if both:
            notes.blanks[record.gives] = Blank(0, tuple(sorted(both)), exact)
    elif values == {LOW}:
        rest = [t for t, blank in zip(record.terms, found, strict=True) if blank is None]
        known = [blank for blank in found if blank is not None]
        if _finite(notes, rest) and all(blank.exact for blank in known):
            halves = tuple(dict.fromkeys(half for blank in known for half in blank.halves))
            notes.blanks[record.gives] = Blank(LOW, halves, True)


def _term(notes: Notes, term: View) -> Blank | None:
    """What is known of a term, in the dimensions of the sum."""
    blank = blank_of(notes, term.base)
    if blank is None or (blank.value and not _rises(term)):
        return None
    places = whole_dims(term)
    kept = [half.renamed(places) for half in blank.halves]
    found = tuple(half for half in kept if half is not None)
    exact = blank.exact and len(found) == len(kept) and (bool(blank.value) or _rises(term))
    return Blank(blank.value, found, exact) if found else None


# ---- what a reduction does not see
def fades(notes: Notes, record: Operator) -> Iterator[Half]:
    """In labels where what an operator adds up is 0, or -inf where it takes the maximum: by one
    label that it adds up. (Of two, each could be left out in part for the sake of the other.)"""
    if record.signature not in ("sum", "contract", "max"):
        return
    reduced = {k for k, label in enumerate(record.labels) if label.kind in ("sum", "max")}
    value = LOW if record.signature == "max" else 0
    for place in range(len(record.operands)):
        blank = operand_blank(notes, record, place)
        rest = [v for i, v in enumerate(record.operands) if i != place]
        if blank is not None and blank.value == value and _finite(notes, rest):
            yield from (half for half in blank.halves if len(reduced & {half.row, half.col}) == 1)
