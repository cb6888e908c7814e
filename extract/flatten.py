"""Sums of sums: a sum that only another one uses, itself or in what it adds up, becomes part of it.

Both forms are kept, the sum as written and the flat one, since the other side may have used the
inner sum twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gg_datalog.extract.records import Sum
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.side import Side, collected
from gg_datalog.extract.view import Base, View, compose

SHORT = 12
"""A sum within another one has a flat form of its own up to so many terms."""


def uses(side: Side, live: set[Base], outputs: Iterable[Base]) -> Counter[Base]:
    """How often each base tensor is an operand, outputs counted too."""
    count: Counter[Base] = Counter(outputs)
    for op in side.operators:
        if any(b in live for b, _ in op.gives):
            count.update(v.base for v in op.operands)
    for add in side.sums:
        if add.gives in live:
            count.update(v.base for v in add.terms)
    for cut in side.slices:
        if cut.gives in live:
            count[cut.of.base] += 1
    for cat in side.concats:
        if cat.gives in live:
            count.update(v.base for v, _ in cat.members)
    for add in side.spread.values():
        if add.gives in live:
            count.update(v.base for v in add.terms)
    return count


def flat_sums(side: Side, live: set[Base], count: Counter[Base]) -> list[Sum]:
    """A flat form of every outermost sum that contains others, or multiples of others; and of the
    sequential sums within, where it is short: the ranks may have added up that much of it."""
    found: list[Sum] = []
    opened: set[Base] = set()
    for add in reversed(side.sums):  # what is added up later contains what was before
        within = add.gives in opened
        if add.gives not in live or (within and side.name == "dist"):
            continue
        terms, inside = _opened(add, count, side, SHORT if within else None)
        opened |= inside
        if within and len(terms) > SHORT:
            continue
        if len(terms) > len(add.terms) or (inside and len(terms) > 1):
            found.append(
                Sum(f"{add.name}?flat", add.kind, terms, add.gives, add.target, add.node, add.rank)
            )
    return found[::-1]


def _opened(
    add: Sum, count: Counter[Base], side: Side, most: int | None
) -> tuple[list[View], set[Base]]:
    """The terms of a sum with those sums opened that nothing outside of it uses, and these. (An
    average that each rank adds its own to before all is averaged again is used once per rank.) So
    are those of the taps of a convolution, to which neighbours add what they have. Where they are
    more than ``most`` not all are opened."""
    terms, inside, spread = list(add.terms), set[Base](), side.spread
    uses = Counter(t.base for t in terms)
    shut: set[Base] = set()
    while todo := {t.base for t in terms if _may_open(t, add.kind, uses, count, side)} - shut:
        for base in todo:
            wider = [part for term in terms for part in _parts(term, base, add.kind, spread)]
            if None in wider:
                shut.add(base)
                continue
            terms = [view for view in wider if view is not None]
            uses.update(part.base for part in _terms(base, add.kind, spread))
            inside.add(base)
        if most is not None and len(terms) > most:
            break
    if add.kind != "sum":
        return list(dict.fromkeys(terms)), inside
    return collected(terms) or terms, inside


def _terms(base: Base, kind: str, spread: Mapping[Base, Sum]) -> list[View]:
    """What is added up to a base tensor (what it is the largest or smallest of); nothing where it
    is none."""
    made = spread.get(base, base.made)
    return made.terms if isinstance(made, Sum) and made.kind == kind else []


def _parts(term: View, base: Base, kind: str, spread: Mapping[Base, Sum]) -> list[View | None]:
    """The term, or what it adds up where it is ``base``."""
    if term.base is not base:
        return [term]
    return [compose(term, t.dims, t.base, t.scale) for t in _terms(base, kind, spread)]


def _may_open(term: View, kind: str, uses: Counter[Base], count: Counter[Base], side: Side) -> bool:
    """Is it a sum that nothing else uses? (Of an extremum a multiple is another one.)"""
    plain = kind == "sum" or term.scale == ONE
    alone = term.base in side.taps or uses[term.base] == count[term.base]
    return plain and alone and bool(_terms(term.base, kind, side.spread))
