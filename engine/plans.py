"""Join orders for the semi-naive versions of recursive rules.

Soufflé evaluates a recursive rule once for each atom of its own component, with only the
new rows of that atom, but joins in source order each time. A plan puts that atom first and
then always the atom of which most columns are known.
"""

from __future__ import annotations

from .check import bound_by_equations, unpacked
from .program import Atom, Clause, Expr, Nil, Num, Op, Program, Sym, Var, variables
from .strata import components, dependencies

# Version of the rule -> the places of its positive atoms, counted from 0, in join order.
Orders = dict[int, tuple[int, ...]]


def join_plans(program: Program) -> list[Orders]:
    """The orders for each clause; none where the clause is not recursive or has one atom."""
    component = components(dependencies(program))
    return [_orders(clause, component) for clause in program.clauses]


def _orders(clause: Clause, component: dict[str, int]) -> Orders:
    atoms = [literal for literal in clause.body if isinstance(literal, Atom)]
    own = component[clause.head.relation]
    recursive = [place for place, atom in enumerate(atoms) if component[atom.relation] == own]
    found = {v: _order(clause, atoms, place) for v, place in enumerate(recursive) if place}
    return {version: order for version, order in found.items() if order is not None}


def _order(clause: Clause, atoms: list[Atom], first: int) -> tuple[int, ...] | None:
    """The order that begins with an atom; None if some atom could not use an index."""
    apart = set().union(*(unpacked(literal) for literal in clause.body))
    order, bound = [first], _bound_after(clause, atoms[first], set())
    rest = [place for place in range(len(atoms)) if place != first]
    while rest:
        place = max(rest, key=lambda place: _known(atoms[place], bound - apart))
        if not _joins(atoms[place], bound - apart):
            return None
        rest.remove(place)
        order.append(place)
        bound = _bound_after(clause, atoms[place], bound)
    return tuple(order)


def _bound_after(clause: Clause, atom: Atom, bound: set[str]) -> set[str]:
    bound = bound.union(*(variables(arg) for arg in atom.args))
    return bound_by_equations(clause, bound)


def _joins(atom: Atom, bound: set[str]) -> bool:
    """Is there a column to look the atom's rows up by?"""
    return not atom.args or any(isinstance(a, Var) and a.name in bound for a in atom.args)


def _known(atom: Atom, bound: set[str]) -> tuple[bool, bool, int]:
    """Can the atom be looked up, are all its columns known, and how many of them?"""
    known = sum(_is_known(arg, bound) for arg in atom.args)
    return _joins(atom, bound), known == len(atom.args), known


def _is_known(expr: Expr, bound: set[str]) -> bool:
    if isinstance(expr, Var):
        return expr.name in bound
    if isinstance(expr, Op):
        return variables(expr) <= bound
    return isinstance(expr, Num | Sym | Nil)
