"""``replay``: both programs executed on the same inputs, outputs and derived relations compared."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from gg_datalog.errors import InputError
from gg_datalog.extract.case import CaseFiles
from gg_datalog.extract.emit import lead_orders, live_bases
from gg_datalog.extract.facts import Built, build_sides
from gg_datalog.extract.flatten import uses
from gg_datalog.extract.table import Table, load_table
from gg_datalog.extract.view import Base, View
from gg_datalog.findings import Kind
from gg_datalog.progress import Progress
from gg_datalog.replay.comparison import by_shape, related
from gg_datalog.replay.documents import Documents, load, nodes_of
from gg_datalog.replay.draw import draw, with_small_fills
from gg_datalog.replay.evaluate import Evaluator, NotEvaluated
from gg_datalog.replay.execute import Mismatch, OutOfRange, Values, run_ranks
from gg_datalog.replay.kernels import NotExecuted
from gg_datalog.replay.masks import Draws
from gg_datalog.replay.relations import OPEN, Checker, Numbers, coefficient, difference
from gg_datalog.replay.shrink import Shrunk, shrink
from gg_datalog.report import Finding, Report, as_json
from gg_datalog.running import Options, run_facts
from gg_datalog.store import write_facts

SMALL = 64 * 2**20  # bytes: up to here a case is executed in its captured sizes
DRAWS = 2
MORE = 6  # draws to show a difference where nothing is derived
MAGNITUDE = 0.7  # of floating-point inputs


@dataclass
class Replayed:
    """A report with the numbers behind it; outputs by their place in it."""

    report: Report
    seed: int
    numbers: dict[int, Numbers] = field(default_factory=dict)
    divergence: dict[int, dict[str, Any]] = field(default_factory=dict)
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
class _Judged:
    """A case in some sizes, and what is derived of it."""

    case: Documents
    fitted: Shrunk
    built: Built
    report: Report
    holds: list[dict[str, Any]]
    returned: list[dict[str, Any]]
    available: set[str]

    @property
    def statuses(self) -> list[str]:
        """What became of every output."""
        return [row.status for row in self.report.outputs]


def replay(
    files: CaseFiles, operators: Sequence[Path], seed: int, full_size: bool, say: Progress
) -> Replayed:
    """Executes a case; :class:`InputError` where that is not possible."""
    table = load_table(operators)
    say("reading graphs")
    captured = load(files)
    whole = fitted = shrink(captured, table, smaller=False)
    if not full_size and whole.captured > SMALL:
        with suppress(AssertionError, *FAILURES):  # shapes that do not add up
            fitted = shrink(captured, table)
    if not _has_room(fitted):
        raise InputError(
            f"executing both programs takes about {2 * fitted.now / 1e9:.1f} GB of memory, "
            f"of which {_room() / 1e9:.1f} GB may be used",
            None,
            "leave --full-size out" if full_size else "give a smaller case",
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        original = judged = _judged(files, whole, operators, folder / "facts", say)
        if fitted.sizes:
            small = fitted.case.write(folder / "case")
            judged = _judged(small, fitted, operators, folder / "small", say)
    with _exact():
        if judged.statuses != original.statuses and _has_room(whole):
            judged = original
        try:
            return _replayed(original.report, judged, table, seed, say)
        except NotExecuted as problem:
            if judged is not original and _has_room(whole):
                with suppress(NotExecuted):
                    return _replayed(original.report, original, table, seed, say)
            raise InputError(
                f"the case cannot be executed: {problem}",
                None,
                "give inputs of known sizes, and what is missing to the operator table "
                "(docs/operators.md)",
            ) from None


def _room() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2


def _has_room(fitted: Shrunk) -> bool:
    """Does memory hold all tensors (and what they are compared with)?"""
    return 2 * fitted.now <= _room()


@contextmanager
def _exact() -> Iterator[None]:
    """Numbers of which no type is said are float64; torch keeps its warnings to itself."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(before)


def _judged(
    files: CaseFiles, fitted: Shrunk, operators: Sequence[Path], facts: Path, say: Progress
) -> _Judged:
    built = build_sides(files, operators, say)
    write_facts(built.tables, facts, "parquet", {})
    report = run_facts(facts, facts / "result", Options(repairs=False), say)
    holds, returned, available = (
        pq.read_table(facts / "result" / f"{n}.parquet").to_pylist()
        for n in ("holds", "returned_holds", "seq_available")
    )
    known = {row["of"] for row in available}
    return _Judged(fitted.case, fitted, built, report, holds, returned, known)


