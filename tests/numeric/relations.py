"""Checks by execution: the lowering of every node, and every derived relation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gg_datalog.engine import select_engine
from gg_datalog.extract.schema import RULE_RELATIONS
from gg_datalog.extract.view import Base, View

from .interpreter import Execution
from .lowered import EVERYTHING, Evaluator, Extracted, Limits, NotEvaluated, operand_orders
from .lowered import times as scaled_by
from .promotion import INTEGERS, WIDTHS, Array

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
        assert not any(along == axis for axis, *_ in found), f"an axis twice: {text}"
        found.add((along, lo, n, extent))
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


def integer_facts(side: Evaluator) -> Iterator[tuple[str, Base, Callable[[], Array]]]:
    """What the vocabulary lemma is told of integer tensors, with the value that this makes."""
    facts, value = side.side.integers, side.value
    for gives, of, kind, bound in facts.tests:
        yield kind, gives, lambda t=of, k=kind, b=bound: COMPARE[k](value(t), b)
    for gives, sign, a, b in facts.pairs:
        yield sign, gives, lambda f=PAIRS[sign], x=a, y=b: f(value(x), value(y))
    for gives, of in facts.nots:
        yield "not", gives, lambda t=of: np.logical_not(value(t))
    for gives, of, mask, by in facts.fills:
        yield "fill", gives, lambda t=of, m=mask, n=by: np.where(value(m) != 0, n, value(t))
    for gives, terms in facts.sums:
        yield "sum", gives, lambda rows=terms: sum(scaled_by(value(t), by) for t, by in rows)


def _product(a: Array, b: Array) -> Array:
    """Of integers that were narrower before: without a wrap in between."""
    return np.multiply(*(x.astype(np.int64) if x.dtype.kind in "iu" else x for x in (a, b)))


PAIRS = {"and": np.logical_and, "or": np.logical_or, "mul": _product}
COMPARE = {"lt": np.less, "ge": np.greater_equal}


# ---- checks -------------------------------------------------------------------------------------------
def agrees(a: Array, b: Array, dtype: str = "") -> bool:
    """Equal but for rounding, on the elements that are numbers on both sides: a logarithm of
    something negative need not be one for the same reason. Integers of a type are equal modulo its
    width."""
    if dtype in INTEGERS and all(np.asarray(x).dtype.kind in "biu" for x in (a, b)):
        apart = np.asarray(a).astype(np.int64) - np.asarray(b).astype(np.int64)
        return not (apart & (2 ** WIDTHS[dtype] - 1 if dtype != "int64" else -1)).any()
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
        nodes, noise = self.execution.before, self.execution.noise
        self.sides = {
            name: Evaluator(
                self.extracted.side(name), world.contexts, nodes[name], noise[name], orders
            )
            for name, world in self.extracted.worlds.items()
        }
        self.bases: dict[str, dict[str, Base]] = {
            name: {b.name: b for b in side.side.bases} for name, side in self.sides.items()
        }

    def lowering(self) -> Report:
        """Every node whose value is a view: scale * view(base) is what the node computes."""
        report = Report()
        for name, evaluator in self.sides.items():
            for where, view, value, dtype in evaluator.shown():
                self._node(report, name, where, view, value, dtype)
            for form, base, value in (*evaluator.forms(), *integer_facts(evaluator)):
                where = f"{name}: {form}, a form of {base.name}"
                dtype = evaluator.type_of(base)
                self._same(report, where, lambda s=evaluator, b=base: s.value(b), value, dtype)
        return report

    def _same(
        self,
        report: Report,
        where: str,
        one: Callable[[], Array],
        other: Callable[[], Array],
        dtype: str,
    ) -> None:
        try:
            with np.errstate(all="ignore"):
                values = one(), other()
        except NotEvaluated as reason:
            report.skipped.append(f"{where}: {reason}")
            return
        report.nodes += 1
        if not agrees(*values, dtype):
            report.wrong.append(f"lowering of {where}")

    def _node(
        self, report: Report, side: str, where: str, view: View, value: Array, dtype: str
    ) -> None:
        try:
            found = self.sides[side].view(view)
        except NotEvaluated as reason:
            report.skipped.append(f"{where}: {reason}")
            return
        report.nodes += 1
        if not agrees(found, value, dtype):
            report.wrong.append(f"lowering of {where}: {view.base.name}")

    def relations(self, holds: Iterable[Mapping[str, Any]]) -> Report:
        """Every row: D[piece] = times * Part(S)[block]."""
        report = Report()
        for row in holds:
            report.relations += 1
            report.parts += row["parts"] != "nil"
            try:
                problem = self.problem(row)
            except NotEvaluated as reason:
                report.skipped.append(f"{dict(row)}: {reason}")
                continue
            if problem:
                report.wrong.append(f"{problem}: {dict(row)}")
        return report

    # ---- outputs -------------------------------------------------------------------------------
    def outputs(self, rows: Sequence[Mapping[str, Any]], refines: bool) -> Report:
        """Every row: what a rank returns = times * Part(output)[block]. Where all outputs are said
        to be rebuilt, these rows cover them, and everything that the ranks return."""
        report = Report()
        tables = self.extracted.tables
        wanted = {r["wants"]: r for r in tables["wanted"].to_pylist()}
        returned = {(r["wants"], r["rank"]): r for r in tables["returned"].to_pylist()}
        scales = {r["id"]: coefficient(scale_record(r)) for r in tables["scale_of"].to_pylist()}
        covered = {k: np.zeros(self.bases["seq"][r["of"]].shape, bool) for k, r in wanted.items()}
        accounted = {
            key: np.zeros(self.bases["dist"][r["of"]].shape, bool) for key, r in returned.items()
        }
        open_: dict[Any, list[tuple[int, int, int]]] = {}
        for row in rows:
            report.relations += 1
            key = row["wants"], row["rank"]
            ours, theirs = wanted[row["wants"]], returned[key]
            ratio = coefficient(row["times"]) * scales[ours["times"]] / scales[theirs["times"]]
            same = {"seq": ours["of"], "dist": theirs["of"], "times": ratio}
            try:
                problem = self.problem(same | {k: row[k] for k in ("parts", "block")})
            except NotEvaluated as reason:
                problem = None
                report.skipped.append(f"output {dict(row)}: {reason}")
            if problem:
                report.wrong.append(f"output: {problem}: {dict(row)}")
                continue
            if coefficient(row["times"]) != 1:
                continue
            at, there = positions(row["block"], covered[row["wants"]].shape, accounted[key].shape)
            if row["parts"] == "nil":
                covered[row["wants"]][at] = accounted[key][there] = True
                continue
            along, kind, lo, n, extent, inner = record(row["parts"])
            if inner is None:
                found = open_.setdefault((row["wants"], along, kind, extent, row["block"]), [])
                found.append((lo, n, row["rank"]))
        partial = {r["wants"] for r in tables["may_be_partial"].to_pylist()}
        for (wants, _, _, extent, block), pieces in open_.items():
            if wants in partial and _fills(pieces, extent):
                for _, _, rank in pieces:
                    mine = accounted[wants, rank]
                    at, there = positions(block, covered[wants].shape, mine.shape)
                    covered[wants][at] = mine[there] = True
        for row in tables["zero_from"].to_pylist():
            key = row["wants"], row["rank"]
            base = self.bases["dist"][returned[key]["of"]]
            behind = (slice(None),) * row["dim"] + (slice(row["first"], None),)
            accounted[key][behind] = True
            report.relations += 1
            if self.sides["dist"].value(base)[behind].any():
                report.wrong.append(f"output: it is not 0: {row}")
        if refines:
            report.wrong += [
                f"output {k} is not covered" for k, c in covered.items() if not c.all()
            ]
            report.wrong += [
                f"output {k}: not all of rank {r} is accounted for"
                for (k, r), c in accounted.items()
                if not c.all()
            ]
        return report

    def problem(self, row: Mapping[str, Any]) -> str | None:
        """What is wrong with a relation."""
        ours, theirs = self.bases["seq"][row["seq"]], self.bases["dist"][row["dist"]]
        try:
            open_ = limits(row["parts"]) if row["parts"] != "nil" else EVERYTHING
            at, there = positions(row["block"], ours.shape, theirs.shape)
            seq = self.sides["seq"].value(ours, open_)[at]
            dist = self.sides["dist"].value(theirs)[there]
        except (AssertionError, IndexError) as error:
            return f"cannot be evaluated ({type(error).__name__}: {error})"
        times = row["times"]
        by = coefficient(times) if isinstance(times, str) else times
        with np.errstate(all="ignore"):
            wanted = scaled_by(seq, by)
        types = {s.type_of(b) for s, b in ((self.sides["seq"], ours), (self.sides["dist"], theirs))}
        if agrees(dist, wanted, types.pop() if len(types) == 1 else "int64"):
            return None
        apart = np.asarray(dist, float) - np.asarray(wanted, float)
        return f"differs by {np.nanmax(abs(apart), initial=0):.3g}"


def scale_record(row: Mapping[str, Any]) -> str:
    """A scalar of the facts as the rules write it."""
    return f"[{row['num']}, {row['den']}, {row['over']}, {row['under']}]"


def _fills(pieces: Sequence[tuple[int, int, int]], extent: int) -> bool:
    """Do ranges make up [0, extent), none of it twice?"""
    at = 0
    for lo, n, _ in sorted(pieces):
        if lo != at:
            return False
        at += n
    return at == extent
