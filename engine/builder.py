"""Collects the items of a program and checks that its names fit together."""

from __future__ import annotations

from pathlib import Path

from gg_datalog.foundation.errors import EngineError

from .program import NUMBER, SYMBOL, Clause, Column, Declaration, Pos, Program, TypeDef, digest


class ProgramBuilder:
    """Takes items in source order, file by file; ``build`` gives the program."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[Path, list[str]] = {}
        self._types: dict[str, TypeDef] = {}
        self._declarations: dict[str, Declaration] = {}
        self._directives: dict[str, dict[str, Pos]] = {"input": {}, "output": {}}
        self._clauses: list[Clause] = []

    def open(self, path: Path, text: str) -> None:
        """Begin a file; its text is where doc comments are read from."""
        self._lines[path] = text.splitlines()

    def add_type(self, name: str, base: str | None, fields: tuple[Column, ...], pos: Pos) -> None:
        """Add a subset type (base) or a record type (fields)."""
        earlier = self._types.get(name)
        if earlier is not None:
            raise EngineError(f"type {name} is defined twice, first at {earlier.pos}", str(pos))
        if name in ("number", "symbol", "float", "unsigned"):
            raise EngineError(f"type {name} is built in", str(pos))
        self._types[name] = TypeDef(name, base, fields, pos)

    def add_declaration(self, name: str, columns: tuple[Column, ...], given: int, pos: Pos) -> None:
        """Add a relation, of which the first ``given`` columns are known to whoever asks."""
        earlier = self._declarations.get(name)
        if earlier is not None:
            raise EngineError(
                f"relation {name} is declared twice, first at {earlier.pos}", str(pos)
            )
        self._declarations[name] = Declaration(name, columns, self._doc(pos), pos, given)

    def add_directive(self, which: str, names: list[str], pos: Pos) -> None:
        """Mark relations as input or output."""
        for name in names:
            self._directives[which].setdefault(name, pos)

    def add_clause(self, clause: Clause) -> None:
        """Add a fact or a rule."""
        self._clauses.append(clause)

    def build(self) -> Program:
        """The program, once every type and relation that is used is there."""
        for definition in self._types.values():
            self._check_type(definition)
        for declaration in self._declarations.values():
            self._check_columns(declaration.columns, declaration.pos)
        for which, names in self._directives.items():
            for name, pos in names.items():
                if name not in self._declarations:
                    raise EngineError(f".{which} {name}: no such relation is declared", str(pos))
        return Program(
            self._path,
            {path: digest("\n".join(lines)) for path, lines in self._lines.items()},
            self._types,
            self._declarations,
            tuple(self._directives["input"]),
            tuple(self._directives["output"]),
            tuple(self._clauses),
        )

    def _check_type(self, definition: TypeDef) -> None:
        if definition.base is None:
            self._check_columns(definition.fields, definition.pos)
            return
        seen, base = {definition.name}, definition.base
        while base not in (NUMBER, SYMBOL):
            self._check_columns((Column("base", base),), definition.pos)
            step = self._types[base].base
            if step is None or base in seen:
                raise EngineError(
                    f"type {definition.name} is a subset of {base}, a record or itself",
                    str(definition.pos),
                    "only subsets of number and symbol are in the subset",
                )
            seen.add(base)
            base = step

    def _check_columns(self, columns: tuple[Column, ...], pos: Pos) -> None:
        names = [column.name for column in columns]
        if len(set(names)) < len(names):
            raise EngineError(f"a column name is used twice: {', '.join(names)}", str(pos))
        for column in columns:
            if column.type not in self._types and column.type not in (NUMBER, SYMBOL):
                raise EngineError(
                    f"type {column.type} is not defined, or not in the subset",
                    str(pos),
                    "number, symbol, subsets of them and records are",
                )

    def _doc(self, pos: Pos) -> str:
        lines = self._lines[pos.file]
        doc: list[str] = []
        for line in reversed(lines[: pos.line - 1]):
            if not line.lstrip().startswith("//"):
                break
            doc.append(line.strip().lstrip("/").strip())
        return "\n".join(reversed(doc))
