"""A program as one plain text, its includes in place: for the Soufflé binary, or for a reader.

The text is that of the files, comments and all. What a relation on demand is asked stands there as
well: in its declaration, in its rules, and behind each file in the rules that ask.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .demand import want, with_demand
from .parser import parse_program
from .program import Clause, Declaration, Program
from .souffle_text import clause_text, literal_text

INCLUDE = re.compile(r'^\.include\s*"([^"\\\n]*)"[^\n]*\n?', re.MULTILINE)
DECLARATION = re.compile(r"^\.decl\s+(\w+)\s*\([^)|]*\|[^)]*\)", re.MULTILINE)
TO_ITS_END = re.compile(r'(?://[^\n]*|"(?:\\.|[^"\\\n])*"|[^."/]|/(?!/))*\.')
ARROW = re.compile(r":-\s*")
ASKED = "\n// What the rules above ask of each other.\n"


def one_text(path: Path) -> str:
    """All of a program in plain Soufflé; above what an include brings stands where it comes from.

    Raises:
        EngineError: a file cannot be read, or includes itself, or the program is not right.
    """
    return _Writer.of(parse_program(path)).whole(path)


@dataclass(frozen=True, slots=True)
class _Writer:
    program: Program
    plain: Program
    rules: Mapping[Path, list[tuple[Clause, Clause]]]
    asking: Mapping[Path, list[Clause]]

    @classmethod
    def of(cls, program: Program) -> _Writer:
        plain, count = with_demand(program), len(program.clauses)
        rules: dict[Path, list[tuple[Clause, Clause]]] = {file: [] for file in program.files}
        for pair in zip(program.clauses, plain.clauses[:count], strict=True):
            rules[pair[0].pos.file].append(pair)
        asking: dict[Path, list[Clause]] = {file: [] for file in program.files}
        for rule in plain.clauses[count:]:
            asking[rule.pos.file].append(rule)
        return cls(program, plain, rules, asking)

    def whole(self, path: Path) -> str:
        """A file with what it includes."""
        root = self.program.path.parent

        def brought(include: re.Match[str]) -> str:
            target = path.parent / include[1]
            return f"\n// ==== {target.relative_to(root).as_posix()}\n{self.whole(target)}"

        text = DECLARATION.sub(self._declared, self._ruled(path))
        asking = sorted(self.asking[path], key=lambda rule: (rule.head.relation, rule.pos.line))
        behind = "".join(f"{clause_text(rule)}\n" for rule in asking)
        return INCLUDE.sub(brought, text) + (f"{ASKED}{behind}" if behind else "")

    def _declared(self, found: re.Match[str]) -> str:
        """The declaration without its bar, and that of what is asked."""
        relation = self.plain.declarations[found[1]]
        asked = self.plain.declarations.get(want(found[1]))
        beside = "" if asked is None else f"\n// {asked.doc}\n{_declaration(asked)}"
        return f"{_declaration(relation)}{beside}"

    def _ruled(self, path: Path) -> str:
        """The text of a file, each rule with what it looks at."""
        text, pieces, at = path.read_text(encoding="utf-8"), list[str](), 0
        lines = [0, *(line.end() for line in re.finditer("\n", text))]
        for before, after in self.rules[path]:
            begin = text.index(before.head.relation, max(at, lines[before.pos.line - 1]))
            end = TO_ITS_END.match(text, begin)
            assert end is not None
            pieces += [text[at:begin], _with_asked(text[begin : end.end()], before, after)]
            at = end.end()
        return "".join([*pieces, text[at:]])


def _with_asked(text: str, before: Clause, after: Clause) -> str:
    """The text of a rule that now looks at what is asked, if it does."""
    if after.body == before.body:
        return text
    if after.body[1:] != before.body:
        return clause_text(after)
    asked = literal_text(after.body[0])
    if not before.body:
        return f"{text.removesuffix('.')} :- {asked}."
    return ARROW.sub(lambda arrow: f"{arrow[0]}{asked}, ", text, count=1)


def _declaration(relation: Declaration) -> str:
    columns = ", ".join(f"{column.name}: {column.type}" for column in relation.columns)
    return f".decl {relation.name}({columns})"
