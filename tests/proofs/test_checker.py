"""The checker: what it is made of, and that facts which say something else are no proof."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gg_datalog.proofs.checker as module
from gg_datalog.engine.parser import parse_program
from gg_datalog.proofs import places, positions
from gg_datalog.proofs.checker import ONE, RULES, Checker, Part, Statement
from gg_datalog.proofs.positions import Block, Digit, Refused, Run, normal

from .conftest import ROOT, Proved

SOURCE = Path(module.__file__).read_text(encoding="utf-8")


LINES = 880
"""Of code: what has to be believed without another check."""


def said(source: str) -> int:
    """Lines with code, comments and docstrings apart."""
    tree = ast.parse(source)
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    apart = {n for x in texts for n in range(x.lineno, (x.end_lineno or x.lineno) + 1)}
    lines = enumerate(source.splitlines(), 1)
    return sum(bool(x.strip()) and x.strip()[0] != "#" and n not in apart for n, x in lines)


def test_it_is_short_and_uses_the_standard_library_only() -> None:
    sources = [SOURCE, *(Path(x.__file__).read_text(encoding="utf-8") for x in (places, positions))]
    assert sum(map(said, sources)) <= LINES
    imported = set()
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module or "")
    assert imported - {places.__name__, positions.__name__} <= {
        *sys.stdlib_module_names,
        "collections.abc",
    }


def test_its_table_has_the_rules_of_the_program() -> None:
    program = parse_program(ROOT / "datalog" / "main.dl")
    concluding = [clause for clause in program.clauses if clause.head.relation == "holds"]
    named = set()
    for clause in concluding:
        body = {getattr(literal, "relation", "") for literal in clause.body}
        assert len(body & set(RULES)) == 1, f"{clause.pos}: {body}"
        named |= body & set(RULES)
    assert named == set(RULES)
    assert all(getattr(Checker, name).__doc__ for name in RULES)


# ---- other facts ------------------------------------------------------------------------------
def other(found: Proved, relation: str, change: Callable[[list[Any]], list[Any] | None]) -> Checker:
    """A checker over facts in which the rows of a relation are changed (the same ones: no change)."""
    rows = dict(found.checker.rows)
    rows[relation] = [tuple(change(list(row)) or row) for row in rows[relation]]
    assert rows[relation] != found.checker.rows[relation]
    return Checker(rows)


def first(place: int, new: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    """Changes one column of every row."""

    def change(row: list[Any]) -> list[Any]:
        row[place] = new(row[place])
        return row

    return change


def twice_on_rank_0(row: list[Any]) -> list[Any]:
    """Operands of the first rank count double."""
    return [*row[:3], "2"] if row[0].startswith("r0.") else row


CHANGES: dict[str, tuple[str, Callable[[list[Any]], list[Any]]]] = {
    "a shard that begins elsewhere": ("related_range", first(2, lambda lo: lo + 1)),
    "a mask with another bound": ("integer_test", first(3, lambda bound: bound + 1)),
    "a mask turned round": ("integer_test", first(2, lambda c: "ge" if c == "lt" else "lt")),
    "masks put together by and": ("integer_pair", first(1, lambda op: "and")),
    "ids that are not clamped": ("integer_fill", first(3, lambda value: -1)),
    "an operator of another signature": ("dist_operator", first(1, lambda signed: f"{signed}'")),
    "an operand with another factor": ("operand_of", twice_on_rank_0),
    "a sum of another kind": ("dist_sum", first(1, lambda kind: "min")),
    "another term": ("term_of", first(2, lambda of: f"{of}'")),
    "a slice that begins elsewhere": ("dist_slice", first(4, lambda start: start + 1)),
    "members in another place": ("dist_member", first(6, lambda start: start + 1)),
    "a table of another size": ("label_of", first(2, lambda extent: extent * 2)),
    "a reduction that must be whole": (
        "label_of",
        first(4, lambda k: "whole" if k == "sum" else k),
    ),
    "another output": ("wanted", first(1, lambda of: f"{of}'")),
    "an output returned twice as large": ("returned", first(3, lambda _: "2")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_facts_are_no_proof(name: str, gpt: Proved) -> None:
    relation, change = CHANGES[name]
    checker = other(gpt, relation, change)
    checker.rows["scale_of"].append(("2", 2, 1, "", ""))
    assert Checker(gpt.checker.rows).certificate(gpt.document)
    with pytest.raises(Refused, match=r"^(step|output) \d+: "):
        Checker(checker.rows).certificate(gpt.document)


# ---- blocks -----------------------------------------------------------------------------------
def pairs(block: Block) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of positions, one by one."""
    found = [(tuple(block.seq.values()), tuple(block.dist.values()))]
    for p, s, n, d, t in block.runs:
        found = [
            (
                tuple(x + s * c * (i == p) for i, x in enumerate(seq)),
                tuple(x + t * c * (i == d) for i, x in enumerate(dist)),
            )
            for seq, dist in found
            for c in range(n)
        ]
    return set(found)


ROWS = normal({0: 2, 1: 0}, {0: 0, 1: 0}, [(0, 1, 4, 0, 1), (1, 1, 6, 1, 1)])


def test_normal_form_keeps_the_pairs() -> None:
    nested = normal({0: 3}, {0: 1}, [(0, 4, 3, 0, 4), (0, 1, 4, 0, 1)])
    assert nested.runs == ((0, 1, 12, 0, 1),)
    assert pairs(nested) == {((3 + c,), (1 + c,)) for c in range(12)}


