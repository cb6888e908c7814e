"""Every relation that the rules derive for the cases of this folder is the conclusion of a step that
the checker of certificates accepts: both say the same of every rule."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gg_datalog.checker import RULES, Checker
from gg_datalog.derivations import Derivations, statement

from .build import Case, Outcome, batch, extracted

HERE = Path(__file__).parent


def cases() -> list[Case]:
    """All cases of the tables in this folder that can be extracted."""
    found: dict[Case, None] = {}
    for path in sorted(HERE.glob("test_*.py")):
        if path.stem == Path(__file__).stem:
            continue
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for test in vars(module).values():
            for mark in getattr(test, "pytestmark", ()):
                if mark.name == "parametrize" and mark.args[0] == "case":
                    found |= dict.fromkeys(
                        value for param in mark.args[1] for value in _values(param)
                    )
    return [case for case in found if isinstance(case, Case) and not case.error]


def _values(param: Any) -> tuple[Any, ...]:
    return param.values if hasattr(param, "values") else (param,)


def rows(case: Case) -> dict[str, list[tuple[Any, ...]]]:
    """The facts of a case."""
    return {
        name: list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        for name, table in extracted(case).items()
    }


def steps(case: Case, out: Outcome) -> Counter[str]:
    """How often each rule gives a relation of a case."""
    known = Derivations(
        Checker(rows(case)),
        [(h["dist"], h["seq"], h["times"], h["parts"], h["block"]) for h in out.holds],
    )
    found: Counter[str] = Counter()
    for row in out.holds:
        step = next(known.of(statement(tuple(row[name] for name in COLUMNS))), None)  # type: ignore[arg-type]
        assert step is not None, f"{case.name}: no step gives {row}"
        found[step.rule] += 1
    return found


SHARE = int(os.environ.get("GG_DATALOG_SHARE", "3"))
"""Of how many cases one is looked at: all together take a minute and a half."""
COLUMNS = ("dist", "seq", "times", "parts", "block")


@pytest.fixture(scope="module")
def judged() -> dict[str, tuple[Case, Outcome]]:
    """What the rules derive for each case."""
    found = cases()[::SHARE]
    return {
        case.name: (case, out)
        for case, out in zip(found, batch(found), strict=True)
        if not out.error
    }


def test_every_relation_is_a_step_that_the_checker_accepts(
    judged: dict[str, tuple[Case, Outcome]],
) -> None:
    total: Counter[str] = Counter()
    for case, out in judged.values():
        total += steps(case, out)
    print(dict(total))
    assert len(judged) > 300
    assert set(total) == set(RULES)
