"""Repairs: one collective or scalar that would close the gap of a finding, tried out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gg_datalog.cases import remembered
from gg_datalog.errors import InputError
from gg_datalog.findings import Kind
from gg_datalog.progress import Progress
from gg_datalog.report import Finding, Repair

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from gg_datalog.engine import Engine
    from gg_datalog.extract import CaseFiles
    from gg_datalog.repairs.candidate import Candidate
    from gg_datalog.repairs.scene import Scene
    from gg_datalog.repairs.trial import Bench, Outcome

FINDINGS = 3
TRIALS = 4
PATIENCE = 3.0
AGAIN = "extract the case again"
LEAST_SECONDS = 10.0
CAUSES = frozenset(
    kind.value.code
    for kind in (
        Kind.PART_USED,
        Kind.OPEN_REDUCTION,
        Kind.OTHER_COEFFICIENT,
        Kind.SUM_RATIO,
        Kind.NOT_COVERED,
        Kind.NOT_RELATED,
        Kind.CHAIN_BREAKS,
        Kind.RANK_BREAKS,
        Kind.WRONG_GROUP,
        Kind.REDUCED_TWICE,
        Kind.USED_FACTOR,
        Kind.GRADIENT,
    )
)


@dataclass(frozen=True)
class Ran:
    """A run that did not prove everything: what it was given, what it derived, how long it took.

    ``extract`` gives the facts of other graphs as the user asked for them."""

    database: duckdb.DuckDBPyConnection
    case: Mapping[str, Any]
    facts: Mapping[str, pa.Table]
    derived: Mapping[str, pa.Table]
    engine: Engine
    seconds: float
    extract: Callable[[CaseFiles], dict[str, pa.Table]]


def with_repairs(ran: Ran, findings: Sequence[Finding], progress: Progress) -> list[Finding]:
    """The findings, the first few causes among them with a repair where one was found.

    Whatever goes wrong costs the suggestion only: nothing here has a say in the verdict.
    """
    try:
        repairs = _Search(ran, progress).repairs(findings)
    except InputError:  # the graphs are gone, or others
        return list(findings)
    except Exception:
        if os.environ.get("GG_DATALOG_DEBUG"):
            raise
        return list(findings)
    return [replace(f, repair=repairs.get(i)) for i, f in enumerate(findings)]


class _Search:
    """Tries candidates for the findings, few in all; the same one only once."""

    def __init__(self, ran: Ran, progress: Progress) -> None:
        from gg_datalog.repairs.programs import Programs
        from gg_datalog.repairs.scene import Scene
        from gg_datalog.repairs.trial import Bench, outcome

        files, _ = remembered(ran.case, AGAIN)
        programs = Programs(files)
        self.scene: Scene = Scene(ran.database, programs)
        if not self.scene.is_current():
            raise InputError("the graphs are others by now", str(files.seq), AGAIN)
        limit = max(LEAST_SECONDS, PATIENCE * ran.seconds)
        self.bench: Bench = Bench(programs, ran.facts, ran.extract, ran.engine, limit)
        self.before: Outcome = outcome(ran.facts, ran.derived)
        self.progress = progress
        self.tried: dict[Candidate, Outcome | None] = {}
        rows = self.scene.ask("SELECT wants, seq FROM output_name ORDER BY wants")
        self.names: dict[int, str] = dict(rows)

    def repairs(self, findings: Sequence[Finding]) -> dict[int, Repair]:
        """Repairs by place of the finding."""
        causes = [i for i, f in enumerate(findings) if f.code in CAUSES and not f.accepted]
        found = {i: self._repair(findings[i]) for i in causes[:FINDINGS]}
        return {i: repair for i, repair in found.items() if repair is not None}

    def _repair(self, found: Finding) -> Repair | None:
        for candidate in dict.fromkeys(self._candidates(found)):
            after = self._attempt(candidate)
            if after is None:
                continue
            if repair := self._useful(candidate, after, found):
                return repair
            more = self._wider(candidate, after, found)
            again = more and self._attempt(more)
            if more and again and (repair := self._useful(more, again, found)):
                return repair
        return None

    def _useful(self, candidate: Candidate, after: Outcome, found: Finding) -> Repair | None:
        repaired = self._repaired(after)
        if not repaired or (found.outputs and not set(repaired) & set(found.outputs)):
            return None
        return self._told(candidate, repaired)

    def _wider(self, candidate: Candidate, after: Outcome, found: Finding) -> Candidate | None:
        """The candidate at more places, where it helps what the finding speaks of."""
        from gg_datalog.repairs.wider import widened

        gained = after.tensors - self.before.tensors
        helps = gained & set(self.scene.tensors_of(found.seq or ""))
        return widened(self.scene, candidate) if helps else None

    def _candidates(self, found: Finding) -> Iterator[Candidate]:
        """What may help, the most natural first."""
        from gg_datalog.repairs.parts import reductions
        from gg_datalog.repairs.pieces import broadcasts, gatherings
        from gg_datalog.repairs.scales import scalings

        yield from reductions(self.scene, found)
        yield from scalings(self.scene, found)
        yield from gatherings(self.scene, found)
        yield from broadcasts(self.scene)

    def _attempt(self, candidate: Candidate) -> Outcome | None:
        if candidate not in self.tried:
            if len(self.tried) >= TRIALS:
                return None
            self.progress(f"trying a repair ({len(self.tried) + 1}): {candidate.text()}")
            self.tried[candidate] = self.bench.attempt(candidate)
        return self.tried[candidate]

    def _repaired(self, after: Outcome) -> list[str]:
        """Outputs that are rebuilt and were not, where none is lost and no rank hangs."""
        if self.before.outputs - after.outputs or (self.before.lined_up and not after.lined_up):
            return []
        return [self.names[wants] for wants in sorted(after.outputs - self.before.outputs)]

    def _told(self, candidate: Candidate, repaired: Sequence[str]) -> Repair:
        missing = len(self.names) - len(self.before.outputs)
        count = f"{len(repaired)} of {missing} missing outputs are"
        what = f"`{repaired[0]}` is" if missing == 1 else count
        return Repair(
            f"{candidate.text()}: with it {what} rebuilt",
            candidate.action,
            candidate.nodes,
            candidate.ranks,
            None if candidate.factor is None else str(candidate.factor),
            tried=True,
            outputs=tuple(repaired),
        )
