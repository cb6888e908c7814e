"""Writes a program as one Soufflé file, one clause a line, with its join plans."""

from __future__ import annotations

from .plans import Orders
from .program import (
    Atom,
    Clause,
    Column,
    Comparison,
    Expr,
    Literal,
    Negation,
    Nil,
    Num,
    Op,
    Program,
    Rec,
    Sym,
    TypeDef,
    Var,
)


def write_program(program: Program, plans: list[Orders]) -> str:
    """The text of the program; the plans go with its clauses, one each."""
    lines = [_type(definition) for definition in program.types.values()]
    for name, declaration in program.declarations.items():
        lines.append(f".decl {name}({_columns(declaration.columns)})")
    lines += [f".input {name}" for name in program.inputs]
    lines += [f".output {name}" for name in program.outputs]
    for clause, orders in zip(program.clauses, plans, strict=True):
        lines.append(_clause(clause))
        if orders:
            lines.append(f".plan {_plan(orders)}")
    return "\n".join(lines) + "\n"


def _type(definition: TypeDef) -> str:
    if definition.base is not None:
        return f".type {definition.name} <: {definition.base}"
    return f".type {definition.name} = [{_columns(definition.fields)}]"


def _columns(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name}: {column.type}" for column in columns)


def _clause(clause: Clause) -> str:
    if not clause.body:
        return f"{_atom(clause.head)}."
    return f"{_atom(clause.head)} :- {', '.join(map(_literal, clause.body))}."


def _plan(orders: Orders) -> str:
    """Versions count from 0, atoms from 1."""
    return ", ".join(
        f"{version}:({','.join(str(place + 1) for place in order)})"
        for version, order in orders.items()
    )


def _literal(literal: Literal) -> str:
    if isinstance(literal, Comparison):
        return f"{_expr(literal.left)} {literal.op} {_expr(literal.right)}"
    return f"!{_atom(literal.atom)}" if isinstance(literal, Negation) else _atom(literal)


def _atom(atom: Atom) -> str:
    return f"{atom.relation}({_list(atom.args)})"


def _list(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(map(_expr, exprs))


def _expr(expr: Expr) -> str:
    match expr:
        case Var(name):
            return name
        case Num(value):
            return str(value)
        case Sym(value):
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case Nil():
            return "nil"
        case Rec(args):
            return f"[{_list(args)}]"
        case Op(op, (arg,)):
            return f"({op}{_expr(arg)})"
        case Op(op, (left, right)):
            return f"({_expr(left)} {op} {_expr(right)})"
    return "_"
