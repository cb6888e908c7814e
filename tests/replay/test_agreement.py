"""Broken pairs: what is derived and what the numbers say, side by side.

Where all outputs are derived to be rebuilt, the numbers agree, always. The other way round, a pair
that is refused while no draw shows a difference is a false alarm, or a change that no draw can show;
these are listed by name, and none of them is a pair as it was captured.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from gg_datalog.extract import case_files
from gg_datalog.foundation.errors import InputError
from gg_datalog.replay import command
from gg_datalog.replay.command import Replayed, replay

from ..corpus.values import same_value
from ..numeric.fuzz import generate
from ..numeric.mutations import KINDS, mutate
from ..numeric.pairs import CORPUS, SIZES, corpus, pair
from ..numeric.program import Program

CAPTURED = ("gpt-tp2-l1", "llama-tp2-l1", "qwen2-tp2-l1")
GENERATED = ("gpt-1x2", "llama-1x2", "qwen2-1x4-replicated", "case")
EACH = 3
SEED = 20240229


@dataclass
class Tally:
    """What became of a number of broken pairs."""

    agreeing: int = 0
    refused: int = 0
    unshown: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, text: str, before: Program, after: Program, found: Replayed) -> None:
        """One more pair."""
        rows = list(enumerate(found.report.outputs))
        agree = [found.agrees(place) for place, _ in rows]
        derived = [row.status == "mapped" for _, row in rows]
        if found.wrong:
            self.contradictions.append(f"{text}: {found.wrong[0]}")
        for (_, row), fits, mapped in zip(rows, agree, derived, strict=True):
            if mapped and fits is not True and not found.hangs:
                self.contradictions.append(f"{text}: {row.seq} is derived, the numbers say {fits}")
        refines = found.report.verdict == "refines"
        self.refused += not refines
        if refines or found.hangs or not all(agree):
            self.agreeing += 1
        else:
            equal = ", the same up to renaming" if same_value(before, after) else ""
            self.unshown.append(f"{text}{equal}")

    def told(self) -> str:
        """For a person."""
        total = self.agreeing + len(self.unshown)
        lines = [
            f"{total} broken pairs, {self.refused} of them refused: verdict and numbers agree on "
            f"{self.agreeing}, {len(self.unshown)} that no draw shows"
        ]
        return "\n".join([*lines, *self.unshown, *self.failures])


def broken(name: str, each: int, seed: int = SEED) -> Iterator[tuple[str, Program, Program]]:
    """(what was done, before, after) of some changes of a pair."""
    before = corpus(name) if name not in (*SIZES, "case") else pair(name)
    if before is None:
        pytest.skip(f"the corpus is not at {CORPUS}")
    rng = random.Random(f"{name} {seed}")
    for kind in rng.choices(sorted(KINDS), k=each):
        try:
            change = mutate(before, rng, kind)
        except LookupError:
            continue
        yield f"{name}, {change.kind}: {change.text}", before, change.program


def tally(name: str, each: int, folder: Path, seed: int = SEED) -> Tally:
    """Some changes of a pair, replayed."""
    counts = Tally()
    for text, before, after in broken(name, each, seed):
        after.write(folder)
        try:
            found = replay(case_files(folder), [], 0, False, lambda _: None)
        except InputError as error:
            counts.failures.append(f"{text}: {error}")
            continue
        counts.add(text, before, after, found)
    return counts


@pytest.mark.exhaustive("llama-1x2", "gpt-1x2", "qwen2-*")
@pytest.mark.parametrize("name", [*GENERATED, *CAPTURED])
def test_broken_pairs(name: str, tmp_path: Path, record_property: Any) -> None:
    counts = tally(name, EACH if name in GENERATED else EACH - 1, tmp_path)
    print(counts.told())
    record_property("unshown", counts.unshown)
    assert not counts.contradictions, "\n".join(counts.contradictions)
    assert not counts.failures, "\n".join(counts.failures)


@pytest.mark.exhaustive("as they are")
@pytest.mark.parametrize("smaller", [False, True], ids=["as they are", "in small sizes"])
def test_random_programs(smaller: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right or wrong: every relation is compared, and holds; what is derived agrees."""
    if smaller:
        monkeypatch.setattr(command, "SMALL", 0)
    relations = 0
    for seed in range(3 * smaller, 3 * smaller + 3):
        generate(seed)[0].write(tmp_path / str(seed))
        found = command.replay(case_files(tmp_path / str(seed)), [], 0, False, lambda _: None)
        rows = list(enumerate(found.report.outputs))
        assert (found.wrong, found.skipped) == ([], []), seed
        wrong = [row.seq for i, row in rows if row.status == "mapped" and found.agrees(i) is False]
        assert not wrong, seed
        relations += found.checked
    assert relations > 30


@pytest.mark.exhaustive("gpt-tp2-l2", "qwen2-tp2-l1")
@pytest.mark.parametrize(
    "name", [*CAPTURED, "gpt-tp2-l2", "bug-grad-accumulation", "bug-wrong-config-allreduce"]
)
def test_no_false_alarm_on_what_was_captured(name: str, captured: Any) -> None:
    found = captured(name)
    rows = list(enumerate(found.report.outputs))
    assert [row.seq for place, row in rows if row.status != "mapped" and found.agrees(place)] == []


def test_a_pair_is_counted_once() -> None:
    """A contradiction and an alarm are told apart, whatever the pair."""
    before = pair("gpt-1x2")
    after = before.copy()
    after.dist[0]["nodes"][-1]["name"] = "end"
    counts = Tally()
    from gg_datalog.replay.derived import APART, SAME
    from gg_datalog.result.report import OutputRow, Report

    for status, numbers in [
        ("mapped", SAME),
        ("unmapped", APART),
        ("unmapped", SAME),
        ("mapped", APART),
    ]:
        verdict = "refines" if status == "mapped" else "does-not-refine"
        report = Report(verdict, [OutputRow("y", status, None)], [], [], {}, {})
        counts.add(status, before, after, Replayed(report, 0, {0: numbers}))
    assert (counts.agreeing, counts.refused) == (3, 2)
    assert counts.unshown == ["unmapped, the same up to renaming"]
    assert len(counts.contradictions) == 1