@pytest.mark.parametrize(("start", "size"), [(0, 4), (2, 2), (3, 5), (5, 1)])
def test_a_slice_has_the_pairs_inside(start: int, size: int) -> None:
    inside = {((s[0] - start, s[1]), d) for s, d in pairs(ROWS) if start <= s[0] < start + size}
    assert pairs(ROWS.clipped(0, start, size)) == inside


def test_a_slice_outside_is_refused() -> None:
    with pytest.raises(Refused):
        ROWS.clipped(0, 6, 2)


def test_pieces_that_continue_each_other_are_their_union() -> None:
    next_one = normal({0: 6, 1: 0}, {0: 4, 1: 0}, [(0, 1, 3, 0, 1), (1, 1, 6, 1, 1)])
    assert pairs(ROWS.joined(next_one)) == pairs(ROWS) | pairs(next_one)
    for gap in (
        next_one._replace(seq={0: 7, 1: 0}),
        next_one._replace(dist={0: 5, 1: 0}),
        next_one._replace(seq={0: 6, 1: 1}),
        next_one._replace(runs=(Run(0, 1, 3, 0, 1), Run(1, 1, 5, 1, 1))),
    ):
        with pytest.raises((Refused, ValueError)):
            ROWS.joined(gap)


def test_digits_of_a_view_keep_the_pairs() -> None:
    digits = [
        [Digit(3, 1, 1, 1), Digit(4, 0, 1, 3)],
        [Digit(6, 2, 1, 1)],
    ]  # a dimension of 12 as 4 x 3
    rows = normal({0: 3, 1: 0}, {0: 0, 1: 0}, [(0, 1, 6, 0, 1), (1, 1, 6, 1, 1)])
    seen = {((s[0] // 3, s[0] % 3, s[1]), d) for s, d in pairs(rows)}
    assert pairs(rows.unfolded(digits)) == seen
    with pytest.raises(Refused, match="digit"):
        normal({0: 2, 1: 0}, {0: 0, 1: 0}, [(0, 1, 6, 0, 1), (1, 1, 6, 1, 1)]).unfolded(digits)


def test_the_rules_are_named_in_messages_and_documentation() -> None:
    text = (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8")
    assert set(RULES) <= set(re.findall(r"`(\w+)`", text))


# ---- parts, with facts by hand ------------------------------------------------------------------
def part(dist: str, kind: str, lo: int) -> Statement:
    """A tensor on the ranks that has reduced [lo, lo + 3) of 6 positions of what gives `t`."""
    block = normal({0: 0}, {0: 0}, [(0, 1, 4, 0, 1)])
    return Statement(dist, "t", ONE, (Part((("s", 1),), kind, lo, 3, 6),), block)


def vectors(**more: list[tuple[Any, ...]]) -> Checker:
    """Facts about tensors of four positions: `a`, `b` and `d` on the ranks, `t` and `m`."""
    rows: dict[str, list[tuple[Any, ...]]] = {
        "scale_of": [("1", 1, 1, "", ""), ("-1", -1, 1, "", "")],
        "label_of": [("f", 0, 4, "p", "parallel")],
        "digit_count": [("f", 0, 0, 1)],
        "digit_of": [("f", 0, 0, 0, 4, 0, 1)],
        "result_rank": [("f", 0, 1)],
        "result_dim": [("f", 0, 0, 0)],
        "seq_tensor": [("t", "f"), ("m", "f")],
        "dist_tensor": [("a", "f"), ("b", "f"), ("d", "f")],
    }
    return Checker(rows | more)


@pytest.mark.parametrize("scale", ["1", "-1"])
def test_maxima_of_parts_are_complete_unless_they_are_negated(scale: str) -> None:
    terms = [("o", 0, "a"), ("o", 1, "b"), ("q", 0, "t")]
    checker = vectors(
        dist_sum=[("o", "max", 2, "d")],
        seq_sum=[("q", "max", 1, "m")],
        term_of=[(*term, scale, "f") for term in terms],
    )
    by, uses = ["o", "q", False, [0, 0], [False] * 2], [part("a", "max", 0), part("b", "max", 3)]
    if scale == "1":
        assert checker.sum_holds(by, [[x] for x in uses])[:4] == ("d", "m", ONE, ())
    else:
        with pytest.raises(Refused, match="another kind"):
            checker.sum_holds(by, [[x] for x in uses])


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_only_sums_are_added_up_later(kind: str) -> None:
    checker = vectors(
        wanted=[(0, "t", "1")],
        returned=[(0, 0, "a", "1"), (0, 1, "b", "1")],
        may_be_partial=[(0,)],
        layout_allowed=[(0,)],
    )
    shares = {"0": [part("a", kind, 0)], "1": [part("b", kind, 3)]}
    if kind == "sum":
        checker.output_mapped(0, shares)
    else:
        with pytest.raises(Refused, match="add up"):
            checker.output_mapped(0, shares)


def test_what_a_rank_returns_counts_once_though_it_be_two_equal_parts() -> None:
    checker = vectors(wanted=[(0, "t", "1")], returned=[(0, 0, "a", "1")], may_be_partial=[(0,)])
    with pytest.raises(Refused, match="add up"):
        checker.output_mapped(0, {"0": [part("a", "sum", 0), part("a", "sum", 3)]})
