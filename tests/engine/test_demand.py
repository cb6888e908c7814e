"""Relations on demand: what a rule gives is asked, nothing else is derived, and a call that gives
nothing is refused by its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gg_datalog.datalog import program_path
from gg_datalog.engine import Engine
from gg_datalog.engine.demand import with_demand
from gg_datalog.engine.parser import parse_program
from gg_datalog.engine.program import Atom, Program
from gg_datalog.engine.souffle_text import clause_text
from gg_datalog.foundation.errors import EngineError

from .conftest import rows_of

Write = Callable[[str], Path]

PAIRS = ".decl pair(a: number, b: number)\npair(12, 18). pair(7, 0). pair(35, 21).\n"
GCD = """\
.decl divides(a: number, b: number |)
divides(a, b) :- b > 0, a >= 0.
.decl gcd(a: number, b: number | divisor: number)
gcd(a, 0, a).
gcd(a, b, g) :- divides(a, b), r = a % b, gcd(b, r, g).
"""
FOUND = ".decl found(a: number, b: number)\n.output found\n"
LISTS = """\
.type list = [head: number, tail: list]
.decl given(l: list)
given([3, [1, [2, nil]]]).
"""


def plain(path: Path) -> Program:
    """The program with the rules that ask."""
    return with_demand(parse_program(path))


def asking(path: Path) -> list[str]:
    """The rules that ask."""
    texts = [clause_text(clause) for clause in plain(path).clauses]
    return sorted(text for text in texts if re.match(r"\w+_want\(", text))


def derived(engine: Engine, path: Path) -> set[tuple[object, ...]]:
    """The rows of ``found``."""
    return set(rows_of(engine.run(path, {}).relations)["found"])


# ---- what is derived ----------------------------------------------------------------------------
def test_what_is_asked_is_answered(engine: Engine, program: Write) -> None:
    path = program(PAIRS + GCD + FOUND + "found(a, g) :- pair(a, b), gcd(a, b, g).\n")
    assert derived(engine, path) == {(12, 6), (7, 7), (35, 7)}


def test_nothing_else_is_derived(engine: Engine, program: Write) -> None:
    path = program(
        PAIRS + GCD + FOUND + "found(a, b) :- gcd_want(a, b).\n"
        ".decl used(g: number)\nused(g) :- pair(12, b), gcd(12, b, g).\n"
    )
    assert derived(engine, path) == {(12, 18), (18, 12), (12, 6), (6, 0)}


def test_records_are_given(engine: Engine, program: Write) -> None:
    text = """\
.decl longest(l: list | n: number)
longest(nil, 0).
longest([h, t], n) :- longest(t, n), h <= n.
longest([h, t], h) :- longest(t, n), h > n.
found(n, 0) :- given(l), longest(l, n).
found(n, 1) :- given(l), l = [h, t], m = [h, t], t != nil, longest(m, n).
"""
    path = program(LISTS + FOUND + text)
    assert derived(engine, path) == {(3, 0), (3, 1)}


def test_a_record_is_built_for_a_call(engine: Engine, program: Write) -> None:
    text = """\
.decl total(l: list | n: number)
total(nil, 0).
total([h, t], n) :- total(t, m), n = h + m.
found(n, 0) :- given(l), l = [h, t], d = h * 2, total([d, t], n).
"""
    assert derived(engine, program(LISTS + FOUND + text)) == {(9, 0)}


def test_what_is_negated_is_asked(engine: Engine, program: Write) -> None:
    text = ".decl even(a: number |)\neven(a) :- a % 2 = 0.\nfound(a, b) :- pair(a, b), !even(a).\n"
    path = program(PAIRS + FOUND + text)
    assert derived(engine, path) == {(7, 0), (35, 21)}


def test_what_a_rule_negates_may_depend_on_the_answer(engine: Engine, program: Write) -> None:
    """It is left out of what is asked, which would go through a negation in a circle otherwise."""
    text = """\
