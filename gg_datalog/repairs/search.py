"""The search for repairs: candidates of the first few causes are tried, few in all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gg_datalog.diagnosis.findings import PAGES
from gg_datalog.diagnosis.mistakes.mistake import Change
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.progress import Progress
from gg_datalog.repairs.candidate import Candidate
from gg_datalog.repairs.gathers import broadcasts, gatherings
from gg_datalog.repairs.holders import Scene
from gg_datalog.repairs.programs import Programs
from gg_datalog.repairs.ran import Ran
from gg_datalog.repairs.reductions import reductions
from gg_datalog.repairs.scales import scalings
from gg_datalog.repairs.trial import Bench, Outcome, outcome
from gg_datalog.repairs.wider import widened
from gg_datalog.result.report import Finding, Repair
from gg_datalog.result.sources import remembered

FINDINGS = 3
TRIALS = 4
# A trial may take this many times what the run took, or this many seconds.
PATIENCE = 3.0
LEAST_SECONDS = 10.0
AGAIN = "extract the case again"
# What a mistake names as its repairs, and what proposes them.
PROPOSED: Mapping[Change, Callable[[Scene, Finding], Iterator[Candidate]]] = {
    Change.REDUCTION: reductions,
    Change.FACTOR: scalings,
    Change.GATHERING: gatherings,
    Change.BROADCAST: broadcasts,
}
REPAIRS = {
    code: page.repairs for code, page in PAGES.items() if page.level == "error" and page.repairs
}


def with_repairs(ran: Ran, findings: Sequence[Finding], progress: Progress) -> list[Finding]:
    """The findings, the first few causes among them with a repair where one was found.

    Whatever goes wrong costs the suggestion only: nothing here has a say in the verdict.
    """
    try:
        repairs = Search(ran, progress).repairs(findings)
    except InputError:  # the graphs are gone, or others
        return list(findings)
    except Exception:
        if os.environ.get("GG_DATALOG_DEBUG"):
            raise
        return list(findings)
    return [replace(f, repair=repairs.get(i)) for i, f in enumerate(findings)]


class Search:
    """Tries candidates for the findings, few in all; the same one only once."""

    def __init__(self, ran: Ran, progress: Progress) -> None:
        files, _ = remembered(ran.case, AGAIN)
        programs = Programs(files)
        self.scene = Scene(ran.database, programs)
        if not self.scene.is_current():
            raise InputError("the graphs are others by now", str(files.seq), AGAIN)
        limit = max(LEAST_SECONDS, PATIENCE * ran.seconds)
        limit = limit if ran.timeout is None else min(limit, ran.timeout)
        self.bench = Bench(programs, ran.facts, ran.extract, ran.engine, ran.program, limit)
        self.before = outcome(ran.facts, ran.derived)
        self.progress = progress
        self.tried: dict[Candidate, Outcome | None] = {}
        rows = self.scene.ask("SELECT wants, seq FROM output_name ORDER BY wants")
        self.names: dict[int, str] = dict(rows)

    def repairs(self, findings: Sequence[Finding]) -> dict[int, Repair]:
        """Repairs by place of the finding; one that does for others is theirs, too."""
        causes = [i for i, f in enumerate(findings) if f.code in REPAIRS and not f.accepted]
        spoilt = {i: self.scene.spoilt(findings[i]) for i in causes}
        found: dict[int, Repair] = {}
        for place in causes[:FINDINGS]:
            if _covering(spoilt[place], found.values()) is None:
                repair = self._repair(findings[place], spoilt[place])
                found |= {} if repair is None else {place: repair}
        others = {i: _covering(spoilt[i], found.values()) for i in causes if i not in found}
        return found | {i: repair for i, repair in others.items() if repair is not None}

    def _repair(self, found: Finding, spoilt: set[str]) -> Repair | None:
        for candidate in dict.fromkeys(self._candidates(found)):
            if repair := self._tried(candidate, found, spoilt):
                return repair
        return None

    def _tried(self, candidate: Candidate, found: Finding, spoilt: set[str]) -> Repair | None:
        """The repair that a candidate is, here alone or wherever the same line runs."""
        after = self._attempt(candidate)
        if after is None:
            return None
        repair = self._useful(candidate, after, spoilt)
        if repair is None:
            return self._wider(candidate, spoilt) if self._helps(after, found) else None
        if candidate.action != "scale" or self._all(repair):
            return repair
        wider = self._wider(candidate, spoilt)
        return wider if wider and len(wider.outputs) > len(repair.outputs) else repair

    def _helps(self, after: Outcome, found: Finding) -> bool:
        """Is at least what the finding speaks of rebuilt?"""
        gained = after.tensors - self.before.tensors
        return bool(gained & set(self.scene.tensors_of(found.seq or "")))

    def _wider(self, candidate: Candidate, spoilt: set[str]) -> Repair | None:
        more = widened(self.scene, candidate)
        after = self._attempt(more) if more else None
        return self._useful(more, after, spoilt) if more and after else None

    def _useful(self, candidate: Candidate, after: Outcome, spoilt: set[str]) -> Repair | None:
        repaired = self._repaired(after)
        if not repaired or (spoilt and not spoilt & set(repaired)):
            return None
        return self._told(candidate, repaired)

    def _all(self, repair: Repair) -> bool:
        return len(repair.outputs) == len(self.names) - len(self.before.outputs)

    def _candidates(self, found: Finding) -> Iterator[Candidate]:
        """What may help, in the order that the mistake gives."""
        for change in REPAIRS[found.code]:
            yield from PROPOSED[change](self.scene, found)

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


def _covering(spoilt: set[str], repairs: Iterable[Repair]) -> Repair | None:
    """A repair that rebuilds all of these outputs."""
    return next((r for r in repairs if spoilt and spoilt <= set(r.outputs)), None)
