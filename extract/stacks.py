"""Operators on a stack of tensors (statistics that all ranks have gathered, say), tensor by tensor.

What one position of the stack holds is a tensor of its own, with a form of its own
(:mod:`.exponents`): the logarithms of sums over other keys. So ``exp(stack)`` is the stack of the
exponentials, and a sum over the stack is the sum of its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gg_datalog.extract.records import Concat, Sum
from gg_datalog.extract.view import Base, Digit, View, compose

if TYPE_CHECKING:
    from gg_datalog.extract.side import Side

MOST = 16
"""Of how many tensors at most."""


def stacked(side: Side, x: View) -> int | None:
    """The dimension of a view that has a position for each of the tensors that were put together,
    if something is known of them."""
    made, notes = x.base.made, side.notes
    if not side.exponentials or not isinstance(made, Concat) or len(made.members) > MOST:
        return None
    known = (notes.weighted, notes.logarithms, notes.positive)
    if not any(base in of for base in _bases(made) for of in known):
        return None
    widths = {view.shape[made.dim] for view, _ in made.members}
    if len(widths) > 1:
        return None
    whole = (Digit(made.dim, len(made.members), widths.pop()),)
    at = next((i for i, dim in enumerate(x.dims) if dim == whole), None)
    digits = [d for i, dim in enumerate(x.dims) if i != at for d in dim if d.dim == made.dim]
    return at if all(d.stride * d.extent <= whole[0].stride for d in digits) else None


def _bases(made: Concat) -> Iterator[Base]:
    """The members of a stack, and the terms of those that are sums."""
    for view, _ in made.members:
        yield view.base
        if isinstance(view.base.made, Sum):
            yield from (term.base for term in view.base.made.terms)


def member(side: Side, x: View, dim: int, place: int) -> View | None:
    """What a view holds at a position of a dimension: of a stack its member."""
    made = x.base.made
    if stacked(side, x) == dim and isinstance(made, Concat):
        of = made.members[place][0]
        left = replace(x, dims=tuple(() if i == dim else d for i, d in enumerate(x.dims)))
        return compose(left, of.dims, of.base, of.scale)
    return side.slice(x, dim, place, 1) if x.dims[dim] else x


def rows_of(side: Side, views: Sequence[View], dim: int, extent: int) -> list[list[View]] | None:
    """Per position of a dimension what the views hold there; None where that is no view."""
    rows = [[member(side, v, dim, k) for v in views] for k in range(extent)]
    found = [[v for v in row if v is not None] for row in rows]
    return found if all(len(row) == len(views) for row in found) else None


def by_member(
    side: Side, views: Sequence[View], apply: Callable[[list[View]], Sequence[View]]
) -> list[View] | None:
    """The results of something that works element by element, for views of one number of dimensions
    of which one is a stack; None where none is."""
    at = next((k for v in views if (k := stacked(side, v)) is not None), None)
    if at is None:
        return None
    extent = max(v.shape[at] for v in views)
    rows = rows_of(side, views, at, extent)
    if rows is None:
        return None
    local = all(v.base.made.local for v in views if isinstance(v.base.made, Concat))
    done = [apply(row) for row in rows]
    made = [side.concat(list(parts), at, local) for parts in zip(*done, strict=True)]
    whole = [view for view in made if view is not None]
    return whole if len(whole) == len(made) else None


def members_of(side: Side, x: View, dims: Sequence[int]) -> list[View] | None:
    """The members of a stack, where it is one along one of these dimensions."""
    at = stacked(side, x)
    if at is None or at not in dims:
        return None
    rows = rows_of(side, [x], at, x.shape[at])
    return None if rows is None else [row[0] for row in rows]
