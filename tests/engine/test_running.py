"""Running: time limits, crashes, division by zero, the choice of an engine."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gg_datalog.engine import Engine, parse_program, select_engine
from gg_datalog.foundation.errors import EngineError

from .conftest import engine_named, rows_of, table

ENDLESS = ".decl n(a: number)\nn(0).\nn((a + 1) % 2000000000) :- n(a).\n.output n\n"


def test_a_time_limit_stops_the_engine(engine: Engine, program: Callable[[str], Path]) -> None:
    started = time.monotonic()
    with pytest.raises(EngineError, match=r"did not finish within 0\.5 seconds"):
        engine.run(program(ENDLESS), {}, timeout=0.5)
    assert time.monotonic() - started < 5


def test_division_by_zero_is_an_error_that_names_the_line(
    engine: Engine, program: Callable[[str], Path]
) -> None:
    path = program(
        ".decl n(a: number)\nn(0). n(1).\n.decl r(a: number)\n.output r\nr(6 / a) :- n(a)."
    )
    with pytest.raises(EngineError) as caught:
        engine.run(path, {})
    assert caught.value.where == f"{path}:5"


def test_a_divisor_guarded_in_an_earlier_rule(
    engine: Engine, program: Callable[[str], Path]
) -> None:
    path = program(
        ".decl n(a: number)\nn(0). n(2).\n.decl safe(a: number)\nsafe(a) :- n(a), a != 0.\n"
        ".decl r(a: number)\n.output r\nr(6 / a) :- safe(a).\n"
    )
    assert rows_of(engine.run(path, {}).relations) == {"r": [(3,)]}


def test_seconds_and_progress(engine: Engine, program: Callable[[str], Path]) -> None:
    messages: list[str] = []
    result = engine.run(program(".decl n(a: number)\nn(0)."), {}, progress=messages.append)
    assert list(result.seconds) == ["translate", "facts", "evaluate", "read", "total"]
    assert [text.partition(":")[0] for text in messages] == [engine.name] * 4


def test_versions_and_words(engine: Engine) -> None:
    assert engine.version()
    assert engine.word_bits() in ((32,) if engine.name == "clingo" else (32, 64))


def test_without_souffle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert select_engine("auto").name == "clingo"
    with pytest.raises(EngineError, match="no souffle on the PATH") as caught:
        select_engine("souffle")
    assert "--engine clingo" in str(caught.value)


def test_a_souffle_that_does_not_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "souffle"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert select_engine("auto").name == "clingo"
    with pytest.raises(EngineError, match="does not work: broken"):
        select_engine("souffle").word_bits()


def test_a_program_souffle_refuses_is_shown_with_file_and_line(
    program: Callable[..., Path],
) -> None:
    souffle = engine_named("souffle")
    program(".decl n(a: number)\n.input n\nn(a) :- n(b).\n", "sub/part.dl")
    path = program('.include "sub/part.dl"\n')
    with pytest.raises(EngineError, match="Ungrounded variable a") as caught:
        souffle.run(path, {"n": table("a", [(1,)])})
    assert str(caught.value.where).endswith("sub/part.dl:3")


def test_the_worker_refuses_undecided_atoms(program: Callable[..., Path]) -> None:
    from gg_datalog.engine.clingo_engine import _answer, _evaluate
    from gg_datalog.engine.translation import Translation

    path = program("a :- not b. b :- not a. c(1).\n#show c/1.\n", "rules.lp")
    with pytest.raises(EngineError, match="undecided atoms"):
        _answer(_evaluate([path], 60), Translation())


def test_a_rule_clingo_refuses_is_traced_to_its_source(program: Callable[..., Path]) -> None:
    from gg_datalog.engine.clingo_engine import _answer, _evaluate
    from gg_datalog.engine.program import Pos
    from gg_datalog.engine.translation import Translation

    translation = Translation()
    translation.add("a(1).", Pos(Path("x.dl"), 7))
    translation.add("b(X) :- a(Y).", Pos(Path("x.dl"), 8))
    path = program(translation.text, "rules.lp")
    with pytest.raises(EngineError, match="unsafe") as caught:
        _answer(_evaluate([path], 60), translation)
    assert caught.value.where == "x.dl:8"


def test_importing_the_package_is_cheap() -> None:
    import subprocess
    import sys

    code = (
        "import sys, gg_datalog.engine\n"
        "print([m for m in ('lark', 'pyarrow', 'clingo') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_joins_use_an_index(program: Callable[..., Path]) -> None:
    """A chain and unpackings over 20,000 rows: seconds if indexed, hours if not."""
    path = program(
        ".type l = [n: number, l: l]\n.decl e(a: number, b: number)\n.input e\n"
        ".decl t(x: number, l: l)\nt(a, [a, [b, nil]]) :- e(a, b).\n.decl r(a: number, d: number)\n"
        "r(a, d) :- t(_, x), x = [a, y], y = [b, nil], e(b, c), e(c, d), e(d, _).\n"
        "r(a, d) :- t(a, x), b = a + 1, t(b, y), x = [_, z], y = [d, _], z = [d, _], d % 2 = 0.\n"
        ".output r\n"
    )
    facts = {"e": table("a b", [(i, i + 1) for i in range(20_000)])}
    found = select_engine("clingo").run(path, facts, timeout=20).relations["r"]
    assert found.num_rows == 19_997 + 9_999


def test_the_translation_follows_source_order(program: Callable[..., Path]) -> None:
    from gg_datalog.engine.translate import Symbols, translate

    path = program(
        ".decl e(a: number, b: number)\n.decl r(a: number)\n"
        "r(a) :- e(a, b), e(b, c), b < 3, e(c, d), !r2(d), e(d, _).\n.decl r2(a: number)\n"
    )
    rules = [line for line in translate(parse_program(path), Symbols()).lines if ":-" in line]
    assert rules == [
        "x0_2(Va,Vc) :- r_e(Va,Vb), r_e(Vb,Vc), Vb < 3.",
        "x0_3(Va,Vd) :- x0_2(Va,Vc), r_e(Vc,Vd), not r_r2(Vd).",
        "r_r(Va) :- x0_3(Va,Vd), r_e(Vd,V0).",
    ]
