"""Scalars that depend on data, as factors: ``x / n * n`` is x, and ``x * (1 / n)`` is ``x / n``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gg_datalog.extract.context import Context
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.exponent_rules import quotient
from gg_datalog.extract.late import note_divided
from gg_datalog.extract.lower_mask import operands_of
from gg_datalog.extract.lower_movement import stretched
from gg_datalog.extract.records import Operator, Sum
from gg_datalog.extract.scale import ONE, Scale
from gg_datalog.extract.view import Base, View, broadcast, compose

MOST = 16  # factors of one product that are looked at
PLAIN = ("mul", "div")


@dataclass
class Factors:
    """``scale`` times ``core`` (a tensor that has dimensions, or nothing) times the scalars
    ``over``, divided by the scalars ``under``."""

    core: View | None = None
    scale: Scale = ONE
    over: list[Base] = field(default_factory=list)
    under: list[Base] = field(default_factory=list)

    def divided(self) -> Factors | None:
        """1 divided by it; None where that would divide by a tensor that has dimensions."""
        if self.core is not None or self.scale.zero:
            return None
        return Factors(None, self.scale.inverse(), self.under, self.over)

    def times(self, other: Factors) -> Factors | None:
        """The product; None of two tensors that have dimensions."""
        if self.core is not None and other.core is not None:
            return None
        core, by = self.core or other.core, self.scale * other.scale
        return Factors(core, by, self.over + other.over, self.under + other.under)

    def shortened(self) -> list[Base]:
        """Takes away what stands on both sides of the line."""
        common = [base for base in self.under if base in self.over]
        for base in common:
            if base in self.over and base in self.under:
                self.over.remove(base)
                self.under.remove(base)
        return common


def factors(ctx: Context, view: View, room: int = MOST) -> Factors:
    """What a tensor is a product of, as far as products with scalars and quotients by them say."""
    made, base = view.base.made, view.base
    if ctx.side.is_one(view):
        return Factors(None, view.scale)
    atom = Factors(view) if base.shape else Factors(None, view.scale, [base])
    if room == 0 or not isinstance(made, Operator) or made.signature not in PLAIN:
        return atom
    both = operands_of(base)
    if both is None or base.ring or made.gives[0][0] is not base:
        return atom
    parts = [_seen_as(view, term) for term in both]
    if parts[0] is None or parts[1] is None:
        return atom
    one, other = (factors(ctx, part, room - 1) for part in parts if part is not None)
    right = other.divided() if made.signature == "div" else other
    found = None if right is None else one.times(right)
    if found is None or len(found.over) + len(found.under) > MOST:
        return atom
    found.scale = found.scale * view.scale
    return found


def _seen_as(view: View, term: View) -> View | None:
    """An operand of what gives ``view``, in the dimensions of ``view``; a scalar as it is."""
    if not term.base.shape:
        return View(term.base, (), term.scale)
    if any(d.dim < 0 for dim in term.dims for d in dim):
        return None
    return compose(View(view.base, view.dims), term.dims, term.base, term.scale)


def shortened(ctx: Context, a: View, b: View, shape: Sequence[int], name: str) -> View | None:
    """``a`` times (``mul``) or divided by ``b`` (``div``) where a scalar stands above and below the
    line; None where none does."""
    if not is_float(ctx.node.dtype or "") or not any(_is_quotient(v.base) for v in (a, b)):
        return None
    right = factors(ctx, b) if name == "mul" else factors(ctx, b).divided()
    found = None if right is None else factors(ctx, a).times(right)
    gone = [] if found is None else found.shortened()
    if found is None or not gone or any(base.kind == "constant" for base in gone):
        return None
    for base in gone:
        ctx.notes.assume("divisors", f"`{base.node}` is not 0: it divides what it multiplies")
    short = stretched(_product(ctx, found), shape)
    linear = (0, 1) if name == "mul" else (0,)
    ctx.side.alternative(short, ctx.elementwise(name, [a, b], linear=linear)[0])  # as it is written
    return short


def divided(ctx: Context, a: View, b: View) -> View:
    """``a`` divided by ``b``, element by element."""
    short = shortened(ctx, a, b, broadcast([a, b]), "div")
    if short is not None:
        return short
    made = ctx.elementwise("div", [a, b], linear=(0,))[0]
    count = _count_of(ctx, b)
    if count is not None:
        text = f"`{count.base.node}` is not 0: it divides, where it is at least 1"
        ctx.notes.assume("divisors", text)
        plain = divided(ctx, a, count)
        ctx.side.alternative(plain, made)  # as it is written
        return plain
    note_divided(ctx, made, a, b)
    term_by_term(ctx, made, a, b, "div")
    return quotient(ctx, made, a, b)


def _count_of(ctx: Context, by: View) -> View | None:
    """The number n, where ranks divide by max(n, 1), in place of a sequential program that divides
    by what is undefined for 0: of whole numbers that are none, at least 0, it is n."""
    made = by.base.made
    if ctx.side.name != "dist" or ctx.side.bounds or not isinstance(made, Operator):
        return None
    if by.base.shape or not AT_LEAST_1.match(made.signature) or len(made.operands) != 1:
        return None
    of = made.operands[0]
    whole = of.base.range is not None and of.base.range[0] >= 0 and of.scale.integer is not None
    positive = of.scale.ratio > 0 and not of.base.ring
    return of.scaled(by.scale) if whole and positive else None


AT_LEAST_1 = re.compile(r"clamp(_min)?\(%, (min=)?1\)( of \w+)?$")


def _is_quotient(base: Base) -> bool:
    made = base.made
    return isinstance(made, Operator) and made.signature in PLAIN


def as_quotient(ctx: Context, made: View, a: View, b: View) -> None:
    """Notes a product with 1 / n as a quotient."""
    for x, by in ((a, b), (b, a)):
        if x.base.shape and not by.base.shape and _is_quotient(by.base):
            found = factors(ctx, by)
            if len(found.under) == 1 and not found.over:
                other = _product(ctx, Factors(x, found.scale, [], found.under))
                ctx.side.alternative(made, other)
                return


def term_by_term(ctx: Context, made: View, x: View, by: View, name: str) -> None:
    """Notes a multiple of a scalar sum (a loss of several parts) as the sum of multiples."""
    if made.base.shape or not is_float(ctx.node.dtype or ""):
        return
    terms = _summands(x, MOST)
    if len(terms) in range(2, MOST) and not by.base.shape:
        both = ([View(t.base, (), t.scale), View(by.base, (), by.scale)] for t in terms)
        of = [_multiple(ctx, a, b, name) for a, b in both]
        ctx.side.sum_of_multiples(made.base, [v.scaled(made.scale.inverse()) for v in of])


def _multiple(ctx: Context, a: View, b: View, name: str) -> View:
    linear = (0, 1) if name == "mul" else (0,)
    short = shortened(ctx, a, b, (), name)
    return ctx.elementwise(name, [a, b], linear=linear)[0] if short is None else short


def _summands(x: View, room: int) -> list[View]:
    """The terms that one rank adds up to a scalar."""
    made = x.base.made
    if not isinstance(made, Sum) or made.kind != "sum" or x.base.shape or room < len(made.terms):
        return [x]
    if any(t.base.rank != x.base.rank or t.base.ring for t in made.terms):
        return [x]
    parts = [v for t in made.terms for v in _summands(t.scaled(x.scale), room - len(made.terms))]
    return parts


def _product(ctx: Context, of: Factors) -> View:
    """The product as operators, with one quotient."""
    above = _multiplied(ctx, ([of.core] if of.core else []) + [View(x, ()) for x in of.over])
    if of.under:
        below = _multiplied(ctx, [View(x, ()) for x in of.under])
        above = ctx.elementwise("div", [above, below], linear=(0,))[0]
    return above.scaled(of.scale)


def _multiplied(ctx: Context, views: Sequence[View]) -> View:
    made = views[0] if views else ctx.side.constant(ONE)
    for view in views[1:]:
        made = ctx.elementwise("mul", [made, view], linear=(0, 1))[0]
    return made
