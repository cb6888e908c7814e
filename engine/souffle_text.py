"""Writes a program in Soufflé's language once more, one declaration or rule on each line, so that
rules can be left out of it."""

from __future__ import annotations

from .demand import with_demand
from .program import (
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
from .translation import Translation, need


def souffle_text(program: Program) -> Translation:
    """The whole program; its inputs are left to whoever knows which of them have rows."""
    program, result = with_demand(program), Translation()
    for definition in program.types.values():
        result.add(_type(definition), definition.pos)
    for declaration in program.declarations.values():
        columns = _columns(declaration.columns)
        result.add(f".decl {declaration.name}({columns})", declaration.pos)
    for name in program.outputs:
        result.add(f".output {name}", program.declarations[name].pos)
    for clause in program.clauses:
        rule = result.needing(need(clause))
        result.add(clause_text(clause), clause.pos, rule)
    return result


def clause_text(clause: Clause) -> str:
    """A fact or a rule."""
    head = literal_text(clause.head)
    return f"{head} :- {', '.join(map(literal_text, clause.body))}." if clause.body else f"{head}."


def literal_text(part: Literal) -> str:
    """A literal of a body, or a head."""
    if isinstance(part, Comparison):
        return f"{expression_text(part.left)} {part.op} {expression_text(part.right)}"
    if isinstance(part, Negation):
        return f"!{literal_text(part.atom)}"
    return f"{part.relation}({', '.join(map(expression_text, part.args))})"


def expression_text(expr: Expr) -> str:
    """An expression, with brackets around all arithmetic."""
    match expr:
        case Var(name):
            return name
        case Num(value):
            return str(value)
        case Sym(value):
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case Nil():
            return "nil"
        case Rec(args):
            return f"[{', '.join(map(expression_text, args))}]"
        case Op(sign, args):
            parts = [expression_text(arg) for arg in args]
            return f"({sign}{parts[0]})" if len(parts) == 1 else f"({parts[0]} {sign} {parts[1]})"
    return "_"


def _type(definition: TypeDef) -> str:
    if definition.base is not None:
        return f".type {definition.name} <: {definition.base}"
    return f".type {definition.name} = [{_columns(definition.fields)}]"


def _columns(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name}: {column.type}" for column in columns)
