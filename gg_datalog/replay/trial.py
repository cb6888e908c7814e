"""Executions of both programs on the same inputs, and what was compared in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from gg_datalog.extract.emit import lead_orders, live_bases
from gg_datalog.extract.facts import Built
from gg_datalog.extract.flatten import uses
from gg_datalog.extract.table import Table
from gg_datalog.extract.view import Base, View
from gg_datalog.replay.collectives import Mismatch
from gg_datalog.replay.comparison import Layout, Zeros, by_shape, most_likely, related
from gg_datalog.replay.derived import OPEN, Checker, Numbers, difference
from gg_datalog.replay.documents import Documents, layouts, nodes_of, padding
from gg_datalog.replay.draw import draw, with_small_fills
from gg_datalog.replay.evaluate import Evaluator, NotEvaluated
from gg_datalog.replay.execute import run_ranks
from gg_datalog.replay.masks import Draws
from gg_datalog.replay.program import OutOfRange, Values
from gg_datalog.replay.showing import elements
from gg_datalog.replay.shrink import Shrunk
from gg_datalog.replay.tensor import Tensor
from gg_datalog.replay.unknown import made_up, unknown
from gg_datalog.result.reasons import Status
from gg_datalog.result.records import Relation, Returned, relation, returned
from gg_datalog.result.report import Element, Report

DRAWS = 2
MORE = 6  # draws to show a difference where nothing is derived
MAGNITUDE = 0.7  # of floating-point inputs


@dataclass
class Replayed:
    """A report with the numbers behind it; outputs by their place in it. ``shown`` are elements
    at which an output differs, ``agreed`` counts the draws in which it does not."""

    report: Report
    seed: int
    numbers: dict[int, Numbers] = field(default_factory=dict)
    divergence: dict[int, dict[str, Any]] = field(default_factory=dict)
    shown: dict[int, list[Element]] = field(default_factory=dict)
    agreed: Counter[int] = field(default_factory=Counter)
    memory: int = 0
    sizes: Mapping[int, int] = field(default_factory=dict)
    note: str = ""
    hangs: bool = False
    draws: int = 0
    _compared: set[str] = field(default_factory=set)
    _wrong: dict[str, str] = field(default_factory=dict)
    _open: dict[str, str] = field(default_factory=dict)

    def agrees(self, place: int) -> bool | None:
        """Do the numbers of an output agree? None where no one can tell."""
        return self.numbers.get(place, OPEN).fits

    @property
    def checked(self) -> int:
        """How many relations were compared in some draw."""
        return len(self._compared)

    @property
    def wrong(self) -> list[str]:
        """What does not hold in some draw."""
        return list(self._wrong.values())

    @property
    def skipped(self) -> list[str]:
        """Relations that were compared in no draw, and why."""
        return [f"{what}: {why}" for what, why in self._open.items() if what not in self._compared]

    def relation(self, what: str, problem: str | None) -> None:
        """A relation that was compared."""
        self._compared.add(what)
        if problem:
            self._wrong.setdefault(what, f"{what}: {problem}")

    def unknown(self, what: str, reason: str) -> None:
        """A relation that was not."""
        self._open.setdefault(what, reason)

    def lowered(self, name: str) -> None:
        """A node that computes something else than it was lowered to."""
        self._wrong.setdefault(name, f"{name} computes something else than what it was taken for")


@dataclass(repr=False)
class Judged:
    """A case in some sizes, and what is derived of it."""

    case: Documents
    fitted: Shrunk
    built: Built
    report: Report
    holds: list[Relation]
    returned: list[Returned]
    available: set[str]

    @classmethod
    def by(cls, result: Path, fitted: Shrunk, built: Built, report: Report) -> Judged:
        """With what lies in the folder of a result."""
        holds, back, available = (
            pq.read_table(result / f"{name}.parquet").to_pylist()
            for name in ("holds", "returned_holds", "seq_available")
        )
        return cls(
            fitted.case,
            fitted,
            built,
            report,
            [relation(row) for row in holds],
            [returned(row) for row in back],
            {row["of"] for row in available},
        )

    @property
    def statuses(self) -> list[str]:
        """What became of every output."""
        return [row.status for row in self.report.outputs]


FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError,
            ValueError)  # fmt: skip


class Draw:
    """One execution of both programs."""

    def __init__(
        self, judged: Judged, case: Documents, table: Table, seed: int, positive: bool = False
    ) -> None:
        self.judged, self.case = judged, case
        built = judged.built
        ours, theirs = draw(judged.fitted, case, seed, MAGNITUDE, positive)
        contexts = {side: world.contexts for side, world in built.worlds.items()}
        generator = torch.Generator().manual_seed(seed + 7919)
        masks = Draws(contexts["seq"][0], contexts["dist"], judged.holds, generator)
        groups = self.case.groups
        seq = run_ranks(
            {0: self.case.seq}, groups.get("seq", []), table, {0: ours}, masks.sequential, seed
        )
        try:
            dist = run_ranks(
                self.case.dist, groups.get("dist", []), table, theirs, masks.of_rank, seed
            )
        except OutOfRange as problem:  # on inputs on which the sequential program is well
            raise Mismatch(f"the program breaks off: {problem}") from problem
        orders = _orders(built)
        self.values: dict[str, dict[int, Values]] = {"seq": seq, "dist": dist}
        self.sides = {
            side: Evaluator(
                built.side(side),
                contexts[side],
                {r: nodes_of(g) for s, r, g in self.case.graphs() if s == side},
                self.values[side],
                orders,
                {"seq": {0: ours}, "dist": theirs}[side],
            )
            for side in ("seq", "dist")
        }
        self.order = {node["name"]: i for i, node in enumerate(self.case.seq["nodes"])}
        self.wrong: list[tuple[str, str]] = []  # sequential node, distributed tensor

    def check_relations(self, replayed: Replayed) -> None:
        """Every derived relation against the numbers, and every node against what it was lowered
        to."""
        checker = Checker(self.sides["seq"], self.sides["dist"])
        for held in self.judged.holds:
            what = f"{held.dist} of {held.seq} ({held})"
            try:
                problem = checker.problem(held)
            except (NotEvaluated, *FAILURES) as reason:
                replayed.unknown(what, str(reason))
                continue
            replayed.relation(what, problem)
            if problem:
                self.wrong.append((checker.bases["seq"][held.seq].node, held.dist))
        for side in self.sides.values():
            for name, view, value in side.others():
                try:
                    apart = difference(side.view(view), value)
                except (NotEvaluated, *FAILURES):
                    continue
                if apart.fits is False:
                    replayed.lowered(f"{side.side.name} {name}")

    def check_outputs(self, replayed: Replayed, only: Collection[int] | None = None) -> None:
        """Every output, or only some, against what the ranks return for it."""
        replayed.draws += 1
        for place, output in enumerate(self.case.outputs):
            if only is not None and place not in only:
                continue
            mapped = self.judged.statuses[place] == Status.MAPPED
            numbers = self._output(place, output, mapped)
            replayed.agreed[place] += numbers.fits is True
            before = replayed.numbers.get(place)
            replayed.numbers[place] = numbers if before is None else before.again(numbers)
            if numbers.fits is False and place not in replayed.divergence:
                replayed.divergence[place] = self._first_wrong(mapped) or self._divergence(
                    output, set() if mapped else self.judged.available
                )
                replayed.shown[place] = self._elements(output)

    def _output(self, place: int, output: dict[str, Any], mapped: bool) -> Numbers:
        rows = [r for r in self.judged.returned if r.wants == place and r.times.value == 1]
        if mapped:
            zeros = [
                Zeros(row["rank"], row["dim"], row["first"])
                for row in self.judged.built.tables["zero_from"].to_pylist()
                if row["wants"] == place
            ]
            numbers = related(self.sides["seq"], self.sides["dist"], output, rows, zeros)
            if numbers is not None:
                return numbers
        whole, pieces = self._returned(output)
        if whole is None or pieces is None:
            return OPEN
        found = by_shape(whole, pieces, bool(output.get("partial")), self._layouts(output))
        for behind in self._behind(output, whole):
            found = found.beside(difference(behind, torch.zeros_like(behind)))
        return found

    def _returned(self, output: dict[str, Any]) -> tuple[Tensor | None, list[Tensor] | None]:
        """An output, and what the ranks return for it; None of what is no tensor."""
        whole = self.values["seq"][0].get(output["seq"])
        pieces = [self.values["dist"][int(r)].get(n) for r, n in output["dist"].items()]
        tensors = [p for p in pieces if isinstance(p, torch.Tensor)]
        if not isinstance(whole, torch.Tensor) or len(tensors) < len(pieces):
            return (whole if isinstance(whole, torch.Tensor) else None), None
        ranks = map(int, output["dist"])
        ends = (self._end(output, whole, r, p) for r, p in zip(ranks, tensors, strict=True))
        return whole, [
            p if end is None else p.narrow(end[0], 0, end[1])
            for p, end in zip(tensors, ends, strict=True)
        ]

    def _behind(self, output: dict[str, Any], whole: Tensor) -> Iterator[Tensor]:
        """What of a gradient lies in the padding of its weight."""
        for rank, name in output["dist"].items():
            piece = self.values["dist"][int(rank)][name]
            if (end := self._end(output, whole, int(rank), piece)) is not None:
                dim, first = end
                yield piece.narrow(dim, first, piece.shape[dim] - first)

    def _end(
        self, output: dict[str, Any], whole: Tensor, rank: int, piece: Tensor
    ) -> tuple[int, int] | None:
        """Where padding begins in an input of the rank that has the shape of a gradient."""
        if output.get("kind") != "gradient":
            return None
        ours, theirs = nodes_of(self.case.seq), nodes_of(self.case.dist[rank])
        rows = [row for row in self.case.relations if row["rank"] == rank]
        for name in dict.fromkeys(row["dist"] for row in rows):
            mine = [row for row in rows if row["dist"] == name]
            alike = ours[mine[0]["seq"]].get("shape") == [*whole.shape]
            if alike and theirs[name].get("shape") == [*piece.shape]:
                return padding(piece.shape, whole.shape, mine)
        return None

    def _layouts(self, output: dict[str, Any]) -> list[Layout]:
        """In which orders inputs are cut, for the ranks that return an output."""
        return layouts(self.case, [int(rank) for rank in output["dist"]])

    def _elements(self, output: dict[str, Any]) -> list[Element]:
        """Some of the elements at which it differs."""
        whole, pieces = self._returned(output)
        if whole is None or pieces is None:
            return []
        partial = bool(output.get("partial"))
        meant = most_likely(whole, pieces, partial, self._layouts(output))
        return [] if meant is None else elements(meant, [int(r) for r in output["dist"]])

    def _first_wrong(self, mapped: bool) -> dict[str, Any] | None:
        """The first sequential operator with a derived relation that does not hold."""
        if not mapped or not self.wrong:
            return None
        name, dist = min(self.wrong, key=lambda w: self.order.get(w[0], len(self.order)))
        sources = {node["name"]: node.get("source") for node in self.case.seq["nodes"]}
        return {
            "seq": name,
            "seq_source": sources.get(name) or None,
            "dist": [dist],
            "dist_source": None,
        }

    def _divergence(self, output: dict[str, Any], available: set[str]) -> dict[str, Any]:
        """The first sequential operator before the output, in program order, that is not there and
        whose namesakes on the ranks hold something else; the output itself where there is none."""
        name = output["seq"]
        own = {int(r): n for r, n in output["dist"].items()}
        view = self.sides["seq"].contexts[0].values.get(name)
        if not isinstance(view, View):
            return self._place(name, own)
        before = live_bases([view.base])
        whole = self.values["seq"][0].get(name)
        floats = isinstance(whole, torch.Tensor) and whole.dtype == torch.float64
        for node in self.case.seq["nodes"]:
            if self._differs(node, before, available, floats):
                ranks = dict.fromkeys(self.case.dist, node["name"])
                return self._place(node["name"], ranks)
        return self._place(name, own)

    def _differs(
        self, node: dict[str, Any], before: set[Base], available: set[str], floats: bool
    ) -> bool:
        value = self.sides["seq"].contexts[0].values.get(node["name"])
        if not isinstance(value, View) or value.base not in before:
            return False
        if floats and str(node.get("dtype", "")).startswith(("int", "bool")):
            return False  # masks and shifted ids differ between right programs, too
        if value.base.name in available or value.base.node != node["name"]:
            return False
        whole = self.values["seq"][0].get(node["name"])
        values = [self.values["dist"][r].get(node["name"]) for r in self.case.dist]
        tensors = [p for p in values if isinstance(p, torch.Tensor)]
        if not isinstance(whole, torch.Tensor):
            return False
        return by_shape(whole, tensors, whole.dtype == torch.float64).fits is False

    def _place(self, name: str, ranks: Mapping[int, str]) -> dict[str, Any]:
        """A sequential node, and what is called as it on the ranks."""
        ours = nodes_of(self.case.seq).get(name, {})
        graphs = {r: nodes_of(graph) for r, graph in self.case.dist.items()}
        there = {r: n for r, n in ranks.items() if n in graphs[r]}
        first = next(iter(there.items()), None)
        theirs = graphs[first[0]][first[1]] if first else {}
        return {
            "seq": name,
            "seq_source": ours.get("source") or None,
            "dist": [f"r{r}.{n}" for r, n in there.items()],
            "dist_source": theirs.get("source") or None,
        }


def _orders(built: Built) -> dict[str, list[int]]:
    """Per signature the order in which facts list its operands."""
    ready = []
    for name, roots_of in (("seq", "wanted"), ("dist", "returned")):
        side = built.side(name)
        named = {b.name: b for b in side.bases}
        roots = [named[n] for n in built.tables[roots_of].column("of").to_pylist()]
        live = live_bases(roots)
        ready.append((side, live, uses(side, live, roots)))
    return lead_orders(ready)


def rests_on(judged: Judged, place: int, table: Table, guessed: set[str]) -> list[str]:
    """What the numbers of an output rest on that nobody knows. Where no rule speaks against an
    output, what is made up for an operator would."""
    output = judged.case.outputs[place]
    names = unknown(judged.case, output, guessed)
    asked = judged.statuses[place] == Status.INCONCLUSIVE
    return [*names, *(made_up(judged.case, output, table) if asked else [])]


def draws(judged: Judged, table: Table, seed: int) -> Iterator[tuple[str, Draw]]:
    """Every draw of a seed, made when it is asked for, with what is special about it: two like
    any other, one of inputs above 0, and some in which large fills are brought to a magnitude that
    shows. :class:`Mismatch` where the ranks' program cannot be executed to its end."""
    first = seed * (DRAWS + MORE + 1)  # no draw of one seed is one of another
    for number in range(DRAWS):
        yield f"draw {number + 1} of {DRAWS}", Draw(judged, judged.case, table, first + number)
    text = "one more draw, of inputs above 0"
    yield text, Draw(judged, judged.case, table, first + DRAWS, positive=True)
    small = with_small_fills(judged.case)
    for number in range(MORE if small is not None else 0):
        text = "one more draw, large fills at a magnitude that shows"
        yield text, Draw(judged, small or judged.case, table, first + DRAWS + 1 + number)