.decl odd(a: number)
odd(a) :- pair(a, b), gcd(a, b, g), g % 2 = 1.
found(a, g) :- pair(a, b), !odd(a), gcd(a, b, g).
"""
    assert derived(engine, program(PAIRS + GCD + FOUND + text)) == {(12, 6)}


# ---- which rules ask ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param(
            "found(a, g) :- pair(a, b), gcd(a, b, g).",
            ["gcd_want(a, b) :- pair(a, b)."],
            id="what stands before the call",
        ),
        pytest.param(
            "found(a, g) :- pair(a, b), gcd(a, b, g), a > b.",
            ["gcd_want(a, b) :- pair(a, b)."],
            id="not what stands behind it",
        ),
        pytest.param(
            "found(a, g) :- pair(a, b), a > b, gcd(a, b, g).",
            ["gcd_want(a, b) :- pair(a, b), a > b."],
            id="a test before it",
        ),
        pytest.param(
            "found(a, g) :- pair(a, b), a > b, gcd(a, b, g).\n"
            "found(a, g) :- pair(a, b), gcd(a, b, g).",
            ["gcd_want(a, b) :- pair(a, b)."],
            id="what another rule asks anyway",
        ),
        pytest.param(
            "found(a, g) :- pair(a, b), gcd(a, b, g).\nfound(c, h) :- pair(c, d), gcd(c, d, h).",
            ["gcd_want(a, b) :- pair(a, b)."],
            id="the same by other names",
        ),
        pytest.param(
            "found(a, g) :- pair(a, b), gcd(a, b, g).\nfound(c, h) :- pair(c, d), gcd(d, c, h).",
            ["gcd_want(a, b) :- pair(a, b).", "gcd_want(d, c) :- pair(c, d)."],
            id="not the same the other way round",
        ),
        pytest.param(
            "found(g, h) :- pair(a, b), gcd(a, b, g), gcd(b, a, h).",
            ["gcd_want(a, b) :- pair(a, b).", "gcd_want(b, a) :- pair(a, b)."],
            id="calls of one relation at once",
        ),
        pytest.param(
            "found(a, h) :- pair(a, b), gcd(a, b, g), gcd(g, a, h).",
            [
                "gcd_want(a, b) :- pair(a, b).",
                "gcd_want(g, a) :- pair(a, b), gcd(a, b, g).",
            ],
            id="what depends on the answer after it",
        ),
    ],
)
def test_the_rules_that_ask(program: Write, rules: str, expected: list[str]) -> None:
    known = ["gcd_want(b, r) :- divides(a, b), r = (a % b)."]
    path = program(PAIRS + GCD + FOUND + rules)
    assert asking(path) == sorted([*known, *expected])


def test_what_is_only_passed_on_has_no_relation_of_its_own(program: Write) -> None:
    """``divides`` is asked what ``gcd`` is asked, and a row of it was asked."""
    path = program(PAIRS + GCD + FOUND + "found(a, g) :- pair(a, b), gcd(a, b, g).\n")
    texts = {clause_text(clause) for clause in plain(path).clauses}
    assert "divides_want" not in plain(path).declarations
    assert "divides(a, b) :- gcd_want(a, b), b > 0, a >= 0." in texts
    assert "gcd(a, b, g) :- divides(a, b), r = (a % b), gcd(b, r, g)." in texts


def test_a_program_without_a_bar_is_what_it_was(program: Write) -> None:
    parsed = parse_program(program(PAIRS + FOUND + "found(a, b) :- pair(a, b).\n"))
    assert with_demand(parsed) is parsed


def test_no_rule_of_ours_asks_by_hand() -> None:
    heads = {clause.head.relation for clause in parse_program(program_path()).clauses}
    assert not [name for name in heads if name.endswith("_want")]


def test_every_call_in_our_rules_is_asked() -> None:
    """Whatever is read of a relation on demand has a rule that asks: none is read silently."""
    parsed, found = parse_program(program_path()), plain(program_path())
    on_demand = {d.name for d in parsed.declarations.values() if d.given}
    read = {
        part.relation
        for clause in parsed.clauses
        for part in clause.body
        if isinstance(part, Atom) and part.relation in on_demand
    }
    heads = {clause.head.relation for clause in found.clauses}
    looked_at = {p.relation for c in found.clauses for p in c.body if isinstance(p, Atom)}
    assert on_demand == read
    assert {name for name in looked_at if name.endswith("_want")} <= heads


# ---- refusals -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rules", "line", "message"),
    [
        pytest.param(
            "found(a, g) :- gcd(a, b, g), pair(a, b).",
            1,
            "gcd is asked here, but nothing before says what a is: whoever asks gives a, b",
            id="bound behind the call",
        ),
        pytest.param(
            "found(a, g) :-\n    pair(a, _), gcd(a, b, g), b = 2.",
            2,
            "nothing before says what b is",
            id="one of two, on its line",
        ),
        pytest.param(
            "found(a, g) :- pair(a, _), gcd(a, _, g).", 1, "nothing before says what _ is", id="_"
        ),
        pytest.param(
            "found(a, b) :- pair(a, b), !gcd(b, c, 1), pair(b, c).",
            1,
            "nothing before says what c is",
            id="negated",
        ),
        pytest.param(
            "found(a, g) :- pair(a, b), a > b, c = d, pair(_, d), gcd(a, c, g), c < 0.\n"
            "found(a, g) :- pair(a, b), !pair(b, c), gcd(a, c, g), pair(_, c).",
            2,
            "nothing before says what c is",
            id="a negation says nothing",
        ),
        pytest.param(
            "gcd_want(a, b) :- pair(a, b).", 1, "gcd_want holds what is asked of gcd", id="by hand"
        ),
        pytest.param(
            ".decl gcd_want(a: number)", 1, "gcd_want holds what is asked of gcd", id="a taken name"
        ),
        pytest.param(
            ".output gcd", None, "gcd is derived on demand, so that it is neither", id="an output"
        ),
        pytest.param(
            ".input gcd", None, "gcd is derived on demand, so that it is neither", id="an input"
        ),
        pytest.param("gcd(a + 1, b, 0) :- b = 1.", 1, "which is computed here", id="a head"),
        pytest.param(".decl none(| a: number)", 1, "here nothing is", id="nothing before the bar"),
    ],
)
def test_refusals(program: Write, rules: str, line: int | None, message: str) -> None:
    before = PAIRS + GCD + FOUND
    path = program(before + rules + "\n")
    with pytest.raises(EngineError, match=re.escape(message)) as caught:
        plain(path)
    expected = before.split("gcd(a: number")[0].count("\n") if line is None else None
    number = before.count("\n") + line if line is not None else (expected or 0) + 1
    assert caught.value.where == f"{path}:{number}"
    assert caught.value.hint
