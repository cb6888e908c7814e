"""What parse_program gives: declarations, comments, positions, includes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gg_datalog.engine import Engine, parse_program
from gg_datalog.foundation.errors import EngineError

from .conftest import rows_of

TEXT = """\
// The first line is no doc comment: a blank line follows.

.type id <: symbol
.type list = [head: id, tail: list]
// An edge from `a`
// to `b`.
.decl edge(a: id, b: id)
.input edge
.decl path(l: list)
.output path

path([a, [b, nil]]) :-
    edge(a, b),
    a != b.
"""


def test_a_program_keeps_what_documentation_needs(program: Callable[[str], Path]) -> None:
    path = program(TEXT)
    found = parse_program(path)
    edge = found.declarations["edge"]
    assert edge.doc == "An edge from `a`\nto `b`."
    assert [(column.name, column.type) for column in edge.columns] == [("a", "id"), ("b", "id")]
    assert found.declarations["path"].doc == ""
    assert (found.inputs, found.outputs) == (("edge",), ("path",))
    assert [found.kinds(name) for name in ("edge", "path")] == [("symbol", "symbol"), ("list",)]
    assert str(found.clauses[0].pos) == f"{path}:12"
    assert [literal.pos.line for literal in found.clauses[0].body] == [13, 14]


def test_includes_are_relative_to_the_including_file(
    engine: Engine, program: Callable[..., Path]
) -> None:
    program(".decl z(x: number)\nz(1).\n.output z", "sub/deep/c.dl")
    program('.include "deep/c.dl"\n.decl k(x: number)\nk(x + 1) :- z(x).\n.output k', "sub/b.dl")
    path = program('.include "sub/b.dl"\n.decl m(x: number)\nm(x) :- k(x).\n.output m')
    found = engine.run(path, {}).relations
    assert rows_of(found) == {"z": [(1,)], "k": [(2,)], "m": [(2,)]}
    assert [file.name for file in parse_program(path).files] == ["main.dl", "b.dl", "c.dl"]


def test_an_error_in_an_included_file_names_that_file(program: Callable[..., Path]) -> None:
    program(".decl a(x: number)\na(1) a(2).", "sub/b.dl")
    path = program('.include "sub/b.dl"')
    with pytest.raises(EngineError) as caught:
        parse_program(path)
    assert str(caught.value.where).endswith("sub/b.dl:2")


def test_a_file_that_includes_itself(program: Callable[..., Path]) -> None:
    with pytest.raises(EngineError, match="includes itself"):
        parse_program(program('.include "main.dl"'))


def test_a_missing_include(program: Callable[..., Path]) -> None:
    with pytest.raises(EngineError, match="cannot read the program"):
        parse_program(program('.include "nowhere.dl"'))
