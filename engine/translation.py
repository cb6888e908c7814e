"""A program in an engine's own language, and where each of its lines came from."""

from __future__ import annotations

from dataclasses import dataclass, field

from .program import Pos, Program


@dataclass(slots=True)
class Translation:
    """The text, one rule on each line, and the source of each line."""

    lines: list[str] = field(default_factory=list)
    origins: list[Pos | None] = field(default_factory=list)

    def add(self, line: str, origin: Pos | None) -> None:
        """Add a rule."""
        self.lines.append(line)
        self.origins.append(origin)

    @property
    def text(self) -> str:
        """The program."""
        return "\n".join(self.lines) + "\n"

    def origin(self, line: int) -> Pos | None:
        """The source of a line, counted from 1."""
        return self.origins[line - 1] if 0 < line <= len(self.origins) else None


@dataclass(frozen=True, slots=True)
class Translated:
    """A program's declarations (its clauses are left out), the program as an engine reads it, and
    the strings that are numbered there."""

    program: Program
    translation: Translation
    constants: tuple[str, ...] = ()