def _replayed(report: Report, judged: _Judged, table: Table, seed: int, say: Progress) -> Replayed:
    """Draws and compares; :class:`NotExecuted` where an operator cannot be executed."""
    found = Replayed(report, seed, memory=judged.fitted.now, sizes=judged.fitted.sizes)
    first = seed * (DRAWS + MORE + 1)  # no draw of one seed is one of another
    mine = [row.status for row in report.outputs]
    odd = [i for i, (a, b) in enumerate(zip(mine, judged.statuses, strict=True)) if a != b]
    try:
        for number in range(DRAWS):
            say(f"draw {number + 1} of {DRAWS}")
            one = _Draw(judged, judged.case, table, first + number)
            one.check_relations(found)
            one.check_outputs(found)
        if any(found.agrees(place) is None for place in range(len(mine))):
            say("one more draw, of inputs above 0")
            one = _Draw(judged, judged.case, table, first + DRAWS, positive=True)
            one.check_relations(found)
            one.check_outputs(found)
        for number in range(MORE):
            open_ = {i for i, s in enumerate(mine) if s != "mapped" and found.agrees(i)}
            if not open_:
                break
            say("one more draw, large fills at a magnitude that shows")
            case = with_small_fills(judged.case)
            _Draw(judged, case, table, first + DRAWS + 1 + number).check_outputs(found, open_)
    except Mismatch as problem:
        found.note, found.hangs = f"not executed to the end: {problem}", True
    if odd:
        names = ", ".join(f"`{report.outputs[i].seq}`" for i in odd)
        found.note = f"in smaller sizes another verdict is derived of {names}: not compared"
        for place in odd:
            found.numbers[place] = OPEN
            found.divergence.pop(place, None)
    return _concluded(found)


FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError,
            ValueError)  # fmt: skip


class _Draw:
    """One execution of both programs."""

    def __init__(
        self, judged: _Judged, case: Documents, table: Table, seed: int, positive: bool = False
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
            )
            for side in ("seq", "dist")
        }
        self.order = {node["name"]: i for i, node in enumerate(self.case.seq["nodes"])}
        self.wrong: list[tuple[str, str]] = []  # sequential node, distributed tensor

    def check_relations(self, found: Replayed) -> None:
        """Every derived relation against the numbers, and every node against what it was lowered
        to."""
        checker = Checker(self.sides["seq"], self.sides["dist"])
        for row in self.judged.holds:
            what = f"{row['dist']} of {row['seq']} ({row})"
            try:
                problem = checker.problem(row)
            except (NotEvaluated, *FAILURES) as reason:
                found.unknown(what, str(reason))
                continue
            found.relation(what, problem)
            if problem:
                self.wrong.append((checker.bases["seq"][row["seq"]].node, row["dist"]))
        for side in self.sides.values():
            for name, view, value in side.others():
                try:
                    apart = difference(side.view(view), value)
                except (NotEvaluated, *FAILURES):
                    continue
                if apart.fits is False:
                    found.lowered(f"{side.side.name} {name}")

    def check_outputs(self, found: Replayed, only: Collection[int] | None = None) -> None:
        """Every output, or only some, against what the ranks return for it."""
        found.draws += 1
        for place, output in enumerate(self.case.outputs):
            if only is not None and place not in only:
                continue
            mapped = self.judged.statuses[place] == "mapped"
            numbers = self._output(place, output, mapped)
            before = found.numbers.get(place)
            found.numbers[place] = numbers if before is None else before.again(numbers)
            if numbers.fits is False and place not in found.divergence:
                found.divergence[place] = self._first_wrong(mapped) or self._divergence(
                    output, set() if mapped else self.judged.available
                )

    def _output(self, place: int, output: dict[str, Any], mapped: bool) -> Numbers:
        rows = [
            r
            for r in self.judged.returned
            if r["wants"] == place and coefficient(r["times"]) == 1.0
        ]
        if mapped:
            numbers = related(self.sides["seq"], self.sides["dist"], output, rows)
            if numbers is not None:
                return numbers
        whole = self.values["seq"][0].get(output["seq"])
        pieces = [self.values["dist"][int(r)].get(n) for r, n in output["dist"].items()]
        tensors = [p for p in pieces if isinstance(p, torch.Tensor)]
        if not isinstance(whole, torch.Tensor) or len(tensors) < len(pieces):
            return OPEN
        return by_shape(whole, tensors, bool(output.get("partial")))

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
    for name, relation in (("seq", "wanted"), ("dist", "returned")):
        side = built.side(name)
        named = {b.name: b for b in side.bases}
        roots = [named[n] for n in built.tables[relation].column("of").to_pylist()]
        live = live_bases(roots)
        ready.append((side, live, uses(side, live, roots)))
    return lead_orders(ready)


