"""Checks a program before it is run: arity, types, bound variables, stratification."""

from __future__ import annotations

from collections.abc import Iterable

from gg_datalog.foundation.errors import EngineError

from .program import (
    Atom,
    Clause,
    Comparison,
    Expr,
    Literal,
    Negation,
    Op,
    Program,
    Rec,
    Var,
    Wild,
    variables,
)
from .strata import components
from .typing_rules import ClauseTypes


def check_program(program: Program) -> list[ClauseTypes]:
    """Refuse what is outside the subset or unsafe; the variable types of each clause."""
    for clause in program.clauses:
        _check_bound(clause)
    typed = [ClauseTypes(program, clause) for clause in program.clauses]
    _check_strata(program)
    return typed


def bound_variables(clause: Clause) -> set[str]:
    """The variables that the positive part of the body gives a value to."""
    atoms = [literal for literal in clause.body if isinstance(literal, Atom)]
    return bound_by_equations(
        clause, set().union(*(pattern_variables(arg) for atom in atoms for arg in atom.args))
    )


def bound_by_equations(clause: Clause, bound: set[str]) -> set[str]:
    """The variables, and those to which the equations of the body then give a value."""
    equations = [lit for lit in clause.body if isinstance(lit, Comparison) and lit.op == "="]
    grew = True
    while grew:
        found = set().union(*(_binds(equation, bound) for equation in equations)) - bound
        bound = bound | found
        grew = bool(found)
    return bound


def unpacked(literal: Literal) -> set[str]:
    """The variable that an equation takes apart."""
    if not isinstance(literal, Comparison) or literal.op != "=":
        return set()
    return {
        one.name
        for one, other in _sides(literal)
        if isinstance(one, Var) and isinstance(other, Rec)
    }


def pattern_variables(expr: Expr) -> set[str]:
    """The variables that matching a value against an expression binds."""
    if isinstance(expr, Var):
        return {expr.name}
    if isinstance(expr, Rec):
        return set().union(*(pattern_variables(arg) for arg in expr.args))
    return set()


def _binds(equation: Comparison, bound: set[str]) -> set[str]:
    found: set[str] = set()
    for target, value in _sides(equation):
        known = not isinstance(value, Rec | Wild) and variables(value) <= bound
        if known and isinstance(target, Var | Rec):
            found |= pattern_variables(target)
    return found


def _sides(equation: Comparison) -> Iterable[tuple[Expr, Expr]]:
    yield equation.left, equation.right
    yield equation.right, equation.left


def _check_bound(clause: Clause) -> None:
    bound = bound_variables(clause)
    for literal in clause.body:
        if isinstance(literal, Comparison):
            _refuse_built_record(literal, bound)
    for literal in (clause.head, *clause.body):
        _refuse_unbound(literal, bound)
    _refuse_wild(clause)


def _refuse_built_record(literal: Comparison, bound: set[str]) -> None:
    for side, other in _sides(literal):
        if not isinstance(side, Rec):
            continue
        fits = literal.op in ("=", "!=") and isinstance(other, Var) and other.name in bound
        if not fits:
            raise EngineError(
                "a record is built in a body; `x = [...]` and `x != [...]` need x bound by an atom",
                str(literal.pos),
                "build records in heads only, take them apart in bodies",
            )


def _refuse_unbound(literal: Literal, bound: set[str]) -> None:
    if isinstance(literal, Negation):
        for arg in literal.atom.args:
            if isinstance(arg, Rec):
                raise EngineError("a record is built in a negation", str(literal.pos))
    missing = sorted(set().union(*(variables(expr) for expr in _expressions(literal))) - bound)
    if missing:
        raise EngineError(
            f"variable {missing[0]} is not bound by a positive atom", str(literal.pos)
        )


def _refuse_wild(clause: Clause) -> None:
    if any(_has_wild(arg, into_records=True) for arg in clause.head.args):
        raise EngineError(f"_ in the head of a rule for {clause.head.relation}", str(clause.pos))
    for literal in clause.body:
        if isinstance(literal, Comparison):
            refused = any(_has_wild(side, literal.op != "=") for side in _expressions(literal))
        else:
            refused = any(_has_wild(a) for a in _expressions(literal) if not isinstance(a, Wild))
        if refused:
            raise EngineError("_ in a comparison or in arithmetic", str(literal.pos))


def _expressions(literal: Literal) -> tuple[Expr, ...]:
    if isinstance(literal, Comparison):
        return literal.left, literal.right
    return literal.atom.args if isinstance(literal, Negation) else literal.args


def _has_wild(expr: Expr, into_records: bool = False) -> bool:
    if isinstance(expr, Op) or (into_records and isinstance(expr, Rec)):
        return any(_has_wild(arg, into_records) for arg in expr.args)
    return isinstance(expr, Wild)


def _check_strata(program: Program) -> None:
    edges: dict[str, set[str]] = {name: set() for name in program.declarations}
    for clause in program.clauses:
        for literal in clause.body:
            if not isinstance(literal, Comparison):
                atom = literal.atom if isinstance(literal, Negation) else literal
                edges[clause.head.relation].add(atom.relation)
    component = components(edges)
    for clause in program.clauses:
        for literal in clause.body:
            if isinstance(literal, Negation):
                name = literal.atom.relation
                if component[name] == component[clause.head.relation]:
                    raise EngineError(
                        f"negation of {name} inside its own recursion"
                        f" (rule for {clause.head.relation})",
                        str(literal.pos),
                    )
