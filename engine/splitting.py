"""Splits the rules in which Soufflé could not join on a record.

Soufflé puts `[f, g]` for every x that a body takes apart by `x = [f, g]`, and where x stands
in two atoms it then scans the second one in full: it has no index on the parts. So such a
rule becomes two: one joins the atoms with x as it is, the other takes x apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from .check import pattern_variables, unpacked
from .program import (
    Atom,
    Clause,
    Column,
    Comparison,
    Declaration,
    Expr,
    Literal,
    Negation,
    Program,
    Rec,
    Var,
    variables,
)
from .strata import dependencies, recursive_clauses
from .typing_rules import ClauseTypes


def split_program(program: Program) -> Program:
    """The program with auxiliary relations; what its own relations hold is the same."""
    declarations = dict(program.declarations)
    recursive = recursive_clauses(program.clauses, dependencies(program))
    clauses: list[Clause] = []
    for clause, is_recursive in zip(program.clauses, recursive, strict=True):
        parts = _split(clause) if is_recursive else None
        if parts is None:
            clauses.append(clause)
            continue
        declaration = _declare(program, clause, parts, _fresh(declarations))
        declarations[declaration.name] = declaration
        clauses += _two_clauses(clause, parts, declaration)
    return replace(program, declarations=declarations, clauses=tuple(clauses))


Parts = tuple[list[Literal], list[Literal]]


def _split(clause: Clause) -> Parts | None:
    """The literals that are joined with the shared records whole, and those left for later."""
    shared = _shared(clause)
    atoms = [literal for literal in clause.body if isinstance(literal, Atom)]
    first = next((atom for atom in atoms if _used(atom) & shared), None)
    if first is None:
        return None
    late = [literal for literal in clause.body if unpacked(literal) & shared]
    late_fields = set().union(*(_used(literal) for literal in late)) - shared
    early: list[Literal] = [first]
    bound = _used(first)
    rest = [literal for literal in clause.body if literal is not first and literal not in late]
    while (found := _next_early(rest, bound, shared, late_fields)) is not None:
        early.append(found)
        rest.remove(found)
        bound |= _used(found)
    later = [literal for literal in clause.body if literal not in early]
    return early, later


def _shared(clause: Clause) -> set[str]:
    """Variables that are taken apart and stand in more than one atom or record."""
    apart: set[str] = set()
    places: Counter[str] = Counter()
    for literal in clause.body:
        apart |= unpacked(literal)
        if isinstance(literal, Atom):
            places.update(_used(literal))
        elif isinstance(literal, Comparison):
            for side in (literal.left, literal.right):
                if isinstance(side, Rec):
                    places.update(pattern_variables(side))
    return {name for name in apart if places[name] > 1}


def _next_early(
    rest: list[Literal], bound: set[str], shared: set[str], late_fields: set[str]
) -> Literal | None:
    for literal in rest:
        used = _used(literal)
        if isinstance(literal, Atom):
            if used & bound and (used & shared or not used & late_fields - bound):
                return literal
        elif used <= bound or (isinstance(literal, Comparison) and _gives(literal, bound)):
            return literal
    return None


def _gives(literal: Comparison, bound: set[str]) -> bool:
    """Does the equation give variables a value from bound ones?"""
    if literal.op != "=":
        return False
    sides = ((literal.left, literal.right), (literal.right, literal.left))
    return any(
        (isinstance(target, Var) and not isinstance(value, Rec) and variables(value) <= bound)
        or (isinstance(target, Rec) and isinstance(value, Var) and value.name in bound)
        for target, value in sides
    )


def _used(literal: Literal) -> set[str]:
    exprs: tuple[Expr, ...]
    if isinstance(literal, Comparison):
        exprs = (literal.left, literal.right)
    else:
        exprs = literal.atom.args if isinstance(literal, Negation) else literal.args
    return set().union(*(variables(expr) for expr in exprs))


def _fresh(declarations: dict[str, Declaration]) -> str:
    number = len(declarations)
    while f"joined_{number}" in declarations:
        number += 1
    return f"joined_{number}"


def _declare(program: Program, clause: Clause, parts: Parts, name: str) -> Declaration:
    early, later = parts
    bound = set().union(*map(_used, early))
    needed = set().union(*map(_used, (clause.head, *later)))
    types = ClauseTypes(program, clause).variables
    columns = tuple(Column(variable, types[variable]) for variable in sorted(bound & needed))
    return Declaration(name, columns, "", clause.pos)


def _two_clauses(clause: Clause, parts: Parts, declaration: Declaration) -> list[Clause]:
    early, later = parts
    link = Atom(
        declaration.name, tuple(Var(column.name) for column in declaration.columns), clause.pos
    )
    return [
        Clause(link, tuple(early), clause.pos),
        Clause(clause.head, (link, *later), clause.pos),
    ]
