"""Trying a candidate out: the graphs with it put in, extracted and run again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.extract import CaseFiles
from gg_datalog.extract.schema import RULE_RELATIONS
from gg_datalog.foundation.errors import GGError
from gg_datalog.repairs.candidate import Candidate
from gg_datalog.repairs.programs import Programs

if TYPE_CHECKING:
    import pyarrow as pa

    from gg_datalog.engine import Engine

Tables = dict[str, "pa.Table"]


@dataclass(frozen=True)
class Outcome:
    """What is rebuilt: ``outputs``, and ``tensors`` of the sequential program; ``lined_up``: no
    collective is out of line."""

    outputs: frozenset[int]
    tensors: frozenset[str]
    lined_up: bool


@dataclass
class Bench:
    """Tries candidates: ``extract`` gives the facts of a case as the run saw them, ``program``
    are the rules."""

    programs: Programs
    facts: Mapping[str, pa.Table]
    extract: Callable[[CaseFiles], Tables]
    engine: Engine
    program: Path
    seconds: float

    def attempt(self, candidate: Candidate) -> Outcome | None:
        """What the rules say of the programs with the candidate; nothing where it does not fit in,
        takes too long, or the graphs are no longer those of the facts."""
        try:
            with tempfile.TemporaryDirectory(prefix="gg-datalog-") as work:
                tables = self.extract(self.programs.changed(candidate, Path(work)))
            if not self._alike(tables):
                return None
            inputs = {relation.name: tables[relation.name] for relation in RULE_RELATIONS}
            derived = self.engine.run(self.program, inputs, timeout=self.seconds).relations
        except GGError:
            return None
        return outcome(tables, derived)

    def _alike(self, tables: Tables) -> bool:
        """Are inputs and outputs still those that the facts came from?"""
        names = ("output_name", "returned_name", "input_row")
        return all(tables[name].equals(self.facts[name]) for name in names)


def outcome(facts: Mapping[str, Any], derived: Mapping[str, Any]) -> Outcome:
    """What these facts and relations say."""
    mapped = derived["output_mapped"]["wants"].to_pylist()
    return Outcome(
        frozenset(() if derived["draw_shared"].num_rows else mapped),
        frozenset(derived["seq_mapped"]["of"].to_pylist()),
        not any(facts[name].num_rows for name in ("collective_mismatch", "gradient_lacked"))
        and not any(derived[name].num_rows for name in ("draw_repeated", "draw_unequal")),
    )
