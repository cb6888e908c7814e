"""Random programs: what the rules derive, the checker of certificates finds right as well."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gg_datalog.proofs.checker import Checker
from gg_datalog.proofs.derivations import Derivations, statement
from gg_datalog.result.records import relation

from .fuzz import mixed
from .judge import Judged, judge

PROGRAMS = 60
SEED = 52_000


def rules(judged: Judged) -> Counter[str]:
    """How often each rule gives a relation of a program; there is one behind each."""
    assert judged.extracted is not None
    facts: dict[str, list[tuple[Any, ...]]] = {
        name: list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        for name, table in judged.extracted.tables.items()
    }
    rows = [relation(held) for held in judged.holds]
    known = Derivations(Checker(facts), rows)
    found: Counter[str] = Counter()
    for row in rows:
        step = next(known.of(statement(row)), None)
        assert step is not None, f"no step gives {row}"
        found[step.rule] += 1
    return found


def test_every_relation_is_a_step_that_the_checker_accepts() -> None:
    programs = [mixed(seed).program for seed in range(SEED, SEED + PROGRAMS)]
    total: Counter[str] = Counter()
    for judged in judge(programs):
        if judged.extracted is not None:
            total += rules(judged)
    assert sum(total.values()) > 20 * PROGRAMS
    assert len(total) > 6
