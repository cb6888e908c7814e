"""Facts in, checked against the declarations before any engine runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from gg_datalog.engine import Engine
from gg_datalog.foundation.errors import EngineError

from .conftest import rows_of, table

ECHO = (
    ".type id <: symbol\n.decl r(s: id, n: number)\n.input r\n.decl none()\n.input none\n"
    ".decl out(n: number, s: symbol)\nout(n, s) :- r(s, n), !none().\n.output out\n"
)
NONE = pa.table({})


def test_facts_arrive_whatever_their_arrow_type(
    engine: Engine, program: Callable[[str], Path]
) -> None:
    symbols = pa.array(['x"y', "", "2", 'x"y', "r_r(1)."]).dictionary_encode()
    numbers = pa.array([1, -(2**31), 2**31 - 1, 1, 0], pa.int32())
    facts = {"r": pa.table({"s": symbols, "n": numbers}), "none": NONE}
    found = rows_of(engine.run(program(ECHO), facts).relations)
    assert found["out"] == [(-(2**31), ""), (0, "r_r(1)."), (1, 'x"y'), (2**31 - 1, "2")]


def test_one_column_of_empty_strings(engine: Engine, program: Callable[[str], Path]) -> None:
    path = program(".decl r(s: symbol)\n.input r\n.output r\n")
    facts = {"r": table("s", [("",), ("a",), ("",)])}
    assert rows_of(engine.run(path, facts).relations)["r"] == [("",), ("a",)]


def test_a_fact_without_columns(engine: Engine, program: Callable[[str], Path]) -> None:
    facts = {"r": table("s n", [("a", 1)]), "none": pa.table({"x": [0]}).select([])}
    assert rows_of(engine.run(program(ECHO), facts).relations)["out"] == []


def test_no_rows_at_all(engine: Engine, program: Callable[[str], Path]) -> None:
    nothing = pa.table({"s": pa.array([], pa.string()), "n": pa.array([], pa.int64())})
    found = engine.run(program(ECHO), {"r": nothing, "none": NONE}).relations
    assert rows_of(found) == {"out": []}
    assert [str(field.type) for field in found["out"].schema] == ["int64", "string"]


def test_a_number_outside_the_word_names_relation_column_and_row(
    program: Callable[[str], Path],
) -> None:
    from gg_datalog.engine.clingo_engine import ClingoEngine

    facts = {"r": table("s n", [("a", 1), ("b", 3_000_000_000)]), "none": NONE}
    with pytest.raises(EngineError, match="3000000000 does not fit 32 bits") as caught:
        ClingoEngine().run(program(ECHO), facts)
    assert caught.value.where == "r.n, row 1"


BAD = {
    "no facts are given for the .input relation none": {"r": table("s n", [("a", 1)])},
    "facts are given for out": {"r": table("s n", []), "none": NONE, "out": NONE},
    r"columns \(s\), not \(s, n\)": {"r": table("s", [("a",)]), "none": NONE},
    r"columns \(n, s\), not \(s, n\)": {"r": table("n s", [(1, "a")]), "none": NONE},
    "column r.n is string, not number": {"r": table("s n", [("a", "1")]), "none": NONE},
    "column r.s is int64, not symbol": {"r": table("s n", [(1, 1)]), "none": NONE},
    "column r.n is double, not number": {"r": table("s n", [("a", 1.5)]), "none": NONE},
    "column r.s has a null in row 1": {"r": table("s n", [("a", 1), (None, 2)]), "none": NONE},
    r"'a\\tb' has a tab": {"r": table("s n", [("a\tb", 1)]), "none": NONE},
    r"'a\\nb' has a tab, a line break": {"r": table("s n", [("a\nb", 1)]), "none": NONE},
    r"'b\\r' has a tab, a line break": {"r": table("s n", [("b\r", 1)]), "none": NONE},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_facts(message: str, engine: Engine, program: Callable[[str], Path]) -> None:
    with pytest.raises(EngineError, match=message):
        engine.run(program(ECHO), BAD[message])


def test_a_number_beyond_64_bits(engine: Engine, program: Callable[[str], Path]) -> None:
    numbers = pa.array([2**63], pa.uint64())
    facts = {"r": pa.table({"s": ["a"], "n": numbers}), "none": NONE}
    with pytest.raises(EngineError, match="9223372036854775808"):
        engine.run(program(ECHO), facts)


def test_a_record_column_takes_no_facts(engine: Engine, program: Callable[[str], Path]) -> None:
    path = program(".type l = [n: number, l: l]\n.decl r(l: l)\n.input r\n")
    with pytest.raises(EngineError, match="records cannot be facts"):
        engine.run(path, {"r": table("l", [("nil",)])})
