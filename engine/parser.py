"""Reads Soufflé source: a lark grammar of the subset, includes resolved in place."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, Tree, UnexpectedInput

from gg_datalog.foundation.errors import EngineError

from .builder import ProgramBuilder
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
    Pos,
    Program,
    Rec,
    Sym,
    Var,
    Wild,
)
from .refusals import RESERVED, refuse_syntax

GRAMMAR = r"""
start: item*
?item: subtype | record | declaration | input | output | include | clause
subtype: ".type" NAME "<:" NAME
record: ".type" NAME "=" "[" _fields "]"
declaration: ".decl" NAME "(" _fields? (BAR _fields?)? ")"
_fields: field ("," field)*
field: NAME ":" NAME
input: ".input" NAME ("," NAME)*
output: ".output" NAME ("," NAME)*
include: ".include" STRING
clause: heads [":-" body] "."
heads: atom ("," atom)*
body: _literal ("," _literal)*
_literal: atom | negation | comparison
negation: "!" atom
comparison: expr COMPARE expr
atom: NAME "(" [expr ("," expr)*] ")"
?expr: term | expr "+" term -> plus | expr "-" term -> minus
?term: factor | term "*" factor -> times | term "/" factor -> divide | term "%" factor -> modulo
?factor: primary | "-" factor -> negate
?primary: NUMBER -> number | STRING -> string | NAME -> variable | "_" -> wild | "nil" -> nil
    | "[" expr ("," expr)* "]" -> rec | "(" expr ")"
BAR: "|"
COMPARE: "=" | "!=" | "<=" | "<" | ">=" | ">"
NAME: /(?!RESERVED\b)(?:[A-Za-z][A-Za-z0-9_]*|_[A-Za-z0-9_]+)/
NUMBER: /[0-9]+(?![0-9A-Za-z_])(?!\.[0-9])/
STRING: /"(\\.|[^"\\\n])*"/
DIRECTIVE: /\.[a-z_]+/
%import common.WS
%ignore WS
%ignore /\/\/[^\n]*/
%ignore /\/\*(.|\n)*?\*\//
"""


@cache
def _lark() -> tuple[Lark, _Nodes]:
    """The parser, and what makes nodes while it parses: a tree of its own takes as long again."""
    nodes = _Nodes()
    grammar = GRAMMAR.replace("RESERVED", RESERVED)
    return Lark(grammar, parser="lalr", transformer=nodes), nodes


def parse_program(path: Path) -> Program:
    """Parse a program and everything it includes."""
    builder = ProgramBuilder(path)
    _parse_file(path, builder, ())
    return builder.build()


def _parse_file(path: Path, builder: ProgramBuilder, outer: tuple[Path, ...]) -> None:
    if path.resolve() in outer:
        raise EngineError("the file includes itself", str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"cannot read the program: {error}", str(path)) from error
    builder.open(path, text)
    for item in _tree(path, text).children:
        assert isinstance(item, Tree)
        pos = _position(path, item)
        if item.data == "include":
            target = path.parent / _unquote(str(item.children[0]), pos)
            _parse_file(target, builder, (*outer, path.resolve()))
        else:
            _add(builder, item, pos)


def _position(path: Path, item: Tree[Any]) -> Pos:
    """Where the name lies that an item begins with."""
    first: Any = item.children[0]
    if isinstance(first, Token):
        return Pos(path, first.line or 0)
    pos: Pos = first[0].pos
    return pos


def _tree(path: Path, text: str) -> Tree[Any]:
    parser, nodes = _lark()
    nodes.path = path
    try:
        return parser.parse(text)
    except UnexpectedInput as error:
        raise refuse_syntax(error, path, text) from None


def _add(builder: ProgramBuilder, item: Tree[Any], pos: Pos) -> None:
    parts: list[Any] = item.children
    match item.data:
        case "subtype":
            builder.add_type(str(parts[0]), str(parts[1]), (), pos)
        case "record":
            builder.add_type(str(parts[0]), None, tuple(parts[1:]), pos)
        case "declaration":
            builder.add_declaration(str(parts[0]), *_columns(parts[1:], pos), pos)
        case "input" | "output":
            builder.add_directive(item.data, [str(name) for name in parts], pos)
        case "clause":
            builder.add_clause(_clause(parts, pos))


def _columns(parts: list[Any], pos: Pos) -> tuple[tuple[Column, ...], int]:
    """The columns, and how many of them stand before a bar."""
    columns = tuple(part for part in parts if isinstance(part, Column))
    given = next((at for at, part in enumerate(parts) if isinstance(part, Token)), None)
    if given == 0:
        raise EngineError(
            "before the bar stands what is given by whoever asks: here nothing is",
            str(pos),
            "leave the bar out: the relation is derived as it is",
        )
    return columns, given or 0


def _clause(parts: list[Any], pos: Pos) -> Clause:
    heads, body = parts
    if len(heads) > 1:
        raise EngineError(
            "several heads in one rule are not in the subset",
            str(pos),
            "write one rule for each head",
        )
    return Clause(heads[0], tuple(body or ()), pos)


def _unquote(text: str, pos: Pos) -> str:
    value = text[1:-1].replace('\\"', "\0").replace("\\\\", "\1")
    if "\\" in value or "\t" in value:
        raise EngineError(
            f"the string {text} has an escape or a tab that is not in the subset",
            str(pos),
            'only \\" and \\\\ are',
        )
    return value.replace("\0", '"').replace("\1", "\\")


class _Nodes(Transformer[Token, Any]):
    """Turns the parts of clauses and declarations into syntax tree nodes."""

    path = Path()  # of what is parsed

    def plus(self, children: list[Expr]) -> Expr:
        return Op("+", tuple(children))

    def minus(self, children: list[Expr]) -> Expr:
        return Op("-", tuple(children))

    def times(self, children: list[Expr]) -> Expr:
        return Op("*", tuple(children))

    def divide(self, children: list[Expr]) -> Expr:
        return Op("/", tuple(children))

    def modulo(self, children: list[Expr]) -> Expr:
        return Op("%", tuple(children))

    def field(self, children: list[Token]) -> Column:
        return Column(str(children[0]), str(children[1]))

    def heads(self, children: list[Atom]) -> list[Atom]:
        return children

    def body(self, children: list[Literal]) -> list[Literal]:
        return children

    def negation(self, children: list[Atom]) -> Negation:
        return Negation(children[0])

    def comparison(self, children: list[Any]) -> Comparison:
        left, op, right = children
        return Comparison(str(op), left, right, Pos(self.path, op.line))

    def atom(self, children: list[Any]) -> Atom:
        args = tuple(arg for arg in children[1:] if arg is not None)
        return Atom(str(children[0]), args, Pos(self.path, children[0].line))

    def negate(self, children: list[Expr]) -> Expr:
        inner = children[0]
        return Num(-inner.value) if isinstance(inner, Num) else Op("-", (inner,))

    def number(self, children: list[Token]) -> Num:
        return Num(int(children[0]))

    def string(self, children: list[Token]) -> Sym:
        return Sym(_unquote(str(children[0]), Pos(self.path, children[0].line or 0)))

    def variable(self, children: list[Token]) -> Var:
        return Var(str(children[0]))

    def wild(self, children: list[Token]) -> Wild:
        return Wild()

    def nil(self, children: list[Token]) -> Nil:
        return Nil()

    def rec(self, children: list[Expr]) -> Rec:
        return Rec(tuple(children))
