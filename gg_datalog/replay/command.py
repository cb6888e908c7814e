"""``replay``: both programs executed on the same inputs, outputs and derived relations compared."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gg_datalog.diagnosis.evidence import decided
from gg_datalog.diagnosis.mistakes.gg140_contradiction import MISTAKE as CONTRADICTION
from gg_datalog.diagnosis.mistakes.gg141_unproved_agreement import MISTAKE as AGREEMENT
from gg_datalog.extract.case import CaseFiles
from gg_datalog.extract.facts import build_sides
from gg_datalog.extract.table import Table, load_table
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.progress import Progress
from gg_datalog.inference.run import Options, run_facts
from gg_datalog.replay.calls import NotExecuted
from gg_datalog.replay.collectives import Mismatch
from gg_datalog.replay.derived import OPEN
from gg_datalog.replay.documents import load
from gg_datalog.replay.dtypes import exact
from gg_datalog.replay.shrink import Shrunk, shrink
from gg_datalog.replay.trial import DRAWS, FAILURES, MORE, Judged, Replayed, draws, rests_on
from gg_datalog.replay.unknown import guessed_names
from gg_datalog.result.reasons import Status, Verdict
from gg_datalog.result.report import Numbers, Report, as_json
from gg_datalog.result.store import write_facts

SMALL = 64 * 2**20  # bytes: up to here a case is executed in its captured sizes


def replay(
    files: CaseFiles,
    operators: Sequence[Path],
    seed: int,
    full_size: bool,
    say: Progress,
    partial: Sequence[str] = (),
    layouts: Sequence[str] = (),
) -> Replayed:
    """Executes a case; :class:`InputError` where that is not possible. Outputs that are
    ``partial`` may be open sums, those in ``layouts`` may be in any order."""
    table = load_table(operators)
    files = replace(files, partial=[*files.partial, *partial])
    say("reading graphs")
    captured = load(files)
    whole = fitted = shrink(captured, table, smaller=False)
    if not full_size and whole.captured > SMALL:
        with suppress(AssertionError, *FAILURES):  # shapes that do not add up
            fitted = shrink(captured, table)
    if not has_room(fitted):
        raise InputError(
            f"executing both programs takes about {2 * fitted.now / 1e9:.1f} GB of memory, "
            f"of which {_room() / 1e9:.1f} GB may be used",
            None,
            "leave --full-size out" if full_size else "give a smaller case",
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        original = judged = judged_case(files, whole, operators, folder / "facts", say, layouts)
        if fitted.sizes:
            small = fitted.case.write(folder / "case")
            judged = judged_case(small, fitted, operators, folder / "small", say, layouts)
    guessed = guessed_names(files.about)
    with exact():
        if judged.statuses != original.statuses and has_room(whole):
            judged = original
        try:
            return _replayed(original.report, judged, table, seed, say, guessed)
        except NotExecuted as problem:
            if judged is not original and has_room(whole):
                with suppress(NotExecuted):
                    return _replayed(original.report, original, table, seed, say, guessed)
            raise InputError(
                f"the case cannot be executed: {problem}",
                None,
                "give inputs of known sizes, and what is missing to the operator table "
                "(docs/operators.md)",
            ) from None


def _room() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2


def has_room(fitted: Shrunk) -> bool:
    """Does memory hold all tensors (and what they are compared with)?"""
    return 2 * fitted.now <= _room()


def judged_case(
    files: CaseFiles,
    fitted: Shrunk,
    operators: Sequence[Path],
    facts: Path,
    say: Progress,
    layouts: Sequence[str] = (),
) -> Judged:
    """What the rules derive of a case, whose facts go to ``facts``."""
    built = build_sides(files, operators, say)
    write_facts(built.tables, facts, "parquet", {})
    options = Options(repairs=False, raw=True, layouts=layouts)
    report = run_facts(facts, facts / "result", options, say)
    return Judged.by(facts / "result", fitted, built, report)


def _replayed(
    report: Report, judged: Judged, table: Table, seed: int, say: Progress, guessed: set[str]
) -> Replayed:
    """Draws and compares; :class:`NotExecuted` where an operator cannot be executed."""
    found = Replayed(report, seed, memory=judged.fitted.now, sizes=judged.fitted.sizes)
    mine = [row.status for row in report.outputs]
    odd = [i for i, (a, b) in enumerate(zip(mine, judged.statuses, strict=True)) if a != b]
    drawn = draws(judged, table, seed)
    try:
        for number in range(DRAWS + 1 + MORE):
            if number == DRAWS and not _in_question(found, mine):
                break
            if number > DRAWS and not (open_ := _in_question(found, mine) - _without(found)):
                break
            text, one = next(drawn, ("", None))
            if one is None:
                break
            say(text)
            if number <= DRAWS:
                one.check_relations(found)
            one.check_outputs(found, None if number <= DRAWS else open_)
    except Mismatch as problem:
        found.note, found.hangs = f"not executed to the end: {problem}", True
    if odd:
        names = ", ".join(f"`{report.outputs[i].seq}`" for i in odd)
        found.note = f"in smaller sizes another verdict is derived of {names}: not compared"
        for place in odd:
            found.numbers[place] = OPEN
            found.divergence.pop(place, None)
    resting = {p for p in found.numbers if rests_on(judged, p, table, guessed)}
    return _concluded(found, resting)


def _in_question(found: Replayed, statuses: Sequence[str]) -> set[int]:
    """Outputs for which one more draw may tell something."""
    return {
        place
        for place, status in enumerate(statuses)
        if found.agrees(place) is None or (status != Status.MAPPED and found.agrees(place))
    }


def _without(found: Replayed) -> set[int]:
    """Outputs of which no draw has numbers to compare."""
    return {place for place, numbers in found.numbers.items() if numbers.fits is None}


def _concluded(found: Replayed, resting: Collection[int]) -> Replayed:
    """The verdict, where the numbers have something to say about it. Those of ``resting`` rest on
    what is not known: that they differ says nothing."""
    report = found.report
    findings = list(report.findings)
    contradicted = [
        row.seq
        for place, row in enumerate(report.outputs)
        if row.status == Status.MAPPED and found.agrees(place) is False
    ]
    for text in found.wrong[:1]:
        findings.insert(0, CONTRADICTION.finding(f"a derived relation does not hold: {text}"))
    for seq in contradicted:
        text = f"`{seq}` is derived to be rebuilt, but the numbers differ"
        findings.insert(0, CONTRADICTION.finding(text, seq=seq))
    if found.hangs and report.verdict != Verdict.DIFFERS:
        findings.insert(0, CONTRADICTION.finding(found.note))
    for place, row in enumerate(report.outputs):
        if row.status != Status.MAPPED and found.agrees(place):
            text = f"`{row.seq}` is not shown to be rebuilt, but no draw shows a difference"
            findings.append(AGREEMENT.finding(text, seq=row.seq))
    against = found.wrong or contradicted or found.hangs
    told = {place: Numbers(found.agrees(place)) for place in found.numbers}
    told |= {place: Numbers(None) for place in resting if not found.agrees(place)}
    outcome = decided(report, told)
    verdict = Verdict.DIFFERS if against else outcome.verdict
    outputs = [replace(row, numbers=None) for row in outcome.outputs]
    found.report = replace(report, verdict=verdict, findings=findings, outputs=outputs)
    return found


# ---- the report
def as_document(replayed: Replayed) -> str:
    """The JSON document: the report of a run, its outputs with numbers."""
    document = json.loads(as_json(replayed.report))
    for place, row in enumerate(document["outputs"]):
        numbers = replayed.numbers.get(place, OPEN)
        row["max_abs"], row["max_rel"] = _finite(numbers.max_abs), _finite(numbers.max_rel)
        row["first_divergence"] = replayed.divergence.get(place)
    document["replay"] = {
        "seed": replayed.seed,
        "draws": replayed.draws,
        "relations_checked": replayed.checked,
        "relations_wrong": len(replayed.wrong),
        "relations_skipped": len(replayed.skipped),
        "memory_bytes": replayed.memory,
        "sizes": {str(k): v for k, v in replayed.sizes.items()},
        "note": replayed.note,
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def _finite(value: float | None) -> float | str | None:
    return value if value is None or abs(value) != float("inf") else "inf"


def as_lines(replayed: Replayed) -> str:
    """The report for a person."""
    report = replayed.report
    lines = [
        f"{VERDICTS[report.verdict]} (seed {replayed.seed}, {replayed.draws} draws)",
        "",
        "outputs",
    ]
    width = max(len(row.seq) for row in report.outputs)
    for place, row in enumerate(report.outputs):
        numbers = replayed.numbers.get(place, OPEN)
        text = f"  {row.seq:<{width}}  {row.status:<12}  {_said(replayed, place)}"
        if numbers.fits is False and numbers.max_abs is not None:
            text += f" by {numbers.max_abs:.3g} (relative {numbers.max_rel:.3g})"
        elif numbers.fits is False:
            text += ": what the ranks return makes up no such tensor"
        first = replayed.divergence.get(place)
        if first:
            source = first["dist_source"] or first["seq_source"]
            text += f", first at `{first['seq']}`" + (f" ({source})" if source else "")
        lines.append(text)
    if replayed.note:
        lines += ["", replayed.note]
    if report.findings:
        lines += ["", "findings", *(f"  {f.code} {f.level}: {f.message}" for f in report.findings)]
    lines += ["", f"{replayed.checked} relations checked, {len(replayed.wrong)} wrong"]
    if replayed.skipped:
        lines[-1] += f", {len(replayed.skipped)} that cannot be evaluated"
    if replayed.sizes:
        told = ", ".join(f"{a} as {b}" for a, b in replayed.sizes.items())
        lines.append(f"sizes: {told}; {replayed.memory / 1e6:.1f} MB")
    return "\n".join(lines)


def _said(found: Replayed, place: int) -> str:
    if place not in found.numbers:
        return "not executed"
    return {True: "agrees", False: "differs", None: "no numbers to compare"}[found.agrees(place)]


VERDICTS: dict[str, str] = {
    Verdict.REFINES: "REFINES: every output is rebuilt from what the ranks return",
    Verdict.DIFFERS: "DOES NOT REFINE",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
}
