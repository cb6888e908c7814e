"""Rules that cannot fire are not given to an engine, and nothing else changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from gg_datalog.engine import Engine
from gg_datalog.engine.parser import parse_program
from gg_datalog.engine.souffle_text import souffle_text
from gg_datalog.engine.translation import Need, Translation, need

from .conftest import rows_of

Write = Callable[..., Path]
PROGRAM = """
.decl given(a: number)
.decl empty(a: number)
.decl far(a: number)
.decl round(a: number)
.decl fixed(a: number)
.decl found(text: symbol, a: number)
.input given, empty
fixed(7).
far(a) :- empty(a).
far(a) :- given(a), far(a).
round(a) :- round(b), given(b), a = b + 1.
found("needs a fact", a) :- given(a).
found("needs a row that is not there", a) :- given(a), empty(a).
found("needs what needs that", a) :- far(a).
found("needs itself", a) :- round(a).
found("negates what is empty", a) :- given(a), !empty(a).
found("negates what is never derived", a) :- given(a), !far(a), !round(a).
found("needs a row of the program", a) :- fixed(a).
found("needs nothing", 3) :- 1 < 2.
.output found, far
"""
ALWAYS = {("needs a row of the program", 7), ("needs nothing", 3)}
WITH = {("needs a fact", 1), ("negates what is never derived", 1)}


def _numbers(rows: list[tuple[int]]) -> pa.Table:
    return pa.table({"a": pa.array([a for (a,) in rows], pa.int64())})


def _alive(needs: list[Need], given: Iterable[str]) -> set[int]:
    found = Translation(needs=needs)
    for number in range(len(needs)):
        found.add("", None, number)
    return {rule for rule in found.firing(given).rules if rule is not None}


@pytest.mark.parametrize(
    ("given", "empty", "expected"),
    [
        ([], [], set()),
        ([(1,)], [], {*WITH, ("negates what is empty", 1)}),
        (
            [(1,)],
            [(1,)],
            {
                ("needs a fact", 1),
                ("needs a row that is not there", 1),
                ("needs what needs that", 1),
            },
        ),
        ([], [(2,)], {("needs what needs that", 2)}),
    ],
)
def test_what_is_derived(
    engine: Engine,
    program: Write,
    given: list[tuple[int]],
    empty: list[tuple[int]],
    expected: set[tuple[str, int]],
) -> None:
    facts = {"given": _numbers(given), "empty": _numbers(empty)}
    found = rows_of(engine.run(program(PROGRAM), facts).relations)
    assert set(found["found"]) == {*expected, *ALWAYS}
    assert found["far"] == empty


def test_which_rules_are_left_out(program: Write) -> None:
    text = souffle_text(parse_program(program(PROGRAM)))
    left = text.firing(["given"])
    out = set(text.lines) - set(left.lines)
    assert len(out) == 6 and all(":-" in line for line in out)
    assert not any(word in line for line in left.lines for word in ("what needs that", "itself"))
    assert left.origins == [
        o for o, line in zip(text.origins, text.lines, strict=True) if line not in out
    ]
    assert text.firing(["given", "empty"]).lines == [
        line for line in text.lines if "round(" not in line.partition(":-")[2] or "!round" in line
    ]


def test_as_a_search_through_all_orders() -> None:
    """The same as to go over all rules until nothing changes, for random rules."""
    rng = random.Random(1)
    for _ in range(300):
        names = [f"r{i}" for i in range(rng.randint(1, 8))]
        needs: list[Need] = [
            (rng.choice(names), tuple(dict.fromkeys(rng.choices(names, k=rng.randint(0, 3)))))
            for _ in range(rng.randint(0, 12))
        ]
        given = rng.sample(names, rng.randint(0, len(names)))
        known, grew = set(given), True
        while grew:
            more = {head for head, names_ in needs if known >= set(names_)} - known
            known |= more
            grew = bool(more)
        assert _alive(needs, given) == {i for i, (_, n) in enumerate(needs) if known >= set(n)}


def test_negation_is_no_need(program: Write) -> None:
    path = program(".decl a(x: number)\n.decl b(x: number)\na(1) :- !b(1).\na(x) :- b(x), a(x).\n")
    first, second = parse_program(path).clauses
    assert need(first) == ("a", ())
    assert need(second) == ("a", ("b", "a"))
