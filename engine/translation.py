"""A program in an engine's own language, and where each of its lines came from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from .program import Atom, Clause, Pos, Program

Need = tuple[str, tuple[str, ...]]
"""What a rule derives, and the relations that have to have rows for it."""


def need(clause: Clause) -> Need:
    """What a rule needs. What it negates may be empty: then it is true."""
    atoms = [literal.relation for literal in clause.body if isinstance(literal, Atom)]
    return clause.head.relation, tuple(dict.fromkeys(atoms))


@dataclass(slots=True)
class Translation:
    """The text, one rule on each line, the source of each line, and the number of the rule that it
    belongs to (None: to none); several lines may be one rule. ``needs`` has the rules."""

    lines: list[str] = field(default_factory=list)
    origins: list[Pos | None] = field(default_factory=list)
    rules: list[int | None] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)

    def needing(self, found: Need) -> int:
        """The number of a further rule."""
        self.needs.append(found)
        return len(self.needs) - 1

    def add(self, line: str, origin: Pos | None, rule: int | None = None) -> None:
        """Add a line."""
        self.lines.append(line)
        self.origins.append(origin)
        self.rules.append(rule)

    @property
    def text(self) -> str:
        """The program."""
        return "\n".join(self.lines) + "\n"

    def origin(self, line: int) -> Pos | None:
        """The source of a line, counted from 1."""
        return self.origins[line - 1] if 0 < line <= len(self.origins) else None

    def firing(self, given: Iterable[str]) -> Translation:
        """The same without rules that cannot fire where only ``given`` relations have rows: a
        relation that they need has none, and no rule that can fire derives one."""
        alive = _alive(self.needs, given)
        found = Translation()
        for line, origin, rule in zip(self.lines, self.origins, self.rules, strict=True):
            if rule is None or rule in alive:
                found.add(line, origin, rule)
        return found


def _alive(needs: list[Need], given: Iterable[str]) -> set[int]:
    """The rules of which every needed relation may have rows, found from the facts upwards."""
    missing = [len(names) for _, names in needs]
    waiting: dict[str, list[int]] = defaultdict(list)
    for number, (_, names) in enumerate(needs):
        for name in names:
            waiting[name].append(number)
    alive = {number for number, count in enumerate(missing) if not count}
    pending = [*given, *(needs[number][0] for number in alive)]
    known: set[str] = set()
    while pending:
        name = pending.pop()
        if name in known:
            continue
        known.add(name)
        for number in waiting[name]:
            missing[number] -= 1
            if not missing[number]:
                alive.add(number)
                pending.append(needs[number][0])
    return alive


@dataclass(frozen=True, slots=True)
class Translated:
    """A program's declarations (its clauses are left out), the program as an engine reads it, and
    the strings that are numbered there."""

    program: Program
    translation: Translation
    constants: tuple[str, ...] = ()
