"""Each construct of the subset: a program and what both engines must derive from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gg_datalog.engine import Engine

from .conftest import Rows, rows_of

LIST = ".type list = [head: number, tail: list]\n"

CASES: dict[str, tuple[str, dict[str, Rows]]] = {
    "facts": (
        '.decl r(n: number, s: symbol)\nr(-3, "a"). r(2, "b c"). r(-3, "a").\n.output r',
        {"r": [(-3, "a"), (2, "b c")]},
    ),
    "symbols with quotes, backslashes, nothing and the name of a constant": (
        r'.decl r(s: symbol)  r("a\"b\\c"). r(""). r("nil"). r("é,("). r("_").  .output r',
        {"r": [("",), ("_",), ('a"b\\c',), ("nil",), ("é,(",)]},
    ),
    "capital and underscore names": (
        ".decl R_1(X_a: number, _b: number)\nR_1(1, 2).\n.decl Up(x: number)\n"
        "Up(X) :- R_1(X, _only).\n.output Up",
        {"Up": [(1,)]},
    ),
    "an empty relation": (".decl r(n: number)\n.output r", {"r": []}),
    "a relation without columns": (
        ".decl a()\n.decl b()\n.decl c()\na().\nc() :- a(), !b().\n.output a, b, c",
        {"a": [()], "b": [], "c": [()]},
    ),
    "an anonymous variable, in an atom and a negation": (
        ".decl e(a: number, b: number)\ne(1, 2). e(2, 3).\n"
        ".decl r(a: number)\n.decl last(b: number)\nr(a) :- e(a, _).\n"
        "last(b) :- e(_, b), !e(b, _).\n"
        ".output r, last",
        {"r": [(1,), (2,)], "last": [(3,)]},
    ),
    "comparisons": (
        ".decl n(a: number)\nn(1). n(2). n(3).\n.decl r(a: number, b: number, how: symbol)\n"
        'r(a, b, "<") :- n(a), n(b), a < b.\nr(a, b, ">=") :- n(a), n(b), a >= b, b > 2.\n'
        'r(a, b, "!=") :- n(a), n(b), a != b, a <= 1.\nr(a, b, "=") :- n(a), n(b), a = b.\n'
        ".output r",
        {
            "r": [
                (1, 1, "="),
                (1, 2, "!="),
                (1, 2, "<"),
                (1, 3, "!="),
                (1, 3, "<"),
                (2, 2, "="),
                (2, 3, "<"),
                (3, 3, "="),
                (3, 3, ">="),
            ]
        },
    ),
    "symbols equal and unequal": (
        '.decl s(x: symbol)\ns("a"). s("b").\n.decl r(x: symbol, y: symbol)\n'
        'r(x, y) :- s(x), s(y), x != y, x != "b".\nr(x, "lit") :- s(x), x = "b".\n.output r',
        {"r": [("a", "b"), ("b", "lit")]},
    ),
    "arithmetic, its precedence and division toward zero": (
        ".decl n(a: number)\nn(-7). n(7).\n"
        ".decl r(a: number, b: number, c: number, d: number, e: number, f: number)\n"
        "r(a / 2, a % 2, a / -2, a % -2, -a % 4, a - 2 * 3 - 1) :- n(a).\n"
        ".decl g(a: number)\ng((1 + 2) * 3). g(-(4 - 6)). g(7 - 2 - 1). g(12 / 3 * 2).\n"
        ".output r, g",
        {
            "r": [(-3, -1, 3, -1, 3, -14), (3, 1, -3, 1, -3, 0)],
            "g": [(2,), (4,), (8,), (9,)],
        },
    ),
    "an equation binds its variable": (
        ".decl n(a: number)\nn(1). n(5).\n.decl r(a: number, b: number)\n"
        "r(a, c) :- b = a + 1, n(a), c = b * 2.\nr(x, y) :- n(x), x + 4 = y, n(y).\n"
        "r(x, y) :- x = 8, y = x.\n.output r",
        {"r": [(1, 4), (1, 5), (5, 12), (8, 8)]},
    ),
    "arithmetic inside an atom and a negation": (
        ".decl n(a: number)\nn(1). n(2). n(4).\n.decl r(a: number)\nr(a) :- n(a), n(a + 1).\n"
        ".decl s(a: number)\ns(a) :- n(a), !n(a + 1).\n.output r, s",
        {"r": [(1,)], "s": [(2,), (4,)]},
    ),
    "a chain of atoms with tests in between": (
        ".decl e(a: number, b: number)\ne(1, 2). e(2, 3). e(3, 4). e(4, 5). e(2, 5).\n"
        ".decl no(a: number)\nno(3).\n.decl r(a: number, d: number, s: number)\n"
        "r(a, d, s) :- e(a, b), s = a + b, e(b, c), !no(b), b != a, e(c, d), s < d + 100.\n"
        ".decl far(a: number)\nfar(a) :- e(a, b), e(b, c), e(c, d), e(d, f), f = a + 4.\n"
        ".decl any()\nany() :- e(_, _), e(2, _), e(_, 5), e(_, _).\n"
        ".output r, far, any",
        {"r": [(1, 4, 3)], "far": [(1,)], "any": [()]},
    ),
    "transitive closure and mutual recursion": (
        ".decl e(a: number, b: number)\ne(1, 2). e(2, 3). e(3, 1).\n"
        ".decl odd(a: number, b: number)\n.decl even(a: number, b: number)\n"
        "odd(a, b) :- e(a, b).\nodd(a, c) :- even(a, b), e(b, c), a != 3.\n"
        "even(a, c) :- odd(a, b), odd(b, c), e(_, c).\n.output even",
        {"even": [(a, b) for a in (1, 2, 3) for b in (1, 2, 3)]},
    ),
    "stratified negation": (
        ".decl e(a: number, b: number)\ne(1, 2). e(2, 3). e(4, 4).\n"
        ".decl p(a: number, b: number)\np(a, b) :- e(a, b).\np(a, c) :- p(a, b), e(b, c).\n"
        ".decl node(a: number)\nnode(a) :- e(a, _).\nnode(b) :- e(_, b).\n"
        ".decl apart(a: number, b: number)\napart(a, b) :- node(a), node(b), !p(a, b), a < b.\n"
        ".output apart",
        {"apart": [(1, 4), (2, 4), (3, 4)]},
    ),
    "subset types": (
        ".type id <: symbol\n.type small <: id\n.type size <: number\n.decl s(x: small, n: size)\n"
        's("a", 1).\n.decl i(x: id, n: number)\ni(x, n + 1) :- s(x, n).\n'
        ".decl t(n: size)\nt(m) :- s(_, n), m = n + 1.\n.output i, t",
        {"i": [("a", 2)], "t": [(2,)]},
    ),
    "records in heads, in their print form": (
        ".type leaf = [s: symbol, n: number]\n.type tree = [l: tree, v: leaf, r: tree]\n"
        '.decl t(t: tree)\nt(nil). t([nil, ["a b", -1], [nil, nil, nil]]).\n'
        't([x, ["q", 2 + 3], nil]) :- t(x), x = nil.\n.output t',
        {"t": [("[nil, [a b, -1], [nil, nil, nil]]",), ("[nil, [q, 5], nil]",), ("nil",)]},
    ),
    "a record with one field and the names of types as values": (
        ".type box = [s: symbol]\n.decl b(b: box)\n"
        'b(["box"]). b(["f_box"]). b(["nil"]).\n.output b',
        {"b": [("[box]",), ("[f_box]",), ("[nil]",)]},
    ),
    "records taken apart": (
        LIST + ".decl l(n: number, l: list)\nl(1, [1, [2, nil]]). l(2, nil). l(3, [5, nil]).\n"
        ".decl head(n: number, h: number)\nhead(n, h) :- l(n, x), x = [h, _].\n"
        ".decl second(n: number, s: number)\nsecond(n, s) :- l(n, x), x = [_, y], y = [s, nil].\n"
        ".decl nested(s: number)\nnested(s) :- [_, [s, t]] = x, l(_, x), t = nil.\n"
        ".decl five(n: number)\nfive(n) :- l(n, x), x = [5, nil].\n"
        ".decl empty(n: number)\nempty(n) :- l(n, x), x = nil.\n"
        ".decl full(n: number)\nfull(n) :- l(n, x), x != nil.\n"
        ".decl direct(h: number)\ndirect(h) :- l(_, [h, nil]).\n"
        ".output head, second, nested, five, empty, full, direct",
        {
            "head": [(1, 1), (3, 5)],
            "second": [(1, 2)],
            "nested": [(2,)],
            "five": [(3,)],
            "empty": [(2,)],
            "full": [(1,), (3,)],
            "direct": [(5,)],
        },
    ),
    "records compared": (
        LIST + ".decl l(n: number, l: list)\nl(1, [1, nil]). l(2, [1, nil]). l(3, [2, nil]).\n"
        ".decl same(a: number, b: number)\nsame(a, b) :- l(a, x), l(b, y), x = y, a < b.\n"
        ".decl other(a: number, b: number)\nother(a, b) :- l(a, x), l(b, y), x != y, a < b.\n"
        ".decl not_one(a: number)\nnot_one(a) :- l(a, x), x = [_, _], x != [1, nil].\n"
        ".output same, other, not_one",
        {"same": [(1, 2)], "other": [(1, 3), (2, 3)], "not_one": [(3,)]},
    ),
    "one record taken apart twice, and parts shared": (
        LIST + ".decl l(n: number, l: list)\nl(1, [1, [1, nil]]). l(2, [2, [3, nil]]).\n"
        ".decl twice(a: number)\n"
        "twice(a) :- l(_, x), x = [a, r], x = [b, [c, nil]], c = b, r != nil.\n"
        ".decl never(a: number)\nnever(a) :- l(a, x), x = [_, _], x = nil.\n"
        ".decl equal(a: number)\nequal(a) :- l(_, x), x = [a, [a, nil]].\n"
        ".decl pair(a: number, b: number)\n"
        "pair(a, b) :- l(a, x), x = [h, _], l(b, y), y = [k, _], k = h + 1.\n"
        ".output twice, never, equal, pair",
        {"twice": [(1,)], "never": [], "equal": [(1,)], "pair": [(1, 2)]},
    ),
    "arithmetic and a negation with a record that was taken apart": (
        LIST + ".decl l(l: list)\nl([1, [2, nil]]). l([2, nil]). l([3, [4, nil]]).\n"
        ".decl r(h: number, l: list)\nr(h + 1, x) :- l(x), x = [h, t], !l(t).\n"
        ".decl s(h: number)\ns(h) :- l(x), x = [h, [h + 1, _]].\n.output r, s",
        {"r": [(3, "[2, nil]"), (4, "[3, [4, nil]]")], "s": [(1,), (3,)]},
    ),
    "recursion through records: append on demand": (
        LIST + ".decl want(a: list, b: list)\nwant([1, [2, [3, nil]]], [4, nil]).\n"
        "want(t, b) :- want(a, b), a = [_, t].\n"
        ".decl append(a: list, b: list, ab: list)\n"
        "append(a, b, b) :- want(a, b), a = nil.\n"
        "append(a, b, [h, r]) :- want(a, b), a = [h, t], append(t, b, r).\n"
        ".decl r(l: list)\nr(c) :- append(a, _, c), a = [1, _].\n.output r",
        {"r": [("[1, [2, [3, [4, nil]]]]",)]},
    ),
    "comments": (
        "// one\n.decl r(n: number) // two\n/* three\n r(9). */ r(1). /**/ r(2).\n.output r",
        {"r": [(1,), (2,)]},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_both_engines_derive(name: str, engine: Engine, program: Callable[[str], Path]) -> None:
    text, expected = CASES[name]
    found = rows_of(engine.run(program(text), {}, timeout=60).relations)
    assert found == expected


def test_rows_are_sorted_by_value_not_by_text(
    engine: Engine, program: Callable[[str], Path]
) -> None:
    path = program('.decl r(n: number, s: symbol)\nr(10, "b"). r(9, "z"). r(10, "a").\n.output r')
    found = rows_of(engine.run(path, {}).relations)
    assert found["r"] == [(9, "z"), (10, "a"), (10, "b")]


def test_a_deep_record_does_not_exhaust_the_stack(
    engine: Engine, program: Callable[[str], Path]
) -> None:
    path = program(
        LIST + ".decl grow(n: number, l: list)\ngrow(0, nil).\n"
        "grow(n + 1, [n, l]) :- grow(n, l), n < 3000.\n"
        ".decl last(l: list)\nlast(l) :- grow(3000, l).\n.output last"
    )
    ((text,),) = rows_of(engine.run(path, {}).relations)["last"]
    assert text == "".join(f"[{n}, " for n in reversed(range(3000))) + "nil" + "]" * 3000
