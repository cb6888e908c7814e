"""Type-checks a clause against the declarations, with Soufflé's own strictness.

A variable's type is the narrowest of the columns that bind it; these must be subsets of
one another, and a head or negated column may not be narrower than the value put there.
"""

from __future__ import annotations

from gg_datalog.foundation.errors import EngineError

from .program import (
    NUMBER,
    SYMBOL,
    Atom,
    Clause,
    Comparison,
    Expr,
    Negation,
    Nil,
    Num,
    Op,
    Pos,
    Program,
    Rec,
    Sym,
    Var,
)


class ClauseTypes:
    """The types of the variables of one clause, checked on construction."""

    def __init__(self, program: Program, clause: Clause) -> None:
        self.program = program
        self.variables: dict[str, str] = {}
        self._loose: set[str] = set()  # computed: fits any subset of its type
        self._infer(clause)
        self._use_atom(clause.head)
        for literal in clause.body:
            if isinstance(literal, Negation):
                self._use_atom(literal.atom)
            elif isinstance(literal, Comparison):
                self._check_comparison(literal)
            else:
                self._use_atom(literal, bound=True)

    def of(self, expr: Expr) -> str | None:
        """The type of an expression; None where it depends on what it is compared with."""
        if isinstance(expr, Var):
            return self.variables.get(expr.name)
        if isinstance(expr, Num | Op):
            return NUMBER
        return SYMBOL if isinstance(expr, Sym) else None

    def kind(self, expr: Expr) -> str | None:
        """Like ``of``, down to number, symbol or a record type."""
        found = self.of(expr)
        return None if found is None else self.program.kind(found)

    def _infer(self, clause: Clause) -> None:
        for literal in clause.body:
            if isinstance(literal, Atom):
                for expr, type_name in zip(literal.args, self._columns(literal), strict=True):
                    self._bind(expr, type_name, literal.pos)
        before: dict[str, str] | None = None
        while before != self.variables:
            before = dict(self.variables)
            for literal in clause.body:
                if isinstance(literal, Comparison) and literal.op == "=":
                    self._bind_equal(literal.left, literal.right, literal.pos)
                    self._bind_equal(literal.right, literal.left, literal.pos)

    def _bind_equal(self, target: Expr, value: Expr, pos: Pos) -> None:
        type_name = self.of(value)
        if type_name is None:
            return
        if isinstance(value, Var) and value.name not in self._loose:
            self._bind(target, type_name, pos)
        elif isinstance(target, Var) and target.name not in self.variables:
            self.variables[target.name] = type_name
            self._loose.add(target.name)

    def _bind(self, expr: Expr, type_name: str, pos: Pos) -> None:
        if isinstance(expr, Var):
            earlier = self.variables.get(expr.name, type_name)
            narrow = self._narrower(earlier, type_name)
            if narrow is None:
                raise EngineError(
                    f"variable {expr.name} is both {earlier} and {type_name}", str(pos)
                )
            self.variables[expr.name] = narrow
        elif isinstance(expr, Rec):
            for arg, field in zip(expr.args, self._fields(expr, type_name, pos), strict=True):
                self._bind(arg, field, pos)

    def _columns(self, atom: Atom) -> tuple[str, ...]:
        declaration = self.program.declarations.get(atom.relation)
        if declaration is None:
            raise EngineError(
                f"{atom.relation}(...) is neither a declared relation nor in the subset",
                str(atom.pos),
            )
        if len(declaration.columns) != len(atom.args):
            raise EngineError(
                f"{atom.relation} has {len(declaration.columns)} columns, not {len(atom.args)}",
                str(atom.pos),
            )
        return tuple(column.type for column in declaration.columns)

    def _fields(self, record: Rec, type_name: str, pos: Pos) -> tuple[str, ...]:
        kind = self.program.kind(type_name)
        if kind in (NUMBER, SYMBOL):
            raise EngineError(f"a record where a {type_name} is meant", str(pos))
        fields = self.program.types[kind].fields
        if len(fields) != len(record.args):
            raise EngineError(
                f"record type {kind} has {len(fields)} fields, not {len(record.args)}", str(pos)
            )
        return tuple(field.type for field in fields)

    def _use_atom(self, atom: Atom, bound: bool = False) -> None:
        for expr, type_name in zip(atom.args, self._columns(atom), strict=True):
            self._use(expr, type_name, atom.pos, bound)

    def _use(self, expr: Expr, type_name: str, pos: Pos, bound: bool = False) -> None:
        if isinstance(expr, Rec):
            for arg, field in zip(expr.args, self._fields(expr, type_name, pos), strict=True):
                self._use(arg, field, pos, bound)
            return
        if isinstance(expr, Op):
            self._check_arithmetic(expr, pos)
        found = self.of(expr)
        kind = self.program.kind(type_name)
        wrong_nil = isinstance(expr, Nil) and kind in (NUMBER, SYMBOL)
        if wrong_nil or (found is not None and self.program.kind(found) != kind):
            raise EngineError(f"{show(expr)} is {found or 'nil'}, not {type_name}", str(pos))
        fixed = isinstance(expr, Var) and expr.name not in self._loose and not bound
        if fixed and found is not None and not self._is_a(found, type_name):
            raise EngineError(
                f"{show(expr)} is {found}, which is no subset of {type_name}", str(pos)
            )

    def _check_arithmetic(self, expr: Expr, pos: Pos) -> None:
        if isinstance(expr, Op):
            for arg in expr.args:
                self._check_arithmetic(arg, pos)
        elif self.kind(expr) not in (None, NUMBER) or isinstance(expr, Rec | Nil):
            raise EngineError(f"arithmetic with {show(expr)}, which is no number", str(pos))

    def _check_comparison(self, literal: Comparison) -> None:
        for side in (literal.left, literal.right):
            if isinstance(side, Op):
                self._check_arithmetic(side, literal.pos)
        for side, other in (
            (literal.left, literal.right),
            (literal.right, literal.left),
        ):
            type_name = self.of(other)
            if type_name is not None:
                self._use(side, type_name, literal.pos, bound=True)
        self._check_operator(literal)

    def _check_operator(self, literal: Comparison) -> None:
        left, right = self.of(literal.left), self.of(literal.right)
        if left and right and self._narrower(left, right) is None:
            raise EngineError(f"a {left} is compared with a {right}", str(literal.pos))
        ordered = literal.op not in ("=", "!=")
        if ordered and {self.kind(literal.left), self.kind(literal.right)} != {NUMBER}:
            raise EngineError(
                f"{literal.op} between values that are no numbers",
                str(literal.pos),
                "symbols and records are compared with = and != only",
            )

    def _is_a(self, narrow: str, wide: str) -> bool:
        step: str | None = narrow
        while step is not None and step != wide:
            definition = self.program.types.get(step)
            step = None if definition is None else definition.base
        return step is not None

    def _narrower(self, one: str, other: str) -> str | None:
        if self._is_a(one, other):
            return one
        return other if self._is_a(other, one) else None


def show(expr: Expr) -> str:
    """An expression in a message."""
    if isinstance(expr, Var):
        return f"variable {expr.name}"
    if isinstance(expr, Num | Sym):
        return f"constant {expr.value!r}"
    return {Nil: "nil", Rec: "a record", Op: "an arithmetic expression"}.get(type(expr), "_")
