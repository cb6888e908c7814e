"""Translates a checked Soufflé program into clingo's language.

clingo's grounder is a semi-naive evaluator, but it chooses its own join order. So a body
of three or more atoms is chained left-deep, in source order, through auxiliary
predicates: a rule's source order is its join order on both engines. Records are function
terms, taken apart by putting the pattern into the atom that binds them (a separate
``X = f(A,B)`` would be applied after the next join only). Symbols are numbers given by a
table, so that the text stays small; they are compared with = and != only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gg_datalog.foundation.errors import EngineError

from .check import check_program
from .demand import with_demand
from .normalise import Test, normalise
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
    Program,
    Rec,
    Sym,
    Var,
    variables,
)
from .translation import Translated, Translation, need
from .typing_rules import ClauseTypes

WORD_BITS = 32


def relation_name(name: str) -> str:
    """The predicate of a relation."""
    return f"r_{name}"


def record_name(name: str) -> str:
    """The function of a record type."""
    return f"f_{name}"


class Symbols:
    """Gives every distinct string a number."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._numbers: dict[str, int] = {}
        for text in known:
            self.number(text)

    def number(self, text: str) -> int:
        """The number of a string, a new one where it has none."""
        return self._numbers.setdefault(text, len(self._numbers))

    def texts(self) -> list[str]:
        """All strings, in the order of their numbers."""
        return list(self._numbers)


def translated(path: Path) -> Translated:
    """Read a program, and translate it."""
    from .parser import parse_program

    program, symbols = parse_program(path), Symbols()
    translation = translate(program, symbols)
    return Translated(replace(program, clauses=()), translation, tuple(symbols.texts()))


def translate(program: Program, symbols: Symbols) -> Translation:
    """Check a program and translate it; its string constants are added to the symbols."""
    program, result = with_demand(program), Translation()
    result.add("#show.", None)
    for name in program.outputs:
        arity = len(program.declarations[name].columns)
        result.add(f"#show {relation_name(name)}/{arity}.", None)
    for name, declaration in program.declarations.items():
        result.add(f"#defined {relation_name(name)}/{len(declaration.columns)}.", None)
    for number, types in enumerate(check_program(program)):
        clause = program.clauses[number]
        result.needing(need(clause))
        _ClauseWriter(program, types, symbols, result, number).write(clause)
    return result


class _ClauseWriter:
    def __init__(
        self,
        program: Program,
        types: ClauseTypes,
        symbols: Symbols,
        result: Translation,
        number: int,
    ) -> None:
        self.program = program
        self.types = types
        self.symbols = symbols
        self.result = result
        self.number = number

    def write(self, clause: Clause) -> None:
        """Emit the clause as one rule, or as a chain of rules of two atoms each."""
        body = normalise(clause, self.types)
        if body is None:
            return
        atoms, tests = list(body.atoms), list(body.tests)
        step: list[Literal] = [atoms.pop(0)] if atoms else []
        bound = set().union(*(_used(atom) for atom in step))
        carried: list[str] = []
        while len(atoms) > 1:
            step.append(atoms.pop(0))
            bound |= _used(step[-1])
            step += _take_ready(tests, bound)
            later: list[Literal] = [body.head, *atoms, *tests]
            needed = sorted(bound & set().union(*(_used(literal) for literal in later)))
            link = self._link(len(body.atoms) - len(atoms), needed)
            self._emit(link, [*carried, *self._literals(step)], clause.pos)
            carried, step = [link], []
        head = self._atom(body.head)
        self._emit(head, [*carried, *self._literals([*step, *atoms, *tests])], clause.pos)

    def _link(self, joined: int, needed: list[str]) -> str:
        """The auxiliary atom for the first atoms of the body, with what is needed later."""
        name = f"x{self.number}_{joined}"
        return f"{name}({','.join(map(_variable, needed))})" if needed else name

    def _emit(self, head: str, body: list[str], origin: Pos) -> None:
        line = f"{head} :- {', '.join(body)}." if body else f"{head}."
        self.result.add(line, origin, self.number)

    def _literals(self, literals: list[Literal]) -> list[str]:
        return [self._literal(literal) for literal in literals]

    def _literal(self, literal: Literal) -> str:
        if isinstance(literal, Atom):
            return self._atom(literal)
        if isinstance(literal, Negation):
            return f"not {self._atom(literal.atom)}"
        left = self._term(literal.left, literal.kind, literal.pos)
        return f"{left} {literal.op} {self._term(literal.right, literal.kind, literal.pos)}"

    def _atom(self, atom: Atom) -> str:
        kinds = self.program.kinds(atom.relation)
        terms = [
            self._term(arg, kind, atom.pos) for arg, kind in zip(atom.args, kinds, strict=True)
        ]
        name = relation_name(atom.relation)
        return f"{name}({','.join(terms)})" if terms else name

    def _term(self, expr: Expr, kind: str, pos: Pos) -> str:
        match expr:
            case Var(name):
                return _variable(name)
            case Num(value):
                _check_constant(value, pos)
                return str(value)
            case Sym(value):
                return str(self.symbols.number(value))
            case Nil():
                return "nil"
            case Rec(args):
                return self._record(args, kind, pos)
            case Op(op, args):
                return self._arithmetic(op, args, pos)
        return "_"

    def _record(self, args: tuple[Expr, ...], kind: str, pos: Pos) -> str:
        fields = self.program.types[kind].fields
        terms = [
            self._term(arg, self.program.kind(column.type), pos)
            for arg, column in zip(args, fields, strict=True)
        ]
        return f"{record_name(kind)}({','.join(terms)})"

    def _arithmetic(self, op: str, args: tuple[Expr, ...], pos: Pos) -> str:
        terms = [self._term(arg, NUMBER, pos) for arg in args]
        if len(terms) == 1:
            return f"(-{terms[0]})"
        # clingo's remainder is written \; both truncate toward zero, as Soufflé does.
        sign = "\\" if op == "%" else op
        return f"({terms[0]}{sign}{terms[1]})"


def _variable(name: str) -> str:
    return f"V{name}"


def _check_constant(value: int, pos: Pos) -> None:
    if not -(2**31) <= value < 2**31:
        raise EngineError(f"the constant {value} does not fit {WORD_BITS} bits", str(pos))


def _used(literal: Literal) -> set[str]:
    if isinstance(literal, Comparison):
        return variables(literal.left) | variables(literal.right)
    atom = literal.atom if isinstance(literal, Negation) else literal
    return set().union(*(variables(arg) for arg in atom.args))


def _take_ready(tests: list[Test], bound: set[str]) -> list[Test]:
    """Remove the tests that can be applied now; an equation may bind further variables."""
    ready: list[Test] = []
    grew = True
    while grew:
        found = [test for test in tests if _used(test) <= bound or _solvable(test, bound)]
        for test in found:
            tests.remove(test)
            bound |= _used(test)
        ready += found
        grew = bool(found)
    return ready


def _solvable(test: Test, bound: set[str]) -> bool:
    if isinstance(test, Negation) or test.op != "=":
        return False
    sides = ((test.left, test.right), (test.right, test.left))
    return any(isinstance(a, Var | Rec) and variables(b) <= bound for a, b in sides)
