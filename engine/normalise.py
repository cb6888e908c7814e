"""Brings a body into the shape that clingo joins well: patterns inside atoms.

Each `x = y` is replaced by renaming, each unpacking `x = [a, b]` by the pattern in the
atoms that bind x, and arithmetic inside a positive atom by an equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from gg_datalog.foundation.errors import EngineError

from .program import (
    NUMBER,
    Atom,
    Clause,
    Comparison,
    Expr,
    Literal,
    Negation,
    Nil,
    Num,
    Op,
    Pos,
    Rec,
    Sym,
    Var,
    Wild,
    variables,
)
from .typing_rules import ClauseTypes

Test: TypeAlias = Negation | Comparison


@dataclass(frozen=True, slots=True)
class Body:
    """A clause with its body split into joins and tests."""

    head: Atom
    atoms: tuple[Atom, ...]
    tests: tuple[Test, ...]


def normalise(clause: Clause, types: ClauseTypes) -> Body | None:
    """The clause with unpackings and renamings carried out; None if it can never hold."""
    head = clause.head
    literals = _Flattener(types).flatten(clause.body)
    while True:
        literals = [part for literal in literals for part in _split(literal, types)]
        found = _next_replacement(literals)
        if found is None:
            break
        equation, name, value = found
        literals = [_replace(lit, name, value) for lit in literals if lit is not equation]
        head = _replace_atom(head, name, value)
    if any(_is_false(literal) for literal in literals):
        return None
    _refuse_cycles(literals)
    atoms = tuple(literal for literal in literals if isinstance(literal, Atom))
    tests = tuple(literal for literal in literals if not isinstance(literal, Atom))
    return Body(head, atoms, tests)


class _Flattener:
    """Names each `_` of the positive part and moves arithmetic out of patterns.

    Fresh variables have numbers for names, which no source variable has.
    """

    def __init__(self, types: ClauseTypes) -> None:
        self._types = types
        self._numbers = count()
        self._equations: list[Literal] = []

    def flatten(self, body: tuple[Literal, ...]) -> list[Literal]:
        """The literals, each followed by the equations it gave rise to."""
        result: list[Literal] = []
        for literal in body:
            self._equations = []
            result.append(self._literal(literal))
            result += self._equations
        return result

    def _literal(self, literal: Literal) -> Literal:
        pos = literal.pos
        if isinstance(literal, Atom):
            return Atom(literal.relation, tuple(self._flat(a, pos) for a in literal.args), pos)
        if isinstance(literal, Negation):
            return literal
        left, right = literal.left, literal.right
        kind = self._types.kind(left) or self._types.kind(right) or NUMBER
        left = self._flat(left, pos) if isinstance(left, Rec) else left
        right = self._flat(right, pos) if isinstance(right, Rec) else right
        return Comparison(literal.op, left, right, pos, kind)

    def _flat(self, expr: Expr, pos: Pos) -> Expr:
        if isinstance(expr, Rec):
            return Rec(tuple(self._flat(arg, pos) for arg in expr.args))
        if isinstance(expr, Wild):
            return Var(f"{next(self._numbers)}")
        if isinstance(expr, Op):
            variable = Var(f"{next(self._numbers)}")
            self._equations.append(Comparison("=", variable, expr, pos))
            return variable
        return expr


def _split(literal: Literal, types: ClauseTypes) -> list[Literal]:
    """An equation of two patterns as the equations of their parts."""
    if not isinstance(literal, Comparison) or literal.op != "=":
        return [literal]
    left, right = literal.left, literal.right
    if not (isinstance(left, Rec) and isinstance(right, Rec)):
        return [literal]
    program = types.program
    kinds = [program.kind(column.type) for column in program.types[literal.kind].fields]
    parts = [
        Comparison("=", one, other, literal.pos, kind)
        for one, other, kind in zip(left.args, right.args, kinds, strict=True)
    ]
    return [piece for part in parts for piece in _split(part, types)]


def _refuse_cycles(literals: list[Literal]) -> None:
    """What is left to take apart would put a record into itself; Soufflé crashes there."""
    for literal in literals:
        match literal:
            case Comparison("=", Rec()) | Comparison("=", _, Rec()):
                raise EngineError("a record is taken apart into itself", str(literal.pos))


def _is_false(literal: Literal) -> bool:
    match literal:
        case Comparison("=", Nil(), Rec()) | Comparison("=", Rec(), Nil()):
            return True
    return False


def _next_replacement(literals: list[Literal]) -> tuple[Literal, str, Expr] | None:
    for literal in literals:
        if isinstance(literal, Comparison) and literal.op == "=":
            for side, value in ((literal.left, literal.right), (literal.right, literal.left)):
                simple = isinstance(value, Var | Rec | Sym | Num | Nil)
                if isinstance(side, Var) and simple and side.name not in variables(value):
                    return literal, side.name, value
    return None


def _replace(literal: Literal, name: str, value: Expr) -> Literal:
    if isinstance(literal, Atom):
        return _replace_atom(literal, name, value)
    if isinstance(literal, Negation):
        return Negation(_replace_atom(literal.atom, name, value))
    left, right = _put(literal.left, name, value), _put(literal.right, name, value)
    return Comparison(literal.op, left, right, literal.pos, literal.kind)


def _replace_atom(atom: Atom, name: str, value: Expr) -> Atom:
    return Atom(atom.relation, tuple(_put(arg, name, value) for arg in atom.args), atom.pos)


def _put(expr: Expr, name: str, value: Expr) -> Expr:
    if isinstance(expr, Var):
        return value if expr.name == name else expr
    if isinstance(expr, Rec):
        return Rec(tuple(_put(arg, name, value) for arg in expr.args))
    if isinstance(expr, Op):
        return Op(expr.op, tuple(_put(arg, name, value) for arg in expr.args))
    return expr
