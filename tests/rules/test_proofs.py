"""Every relation that the rules derive for the cases of this folder is the conclusion of a step that
the checker of certificates accepts: both say the same of every rule."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gg_datalog.proofs.checker import RULES, Checker
from gg_datalog.proofs.derivations import Derivations, statement
from gg_datalog.proofs.positions import Refused
from gg_datalog.result.records import relation

from . import test_loss_parallel
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
    held = [relation(row) for row in out.holds]
    known = Derivations(Checker(rows(case)), held)
    found: Counter[str] = Counter()
    for row in held:
        step = next(known.of(statement(row)), None)
        assert step is not None, f"{case.name}: no step gives {row}"
        found[step.rule] += 1
    return found


SHARE = int(os.environ.get("GG_DATALOG_SHARE", "5"))
"""Of how many cases one is looked at: all together take a minute and a half."""


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
    assert len(judged) > 200
    assert set(total) == set(RULES)


# ---- steps that no engine gives ---------------------------------------------------------------
UNMASKED = Case(
    "rows of a shard, for ids that may lie in another one",
    "w: f32[8, 4]\nids: i64[5]\nreturn embedding(w, ids)",
    "w: f32[4, 4]\nids: i64[5]\nreturn embedding(w, sub.Tensor(ids, 4 * rank))",
    maps=(),
)
MASKED = """
w: f32[4, 4]
ids: i64[5]
mask: b[5] = bitwise_or.Tensor(lt.Scalar(ids, 4 * rank), ge.Scalar(ids, 4 * rank + 4))
local: i64[5] = masked_fill.Scalar(sub.Tensor(ids, 4 * rank), mask, 0)
return masked_fill.Scalar(embedding(w, local), unsqueeze(mask, -1), 0)
"""


def looked_up(case: Case) -> list[Any]:
    """What the checker makes of the lookups of rank 1, whose shard begins at row 4."""
    facts, found = Checker(rows(case)), []
    related = [facts.related_input([row], []) for row, *_ in facts.rows["related_input"]]
    inputs = {x.dist: x for x in related}
    ((s, *_),) = facts.rows["seq_lookup"]
    for o, table, *_ in facts.rows["dist_lookup"]:
        if table == "r1.w":
            try:
                found.append(facts.lookup_holds([o, s, 4], [[inputs[table]], [inputs["r1.ids"]]]))
            except Refused as error:
                print(case.name, o, error)
    return found


def test_a_shard_is_looked_up_under_a_mask() -> None:
    found = looked_up(UNMASKED.but("masked", dist=MASKED))
    assert any(x.parts[0][2:] == (4, 4, 8) for x in found)
    assert not looked_up(UNMASKED)


def test_ignored_ids_are_looked_at() -> None:
    """What hides ignored ids is not what a lookup gives that takes another row for them."""
    case = test_loss_parallel.LATE
    facts, held = rows(case), [relation(row) for row in batch([case])[0].holds]
    masked = {by for by, _ in facts["lookup_masked"]}
    hidden = {row[-1]: row[0] for row in facts["seq_lookup"] if row[0] in masked}
    given = {row[-1] for row in facts["dist_lookup"]}
    wanted = [statement(row) for row in held if row.seq in hidden and row.dist in given]
    without = facts | {
        "lookup_masked": [row for row in facts["lookup_masked"] if row[0] not in hidden.values()]
    }
    numbered = facts | {"integer_same": [(*row[:2], 3, row[3]) for row in facts["integer_same"]]}
    for changed, right in ((facts, True), (without, False), (numbered, False)):
        known = Derivations(Checker(changed), held)
        assert wanted
        assert all((next(known.of(one), None) is not None) == right for one in wanted)
