"""Checks by execution: the lowering of every node, and every derived relation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from interpreter import Execution
from kernels_np import Array
from lowered import EVERYTHING, Evaluator, Extracted, Limits, NotEvaluated, operand_orders

from gg_datalog.engine import select_engine
from gg_datalog.extract.schema import RULE_RELATIONS
from gg_datalog.extract.view import Base, View

RULES = Path(__file__).resolve().parents[2] / "datalog" / "main.dl"
Rows = list[dict[str, Any]]


# ---- the engine ---------------------------------------------------------------------------------------
def derive(tables: Mapping[str, Any], rules: Path = RULES) -> dict[str, Rows]:
    """The relations that the rules derive from the facts."""
    facts = {r.name: tables[r.name] for r in RULE_RELATIONS}
    found = select_engine("clingo").run(rules, facts).relations
    return {name: table.to_pylist() for name, table in found.items()}


# ---- records as text ----------------------------------------------------------------------------------
@cache
def record(text: str) -> Any:
    """``[1, [2, nil]]`` as nested tuples; nil is None, what is no number stays text."""
    value, rest = _value(text, 0)
    assert rest == len(text), text
    return value


def _value(text: str, at: int) -> tuple[Any, int]:
    if at < len(text) and text[at] == "[":
        items: list[Any] = []
        while text[at] != "]":
            item, at = _value(text, at + 1 + (text[at + 1] == " "))
            items.append(item)
        return tuple(items), at + 1
    end = at
    while end < len(text) and text[end] not in ",]":
        end += 1
    word = text[at:end]
    if word == "nil":
        return None, end
    return (int(word) if word.lstrip("-").isdigit() else word), end


def coefficient(text: str) -> float:
    """num/den * over / under."""
    num, den, over, under = record(text)
    value = float(Fraction(num, den))
    for words, power in ((str(over), 1), (str(under), -1)):
        for word in filter(None, words.split("*")):
            value *= float(Fraction(word)) ** power
    return value


def limits(text: str) -> Limits:
    """The restrictions that a stack of parts stands for."""
    found = set()
    rest = record(text)
    while rest is not None:
        along, kind, lo, n, extent, rest = rest
        assert kind in ("sum", "max", "min") and lo >= 0 and lo + n <= extent, text
        assert not any(along == axis for axis, _, _ in found), f"an axis twice: {text}"
        found.add((along, lo, n))
    return frozenset(found)


def positions(block: str, seq: tuple[int, ...], dist: tuple[int, ...]) -> tuple[Any, Any]:
    """Index arrays of both sides; a position outside of a tensor is an AssertionError."""
    dims = _items(record(block))
    assert len(dims) == len(seq), f"{len(dims)} entries for {len(seq)} dimensions"
    runs = [(p, run) for p, dim in enumerate(dims) for run in _runs(dim)]
    sizes = [run[2] for _, run in runs]
    ours: list[Any] = [np.zeros([1] * len(sizes), int) for _ in seq]
    theirs: list[Any] = [np.zeros([1] * len(sizes), int) for _ in dist]
    for axis, (p, (stride, lo, n, dim, dist_stride, dist_lo)) in enumerate(runs):
        steps = np.arange(n).reshape([-1 if i == axis else 1 for i in range(len(sizes))])
        ours[p] = ours[p] + stride * (lo + steps)
        if dim >= 0:
            theirs[dim] = theirs[dim] + dist_stride * (dist_lo + steps)
    for dim, extent in zip([*ours, *theirs], [*seq, *dist], strict=True):
        assert dim.min() >= 0 and dim.max() < extent, f"position {dim.max()} of {extent}"
    spread = [np.broadcast_to(i, sizes) for i in [*ours, *theirs]]
    return tuple(spread[: len(seq)]), tuple(spread[len(seq) :])


def _items(block: Any) -> list[Any]:
    found = []
    while block is not None:
        found.append(block[0])
        block = block[1]
    return found


def _runs(run: Any) -> list[tuple[int, ...]]:
    found = []
    while run is not None:
        found.append(run[:-1])
        run = run[-1]
    return found


# ---- checks -------------------------------------------------------------------------------------------
def agrees(a: Array, b: Array) -> bool:
    """Equal but for rounding, on the elements that are numbers on both sides: a logarithm of
    something negative need not be one for the same reason."""
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    numbers = ~(np.isnan(a) | np.isnan(b))
    a, b = a[numbers], b[numbers]
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return bool((a == b).all())
    largest = max([1.0, *(float(abs(x).max()) for x in (a, b) if x.size)])
    return bool(np.allclose(a, b, rtol=1e-8, atol=1e-11 * largest))


@dataclass
class Report:
    """What was checked, and what was wrong."""

    nodes: int = 0
    relations: int = 0
    parts: int = 0
    wrong: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Adds the counts of another report."""
        self.nodes += other.nodes
        self.relations += other.relations
        self.parts += other.parts
        self.wrong += other.wrong
        self.skipped += other.skipped


@dataclass
class Checker:
    """Both sides of a case, evaluated for one execution."""

    extracted: Extracted
    execution: Execution

    def __post_init__(self) -> None:
        orders = operand_orders(self.extracted)
        nodes = {"seq": {0: self.execution.seq}, "dist": self.execution.dist}
        self.sides = {
            name: Evaluator(self.extracted.side(name), world.contexts, nodes[name], orders)
            for name, world in self.extracted.worlds.items()
        }
        self.bases: dict[str, dict[str, Base]] = {
            name: {b.name: b for b in side.side.bases} for name, side in self.sides.items()
        }

    def lowering(self) -> Report:
        """Every node whose value is a view: scale * view(base) is what the node computes."""
        report = Report()
        for name, evaluator in self.sides.items():
            for rank, ctx in evaluator.contexts.items():
                for node, view in ctx.values.items():
                    value = evaluator.nodes[rank].get(node)
                    if isinstance(view, View) and isinstance(value, np.ndarray):
                        self._node(report, name, f"{name} rank {rank} `{node}`", view, value)
        return report

    def _node(self, report: Report, side: str, where: str, view: View, value: Array) -> None:
        try:
            found = self.sides[side].view(view)
        except NotEvaluated as reason:
            report.skipped.append(f"{where}: {reason}")
            return
        report.nodes += 1
        if not agrees(found, value):
            report.wrong.append(f"lowering of {where}: {view.base.name}")

    def relations(self, holds: Iterable[Mapping[str, Any]]) -> Report:
        """Every row: D[piece] = times * Part(S)[block]."""
        report = Report()
        for row in holds:
            report.relations += 1
            report.parts += row["parts"] != "nil"
            problem = self.problem(row)
            if problem:
                report.wrong.append(f"{problem}: {dict(row)}")
        return report

    def problem(self, row: Mapping[str, Any]) -> str | None:
        """What is wrong with a relation."""
        ours, theirs = self.bases["seq"][row["seq"]], self.bases["dist"][row["dist"]]
        try:
            open_ = limits(row["parts"]) if row["parts"] != "nil" else EVERYTHING
            at, there = positions(row["block"], ours.shape, theirs.shape)
            seq = self.sides["seq"].value(ours, open_)[at]
            dist = self.sides["dist"].value(theirs)[there]
        except (AssertionError, NotEvaluated, IndexError) as error:
            return f"cannot be evaluated ({type(error).__name__}: {error})"
        if agrees(dist, coefficient(row["times"]) * seq):
            return None
        return f"differs by {np.nanmax(abs(dist - coefficient(row['times']) * seq), initial=0):.3g}"
