"""Right programs, with the rules taken away one at a time: what is then not shown is not called wrong,
and no finding says what is not so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch
from zlib import crc32

import numpy as np
import pytest

from gg_datalog.engine import kept
from gg_datalog.engine.parser import parse_program
from gg_datalog.engine.program import Comparison, Literal, Negation
from gg_datalog.engine.translate import Symbols, translate
from gg_datalog.engine.translation import Translated
from gg_datalog.extract.case import case_files
from gg_datalog.extract.facts import build_sides
from gg_datalog.inference.run import Options, run_facts
from gg_datalog.result.report import Report
from gg_datalog.result.store import write_facts

from .coverage import rules_of
from .interpreter import Execution, execute
from .judge import judge
from .kernels_np import NotExecuted
from .program import Program
from .promotion import Invalid
from .relations import RULES
from .sentences import false
from .tables import programs
from .together import executed, fits, number_of, together

SHARE = 6  # of how many programs one is taken
SAMPLE = 5
FOLDERS = ("rules", "lemmas", "terms")
READING = "rules/input.dl"  # reads the input relations: without it nothing is known of an input
WHOLE = parse_program(RULES)


def _relation(part: Literal) -> str:
    return (part.atom if isinstance(part, Negation) else part).relation


def _places() -> list[str]:
    """The rules that derive relations, but for those of which others ask that something does not
    hold: these would derive more, and what is wrong."""
    found = {p: c for p, c in rules_of().items() if p.partition("/")[0] in FOLDERS}
    bodies = [(c.head.relation, p) for c in found.values() for p in c.body if not _compares(p)]
    kept = {_relation(part) for _, part in bodies if isinstance(part, Negation)}
    while more := {_relation(part) for head, part in bodies if head in kept} - kept:
        kept |= more
    return [
        place
        for place, clause in found.items()
        if clause.head.relation not in kept and not place.startswith(READING)
    ]


def _compares(part: Literal) -> bool:
    return isinstance(part, Comparison)


@contextmanager
def _without(place: str) -> Iterator[None]:
    """The engine has no such rule."""
    gone = rules_of()[place]
    left = replace(WHOLE, clauses=[c for c in WHOLE.clauses if c.pos != gone.pos])
    symbols = Symbols()
    text = translate(left, symbols)
    made = Translated(left, text, tuple(symbols.texts()))
    real = kept.kept

    def given(kind: str, *rest: object) -> object:
        return made if kind == "clingo" else real(kind, *rest)  # type: ignore[arg-type]

    with patch.object(kept, "kept", given):
        yield


@dataclass(frozen=True)
class Right:
    """Right programs as one: its facts, and what its tensors hold."""

    facts: Path
    execution: Execution
    said: frozenset[str]  # with all rules


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Right:
    """Programs of the tables that the rules show to be right."""
    folder = tmp_path_factory.mktemp("right")
    known = {crc32(name.encode()): program for name, program in programs().items()}
    some = {n: program for n, program in known.items() if n % SHARE == 0 and fits(program)}
    refines = [judged.refines for judged in judge(list(some.values()))]
    chosen = {n: p for (n, p), right in zip(some.items(), refines, strict=True) if right}
    runs = {n: run for n, program in chosen.items() if (run := _run(program)) is not None}
    chosen = {n: chosen[n] for n in runs}
    report = _judged(_facts(folder / "all", together(chosen)))
    # what rests on the order of a whole program is another thing here
    others = {number_of(row.seq) for row in report.outputs if row.status != "mapped"}
    left = {number: program for number, program in chosen.items() if number not in others}
    assert len(left) > 30
    facts = _facts(folder / "right", together(left))
    report = _judged(facts)
    assert report.verdict == "refines", report.findings
    said = frozenset(found.message for found in report.findings)
    return Right(facts, executed({number: runs[number] for number in left}), said)


def _run(program: Program) -> Execution | None:
    try:
        return execute(program, np.random.default_rng(7))
    except (Invalid, NotExecuted):
        return None


def _facts(folder: Path, program: Program) -> Path:
    program.write(folder / "case")
    built = build_sides(case_files(folder / "case"), [], lambda text: None)
    write_facts(built.tables, folder / "facts", "parquet", {})
    return folder / "facts"


def _judged(facts: Path) -> Report:
    options = Options(engine="clingo", repairs=False, confirm=0)
    return run_facts(facts, facts.parent / "result", options, lambda text: None)


def _problems(right: Right, place: str) -> Iterator[str]:
    with _without(place):
        report = _judged(right.facts)
    if report.verdict == "does-not-refine":
        yield f"{place}: a right program is said not to refine"
    for found in report.findings:
        if found.level == "note" or found.message in right.said:
            continue
        if why := false(found, right.execution):
            yield f"{place}: {found.code} {found.message}: {why}"


@pytest.mark.exhaustive("every rule")
@pytest.mark.parametrize("which", ["some rules", "every rule"])
def test_nothing_false_is_said(which: str, right: Right) -> None:
    places = _places()
    assert len(places) > 200
    if which == "some rules":
        places = random.Random(20261123).sample(places, SAMPLE)
    wrong = [problem for place in places for problem in _problems(right, place)]
    assert not wrong, "\n".join(dict.fromkeys(wrong[:20]))
