"""Runs cases through the command line, in this process, and asks the results."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gg_datalog.commands.query import ask
from gg_datalog.queries import statement

from ..command import run as cli
from ..numeric.program import Program


@dataclass(frozen=True)
class Trial:
    """What ``extract`` and ``run`` said of a case; an extraction that fails has no report."""

    status: int
    report: dict[str, Any]
    error: str
    folder: Path

    def query(self, name: str) -> list[dict[str, Any]]:
        """The rows of one of ``queries/*.sql``."""
        return self.rows(statement(name))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a statement."""
        found = ask(self.folder / "result", sql)
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    @property
    def relations(self) -> dict[str, str]:
        """The reported relation of every output."""
        return {row["seq"]: row["relation"] for row in self.report["outputs"]}


@dataclass
class Bench:
    """A folder for facts and results."""

    folder: Path
    _known: dict[tuple[Path, str], Trial] = field(default_factory=dict)

    def run(self, case: Path, engine: str = "clingo") -> Trial:
        """``extract`` and ``run`` of a case folder."""
        key = case, engine
        if key not in self._known:
            self._known[key] = self._run(case, self.folder / f"facts-{len(self._known)}", engine)
        return self._known[key]

    def program(self, program: Program) -> Trial:
        """The same for a case that is not on disk; nothing of it is kept in mind."""
        case = self.folder / "case"
        program.write(case)
        return self._run(case, self.folder / "facts", "clingo")

    @staticmethod
    def _run(case: Path, facts: Path, engine: str) -> Trial:
        status, _, error = cli("extract", case, "-o", facts)
        if status:
            return Trial(status, {}, error, facts)
        status, out, error = cli("run", facts, "--engine", engine, "--format", "json")
        return Trial(status, json.loads(out) if out else {}, error, facts)
