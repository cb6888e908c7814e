"""What is outside the subset is refused, by name, with file and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gg_datalog.engine import select_engine
from gg_datalog.foundation.errors import EngineError

PRELUDE = (
    ".type id <: symbol\n.type op <: symbol\n.type list = [head: number, tail: list]\n"
    ".type pair = [a: number, b: number]\n.decl n(a: number)\n.decl s(a: symbol)\n"
    ".decl i(a: id)\n.decl o(a: op)\n.decl l(a: list)\n.decl p(a: pair)\n"
    ".decl e(a: number, b: number)\n"
)
LINE = PRELUDE.count("\n") + 1

# The text that follows the prelude -> what the message must say.
REFUSED = {
    "n(a), e(a, a) :- n(a).": "several heads",
    "n(a) :- n(a); e(a, _).": r"disjunction \(;\)",
    "n(a) :- n(a), a = sum x : { n(x) }.": "an aggregate",
    "n(c) :- c = count : { n(_) }.": "an aggregate",
    ".comp X { }": "directive .comp",
    ".functor f(x: number): number": "directive .functor",
    '.pragma "x"': "directive .pragma",
    ".printsize n": "directive .printsize",
    ".decl q(a: number) eqrel": "reserved word eqrel",
    ".decl q(as: number)": "reserved word as",
    ".decl q(a: number) choice-domain a": "choice-domain",
    "n(a) :- n(b), a = @f(b).": "user-defined functor",
    "n($) :- n(_).": "algebraic data type or counter",
    "n(a) :- n(b), a = b ^ 2.": r"operator \^",
    "n(a) :- n(b), a = b band 2.": "reserved word band",
    "n(a) :- n(b), a = max(b, 2).": r"functor max\(",
    's(a) :- s(b), a = cat(b, "x").': r"functor cat\(",
    's(a) :- s(b), a = mine(b, "x").': r"functor mine\(",
    's(a) :- s(a), contains("x", a).': r"functor contains\(",
    "n(1.5).": "floating-point number 1.5",
    "n(0x10).": "number format 0x10",
    's("tab\\t").': "escape",
    "n(1)": "the file ends inside a clause",
    "n(1) :- .": "syntax error",
    ".type f <: float": "type float is not defined, or not in the subset",
    ".type u = number | symbol": "neither a subset nor a record",
    ".type u = A { x: number }": "neither a subset nor a record",
    "n(a) :- l(x), x = [a, x].": "taken apart into itself",
    "n(a) :- l(x), x = [a, y], y = [_, x].": "taken apart into itself",
    "n(2147483648).": "2147483648 does not fit 32 bits",
    "n(1, 2).": "n has 1 columns, not 2",
    "q(1).": "neither a declared relation",
    "n(a) :- n(a), !q(a).": "neither a declared relation",
    ".input q": "no such relation",
    ".decl n(a: number)": "declared twice",
    ".type pair = [a: number]": "defined twice",
    ".decl q(a: nothing)": "type nothing is not defined",
    ".decl q(a: number, a: number)": "column name is used twice",
    'n("x").': "'x' is symbol, not number",
    "s(1).": "1 is number, not symbol",
    "s(nil).": "nil is nil, not symbol",
    "n(a) :- s(a).": "variable a is symbol, not number",
    "n(a) :- n(a), s(a).": "variable a is both number and symbol",
    "i(a) :- s(a).": "variable a is symbol, which is no subset of id",
    "s(a) :- i(a), o(a).": "variable a is both id and op",
    "s(a) :- i(a), o(b), a = b.": "variable [ab] is both",
    "s(a) :- i(a), o(b), a != b.": "a id is compared with a op",
    "n(a) :- n(a), !s(a).": "variable a is number, not symbol",
    'n(a) :- n(a), a = "x".': "not",
    "n(a) :- n(a), a = nil.": "nil is nil, not number",
    's(a) :- s(a), a < "x".': "< between values that are no numbers",
    "l(a) :- l(a), l(b), a < b.": "< between values that are no numbers",
    "n(a + 1) :- s(a).": "arithmetic with variable a",
    'l([1, ["x", nil]]).': "'x' is symbol, not number",
    "l([1]).": "record type list has 2 fields, not 1",
    "n([1, nil]).": "a record where a number is meant",
    "l(a) :- p(a).": "variable a is pair, not list",
    "l(a) :- l(a), p(b), a = b.": "variable [ab] is both",
    "n(a) :- l(x), x = [a].": "record type list has 2 fields, not 1",
    "l(a) :- n(b), a = [b, nil].": "a record is built in a body",
    "l(a) :- l(a), [1, nil] = [1, nil].": "a record is built in a body",
    "l(a) :- l(a), !l([1, a]).": "a record is built in a negation",
    "n(a) :- e(_, b).": "variable a is not bound",
    "n(b) :- n(b), !e(a, b).": "variable a is not bound",
    "n(b) :- n(b), a < b.": "variable a is not bound",
    "n(a) :- n(b), b = a + 1.": "variable a is not bound",
    "n(b) :- n(b), e(a + 1, b).": "variable a is not bound",
    "n(a) :- a = b, b = a.": "variable a is not bound",
    "n(_) :- n(_).": "_ in the head",
    "l([_, nil]) :- n(_).": "_ in the head",
    "n(a) :- n(a), a != _.": "_ in a comparison",
    "n(a) :- n(a), e(_ + 1, a).": "_ in a comparison or in arithmetic",
    "n(a) :- l(x), x = [a, _], x != [_, nil].": "_ in a comparison",
    "n(a) :- e(a, _), !n(a).": "negation of n inside its own recursion",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_with_name_and_line(text: str, program: Callable[[str], Path]) -> None:
    path = program(f"{PRELUDE}{text}\n")
    with pytest.raises(EngineError, match=REFUSED[text]) as caught:
        select_engine("clingo").run(path, {})
    assert caught.value.where == f"{path}:{LINE}"


def test_the_prelude_alone_is_accepted(program: Callable[[str], Path]) -> None:
    assert select_engine("clingo").run(program(PRELUDE), {}).relations == {}


def test_negation_through_a_cycle_of_two(program: Callable[[str], Path]) -> None:
    path = program(f'{PRELUDE}n(a) :- e(a, _), !s("x").\ns("x") :- i("y").\ni("y") :- n(1).\n')
    with pytest.raises(EngineError, match="negation of s inside its own recursion"):
        select_engine("clingo").run(path, {})


def test_an_unknown_engine() -> None:
    with pytest.raises(EngineError, match="no engine 'mine'"):
        select_engine("mine")
