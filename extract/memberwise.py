"""Products over a dimension along which a tensor is put together: member by member.

``cat([a, b]) @ w`` is ``a @ w0 + b @ w1`` with the rows of ``w`` that meet ``a`` and ``b``. Members
may be open sums of different reductions (gradients of keys and of values on their way to the input
of a fused projection): their concatenation is a part of nothing, but each product is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from gg_datalog.extract.context import Context
from gg_datalog.extract.dtypes import is_integer
from gg_datalog.extract.labels import Letters
from gg_datalog.extract.records import Concat
from gg_datalog.extract.view import Digit, View

MOST = 16
"""Of how many members at most."""


class Split(NamedTuple):
    """Members of one operand with what they meet of the other one, and the letters of both."""

    pairs: list[tuple[View, View]]
    lx: list[str]
    ly: list[str]


def splits_of(
    ctx: Context, x: View, lx: Letters, y: View, ly: Letters, out: Letters
) -> Iterator[Split]:
    """The ways in which ``x`` falls apart along a dimension that is contracted."""
    made = x.base.made
    if not isinstance(made, Concat) or not _of_interest(ctx, made):
        return
    for place, letter in enumerate(lx):
        if letter in out or letter not in ly:
            continue
        dims = _around(x.dims[place], made)
        found = None if dims is None else _split(ctx, x, lx, y, ly, place, dims)
        if found is not None:
            yield found


def _of_interest(ctx: Context, made: Concat) -> bool:
    """Is it written so by the program, and may the other side know the members? Of what is cut
    along the dimension itself every rank has narrower ones, and nothing is open in them."""
    side, widths = ctx.side, tuple(v.shape[made.dim] for v, _ in made.members)
    if not made.local or is_integer(ctx.node.dtype or "") or len(widths) > MOST:
        return False
    if any(side.is_zero(v) for v, _ in made.members):
        return False
    side.widths.add(widths)
    return side.others is None or side.mesh or widths in side.others


Around = tuple[tuple[Digit, ...], tuple[Digit, ...], tuple[Digit, ...]]


def _around(dim: tuple[Digit, ...], made: Concat) -> Around | None:
    """The digits of a dimension before, at and after the one that is put together."""
    whole = Digit(made.dim, made.gives.shape[made.dim], 1)
    if whole not in dim:
        return None
    at = dim.index(whole)
    return dim[:at], dim[at : at + 1], dim[at + 1 :]


def _split(
    ctx: Context, x: View, lx: Letters, y: View, ly: Letters, place: int, dims: Around
) -> Split | None:
    sizes = [prod(digit.extent for digit in dim) for dim in dims]
    other = list(ly).index(lx[place])
    apart = y.reshaped([*y.shape[:other], *sizes, *y.shape[other + 1 :]])
    made = x.base.made
    if apart is None or not isinstance(made, Concat):
        return None
    one = View(x.base, (*x.dims[:place], *dims, *x.dims[place + 1 :]), x.scale)
    pairs = []
    for member, offset in made.members:
        width = member.shape[made.dim]
        a = ctx.side.slice(one, place + 1, offset, width)
        b = ctx.side.slice(apart, other + 1, offset, width)
        if a is None or b is None or a.base is x.base:
            return None
        pairs.append((a, b))
    return Split(pairs, _letters(lx, place), _letters(ly, other))


def _letters(letters: Letters, place: int) -> list[str]:
    """A name for each of the three dimensions that one falls into."""
    apart = [f"{letters[place]}{end}" for end in ("<", "", ">")]
    return [*letters[:place], *apart, *letters[place + 1 :]]
