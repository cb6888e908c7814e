"""Patterns of rules against literals that hold: what a variable of the pattern stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .bodies import used
from .program import Atom, Comparison, Expr, Literal, Negation, Op, Rec, Sym, Var, Wild

Values = dict[str, Expr]


def matched(pattern: Literal, fact: Literal, values: Values) -> Values | None:
    """The values with which the pattern is the fact; None where there are none."""
    if isinstance(pattern, Comparison):
        if not isinstance(fact, Comparison) or pattern.op != fact.op:
            return None
        return all_matched((pattern.left, pattern.right), (fact.left, fact.right), values)
    if isinstance(pattern, Negation) and isinstance(fact, Negation):
        # Of `_` all rows are meant there: it is matched as it is.
        pattern, fact = _strict(pattern.atom), _strict(fact.atom)
    if isinstance(pattern, Negation):
        return None
    if not isinstance(fact, Atom) or pattern.relation != fact.relation:
        return None
    return all_matched(pattern.args, fact.args, values)


def all_matched(patterns: Sequence[Expr], found: Sequence[Expr], values: Values) -> Values | None:
    """The same of arguments, one by one."""
    current: Values | None = values
    for pattern, expr in zip(patterns, found, strict=True):
        current = None if current is None else _one_matched(pattern, expr, current)
    return current


def _one_matched(pattern: Expr, found: Expr, values: Values) -> Values | None:
    if isinstance(pattern, Wild):
        return values
    if isinstance(pattern, Var):
        known = values.get(pattern.name)
        if known is None:
            return {**values, pattern.name: found}
        return values if known == found else None
    if isinstance(pattern, Rec) and isinstance(found, Rec):
        if len(pattern.args) != len(found.args):
            return None
        return all_matched(pattern.args, found.args, values)
    if isinstance(pattern, Op) and isinstance(found, Op) and pattern.op == found.op:
        if len(pattern.args) == len(found.args):
            return all_matched(pattern.args, found.args, values)
        return None
    return values if pattern == found else None


# ---- what stands for what -----------------------------------------------------------------------
def same(goal: Atom, fact: Literal) -> bool:
    """Whether both are one atom."""
    return isinstance(fact, Atom) and (goal.relation, goal.args) == (fact.relation, fact.args)


def named(literal: Literal, numbers: Iterator[int]) -> Literal:
    """The literal as a fact: each `_` is some value of its own."""
    if isinstance(literal, Negation):
        return literal
    if isinstance(literal, Comparison):
        left, right = (_some(side, numbers) for side in (literal.left, literal.right))
        return Comparison(literal.op, left, right, literal.pos)
    return Atom(literal.relation, tuple(_some(a, numbers) for a in literal.args), literal.pos)


def _some(expr: Expr, numbers: Iterator[int]) -> Expr:
    if isinstance(expr, Wild):
        return Var(f"{next(numbers)}")
    if isinstance(expr, Rec):
        return Rec(tuple(_some(arg, numbers) for arg in expr.args))
    return expr


def put_in_all(literal: Literal, values: Values, numbers: Iterator[int]) -> Literal:
    """The literal of a rule with what is known; a variable that is not known becomes some value."""
    for name in sorted(used(literal) - values.keys()):
        values[name] = Var(f"{next(numbers)}")
    if isinstance(literal, Negation):
        atom = literal.atom
        return Negation(Atom(atom.relation, all_put(atom.args, values), atom.pos))
    if isinstance(literal, Comparison):
        left, right = all_put((literal.left, literal.right), values)
        return Comparison(literal.op, left, right, literal.pos)
    return Atom(literal.relation, all_put(literal.args, values), literal.pos)


def all_put(args: Sequence[Expr], values: Values) -> tuple[Expr, ...]:
    """The patterns with what is known of them; what is not becomes `_`."""
    return tuple(_put_in(arg, values) for arg in args)


def _strict(atom: Atom) -> Atom:
    args = tuple(Sym("_") if isinstance(arg, Wild) else arg for arg in atom.args)
    return Atom(f"!{atom.relation}", args, atom.pos)


def _put_in(expr: Expr, values: Values) -> Expr:
    """The pattern with what is known of it."""
    if isinstance(expr, Var):
        return values.get(expr.name, Wild())
    if isinstance(expr, Rec):
        return Rec(all_put(expr.args, values))
    if isinstance(expr, Op):
        return Op(expr.op, all_put(expr.args, values))
    return expr
