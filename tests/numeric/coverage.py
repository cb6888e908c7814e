"""Which rules fire: a copy of the rules with a probe beside every rule.

A probe has the body of its rule and says its place, ``rule_fired("rules/sum.dl:12")``. Nothing reads
``rule_fired``, so it lies in a stratum of its own, above everything that its bodies ask.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gg_datalog.engine.demand import answering
from gg_datalog.engine.parser import parse_program
from gg_datalog.engine.program import Clause
from gg_datalog.engine.souffle_text import literal_text

from .relations import RULES, Rows

FIRED = "rule_fired"
DECLARED = f"\n.decl {FIRED}(place: symbol)\n.output {FIRED}\n"


# ---- probes -------------------------------------------------------------------------------------------
def rules_of(program: Path = RULES) -> dict[str, Clause]:
    """The rules (facts aside) by their place: file and line. Those of a relation on demand look at
    what is asked."""
    found: dict[str, Clause] = {}
    parsed = parse_program(program)
    for clause in (answering(clause, parsed.declarations) for clause in parsed.clauses):
        if clause.body:
            file = clause.pos.file.resolve().relative_to(program.resolve().parent)
            place = f"{file.as_posix()}:{clause.pos.line}"
            while place in found:
                place += "+"
            found[place] = clause
    return found


@contextmanager
def instrumented(program: Path = RULES) -> Iterator[Path]:
    """A copy of the program, probes at the end of each file, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "rules"
        shutil.copytree(program.parent, copy, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
        main = copy / program.name
        main.write_text(main.read_text("utf-8") + DECLARED, "utf-8")
        for place, clause in rules_of(program).items():
            body = ", ".join(map(literal_text, clause.body))
            with (copy / place.rpartition(":")[0]).open("a", encoding="utf-8") as file:
                file.write(f'\n{FIRED}("{place}") :- {body}.\n')
        yield main


@dataclass
class Coverage:
    """In how many runs of the engine each rule fired."""

    rules: Mapping[str, Clause] = field(default_factory=rules_of)
    runs: int = 0
    fired: Counter[str] = field(default_factory=Counter)

    def add(self, derived: Mapping[str, Rows]) -> None:
        """Counts one run of the instrumented rules."""
        self.runs += 1
        self.fired.update({row["place"] for row in derived.get(FIRED, [])})

    def never(self) -> list[str]:
        """The places of rules that never fired, in the order of the program."""
        return [place for place in self.rules if not self.fired[place]]

    def text(self, place: str) -> str:
        """A rule with its place."""
        clause = self.rules[place]
        body = ", ".join(map(literal_text, clause.body))
        return f"{place}: {literal_text(clause.head)} :- {body}."