def _concluded(found: Replayed) -> Replayed:
    """The verdict, where the numbers have something to say about it."""
    report = found.report
    findings = list(report.findings)
    contradicted = [
        row.seq
        for place, row in enumerate(report.outputs)
        if row.status == "mapped" and found.agrees(place) is False
    ]
    for text in found.wrong[:1]:
        findings.insert(0, _finding(Kind.CONTRADICTED, f"a derived relation does not hold: {text}"))
    for seq in contradicted:
        text = f"`{seq}` is derived to be rebuilt, but the numbers differ"
        findings.insert(0, replace(_finding(Kind.CONTRADICTED, text), seq=seq))
    if found.hangs and report.verdict != "does-not-refine":
        findings.insert(0, _finding(Kind.CONTRADICTED, found.note))
    for place, row in enumerate(report.outputs):
        if row.status != "mapped" and found.agrees(place):
            text = f"`{row.seq}` is not shown to be rebuilt, but no draw shows a difference"
            findings.append(replace(_finding(Kind.NOT_SHOWN, text), seq=row.seq))
    against = found.wrong or contradicted or found.hangs
    verdict = "does-not-refine" if against else report.verdict
    found.report = replace(report, verdict=verdict, findings=findings)
    return found


def _finding(kind: Kind, text: str) -> Finding:
    return Finding(kind.value.code, kind.value.level, text, title=kind.value.title)


# ---- the report
def as_document(found: Replayed) -> str:
    """The JSON document: the report of a run, its outputs with numbers."""
    document = json.loads(as_json(found.report))
    for place, row in enumerate(document["outputs"]):
        numbers = found.numbers.get(place, OPEN)
        row["max_abs"], row["max_rel"] = _finite(numbers.max_abs), _finite(numbers.max_rel)
        row["first_divergence"] = found.divergence.get(place)
    document["replay"] = {
        "seed": found.seed,
        "draws": found.draws,
        "relations_checked": found.checked,
        "relations_wrong": len(found.wrong),
        "relations_skipped": len(found.skipped),
        "memory_bytes": found.memory,
        "sizes": {str(k): v for k, v in found.sizes.items()},
        "note": found.note,
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def _finite(value: float | None) -> float | str | None:
    return value if value is None or abs(value) != float("inf") else "inf"


def as_lines(found: Replayed) -> str:
    """The report for a person."""
    report = found.report
    lines = [f"{VERDICTS[report.verdict]} (seed {found.seed}, {found.draws} draws)", "", "outputs"]
    width = max(len(row.seq) for row in report.outputs)
    for place, row in enumerate(report.outputs):
        numbers = found.numbers.get(place, OPEN)
        text = f"  {row.seq:<{width}}  {row.status:<12}  {_said(found, place)}"
        if numbers.fits is False and numbers.max_abs is not None:
            text += f" by {numbers.max_abs:.3g} (relative {numbers.max_rel:.3g})"
        elif numbers.fits is False:
            text += ": what the ranks return makes up no such tensor"
        first = found.divergence.get(place)
        if first:
            source = first["dist_source"] or first["seq_source"]
            text += f", first at `{first['seq']}`" + (f" ({source})" if source else "")
        lines.append(text)
    if found.note:
        lines += ["", found.note]
    if report.findings:
        lines += ["", "findings", *(f"  {f.code} {f.level}: {f.message}" for f in report.findings)]
    lines += ["", f"{found.checked} relations checked, {len(found.wrong)} wrong"]
    if found.skipped:
        lines[-1] += f", {len(found.skipped)} that cannot be evaluated"
    if found.sizes:
        told = ", ".join(f"{a} as {b}" for a, b in found.sizes.items())
        lines.append(f"sizes: {told}; {found.memory / 1e6:.1f} MB")
    return "\n".join(lines)


def _said(found: Replayed, place: int) -> str:
    if place not in found.numbers:
        return "not executed"
    return {True: "agrees", False: "differs", None: "no numbers to compare"}[found.agrees(place)]


VERDICTS = {
    "refines": "REFINES: every output is rebuilt from what the ranks return",
    "does-not-refine": "DOES NOT REFINE",
    "inconclusive": "INCONCLUSIVE",
}
