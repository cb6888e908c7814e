"""Sums of sums: a sum whose only use is another sum becomes part of it.

Both forms are kept, the sum as written and the flat one, since the other side may have used the
inner sum twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gg_datalog.extract.records import Sum
from gg_datalog.extract.side import Side
from gg_datalog.extract.view import Base, View, compose


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
    """A flat form of every outermost sum that contains another one, or a multiple of one."""
    spread = side.spread
    inner = {
        t.base
        for add in side.sums
        if add.kind == "sum" and add.gives in live
        for t in add.terms
        if _opens(t, count, spread) is not None
    }
    found: list[Sum] = []
    for add in side.sums:
        if add.kind != "sum" or add.gives not in live or add.gives in inner:
            continue
        terms = [leaf for term in add.terms for leaf in _leaves(term, count, spread)]
        if len(terms) > len(add.terms):
            found.append(
                Sum(f"{add.name}?flat", "sum", terms, add.gives, add.target, add.node, add.rank)
            )
    return found


def _opens(term: View, count: Counter[Base], spread: Mapping[Base, Sum]) -> Sum | None:
    """The sum that a term is, where nothing else uses it."""
    made = spread.get(term.base, term.base.made)
    alone = isinstance(made, Sum) and made.kind == "sum" and count[term.base] == 1
    return made if isinstance(made, Sum) and alone else None


def _leaves(term: View, count: Counter[Base], spread: Mapping[Base, Sum]) -> list[View]:
    made = _opens(term, count, spread)
    if made is None:
        return [term]
    seen = [compose(term, t.dims, t.base, t.scale) for t in made.terms]
    if any(v is None for v in seen):
        return [term]
    return [leaf for v in seen if v is not None for leaf in _leaves(v, count, spread)]
