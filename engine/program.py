"""The syntax tree of a Soufflé program in the subset both engines run."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

NUMBER = "number"
SYMBOL = "symbol"


def digest(text: str) -> str:
    """Tells texts apart."""
    return sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Pos:
    """A place in a source file; prints as ``file:line``."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Var:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Wild:
    """The anonymous variable ``_``."""


@dataclass(frozen=True, slots=True)
class Num:
    """An integer constant."""

    value: int


@dataclass(frozen=True, slots=True)
class Sym:
    """A string constant."""

    value: str


@dataclass(frozen=True, slots=True)
class Nil:
    """The empty record."""


@dataclass(frozen=True, slots=True)
class Rec:
    """A record: built in a head, taken apart in a body."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Op:
    """Arithmetic; one operand means unary minus."""

    op: str
    args: tuple[Expr, ...]


Expr: TypeAlias = Var | Wild | Num | Sym | Nil | Rec | Op


@dataclass(frozen=True, slots=True)
class Atom:
    """``relation(args)``."""

    relation: str
    args: tuple[Expr, ...]
    pos: Pos


@dataclass(frozen=True, slots=True)
class Negation:
    """``!relation(args)``."""

    atom: Atom

    @property
    def pos(self) -> Pos:
        """Where the negated atom stands."""
        return self.atom.pos


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right``; ``kind`` is filled in once types are known."""

    op: str
    left: Expr
    right: Expr
    pos: Pos
    kind: str = NUMBER


Literal: TypeAlias = Atom | Negation | Comparison


@dataclass(frozen=True, slots=True)
class Clause:
    """A fact (empty body) or a rule."""

    head: Atom
    body: tuple[Literal, ...]
    pos: Pos


@dataclass(frozen=True, slots=True)
class Column:
    """A named and typed attribute of a relation or field of a record."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class TypeDef:
    """``.type name <: base`` or ``.type name = [fields]``."""

    name: str
    base: str | None
    fields: tuple[Column, ...]
    pos: Pos


@dataclass(frozen=True, slots=True)
class Declaration:
    """``.decl name(columns)`` with the comment lines directly above it; the first ``given`` columns
    are known to whoever asks, and the relation is derived on demand (0: it is derived as it is)."""

    name: str
    columns: tuple[Column, ...]
    doc: str
    pos: Pos
    given: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """A program with its includes resolved; ``files`` with the digests of their texts."""

    path: Path
    files: dict[Path, str]
    types: dict[str, TypeDef]
    declarations: dict[str, Declaration]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    clauses: tuple[Clause, ...]

    def kind(self, type_name: str) -> str:
        """What a type is made of: ``number``, ``symbol`` or the name of its record type."""
        while type_name not in (NUMBER, SYMBOL):
            base = self.types[type_name].base
            if base is None:
                return type_name
            type_name = base
        return type_name

    def kinds(self, relation: str) -> tuple[str, ...]:
        """The kind of each column of a relation."""
        return tuple(self.kind(column.type) for column in self.declarations[relation].columns)


def variables(expr: Expr) -> set[str]:
    """The names of the variables in an expression."""
    if isinstance(expr, Var):
        return {expr.name}
    if isinstance(expr, Rec | Op):
        return set().union(*(variables(arg) for arg in expr.args))
    return set()
