"""``replay``: both programs executed on the same inputs, outputs and derived relations compared."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from gg_datalog.extract.view import View
from gg_datalog.findings import Kind
from gg_datalog.progress import Progress
from gg_datalog.replay.comparison import Numbers, by_shape, related
from gg_datalog.replay.documents import Documents, load, nodes_of
from gg_datalog.replay.draw import draw, with_small_fills
from gg_datalog.replay.evaluate import Evaluator, NotEvaluated
from gg_datalog.replay.execute import Mismatch, Values, run_ranks
from gg_datalog.replay.kernels import NotExecuted
from gg_datalog.replay.masks import Draws
from gg_datalog.replay.relations import ABSOLUTE, RELATIVE, Checker
from gg_datalog.replay.shrink import Shrunk, shrink
from gg_datalog.report import Finding, Report, as_json
from gg_datalog.running import Options, run_facts
from gg_datalog.store import write_facts

SMALL = 64 * 2**20  # bytes: up to here a case is executed in its captured sizes
DRAWS = 2
MAGNITUDE = 0.7  # of floating-point inputs
HINT = "give a smaller case, or leave --full-size out"


@dataclass
class Replayed:
    """A report with the numbers behind it."""

    report: Report
    numbers: dict[str, Numbers]
    divergence: dict[str, dict[str, Any] | None]
    seed: int
    checked: int = 0
    skipped: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    memory: int = 0
    sizes: Mapping[int, int] = field(default_factory=dict)
    note: str = ""
    draws: int = 0

    def agrees(self, seq: str) -> bool | None:
        """Do the numbers of an output agree? None where they cannot be compared."""
        found = self.numbers.get(seq)
        if found is None:
            return None
        if found.max_abs is None or found.max_rel is None:
            return False
        return found.max_abs <= ABSOLUTE or found.max_rel <= RELATIVE


def replay(
    files: CaseFiles, operators: Sequence[Path], seed: int, full_size: bool, say: Progress
) -> Replayed:
    """Executes a case; :class:`InputError` where that is not possible."""
    table = load_table(operators)
    say("reading graphs")
    captured = load(files)
    fitted = _fitted(captured, table, full_size)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = fitted.case.write(folder / "case")
        report = _judged(small, operators, folder / "facts", say)
        if fitted.sizes:
            again = _judged(files, operators, folder / "captured", say)
            report = replace(again, stats=report.stats)
        holds, returned, available = (
            pq.read_table(folder / "facts" / "result" / f"{n}.parquet").to_pylist()
            for n in ("holds", "returned_holds", "seq_available")
        )
        built = build_sides(small, operators, None)
    found = Replayed(report, {}, {}, seed, memory=fitted.now, sizes=fitted.sizes)
    known = {row["of"] for row in available}
    try:
        for number in range(DRAWS):
            say(f"draw {number + 1} of {DRAWS}")
            one = _Draw(fitted.case, fitted.rows, built, table, holds, seed + number)
            one.check_relations(found)
            one.check_outputs(found, returned, known)
            found.draws += 1
        if any(r.status != "mapped" and found.agrees(r.seq) for r in report.outputs):
            say("one more draw, large fills at a magnitude that shows")
            case = with_small_fills(fitted.case)
            one = _Draw(case, fitted.rows, built, table, holds, seed + DRAWS)
            one.check_outputs(found, returned, known)
            found.draws += 1
    except Mismatch as problem:
        found.note = str(problem)
    return _concluded(found)


def _fitted(captured: Documents, table: Table, full_size: bool) -> Shrunk:
    """The case in sizes that can be executed."""
    fitted = shrink(captured, table, smaller=False)
    if not full_size and fitted.captured > SMALL:
        fitted = shrink(captured, table)
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    if 2 * fitted.now > room:
        raise InputError(
            f"executing both programs takes about {2 * fitted.now / 1e9:.1f} GB of memory, "
            f"of which {room / 1e9:.1f} GB may be used",
            None,
            HINT,
        )
    return fitted


def _judged(files: CaseFiles, operators: Sequence[Path], facts: Path, say: Progress) -> Report:
    write_facts(build_sides(files, operators, say).tables, facts, "parquet", {})
    return run_facts(facts, facts / "result", Options(), say)


class _Draw:
    """One execution of both programs."""

    def __init__(
        self,
        case: Documents,
        table_rows: Mapping[str, int],
        built: Built,
        table: Table,
        holds: list[dict[str, Any]],
        seed: int,
    ) -> None:
        self.case, self.holds = case, holds
        ours, theirs = draw(case, table_rows, seed, MAGNITUDE)
        contexts = {side: world.contexts for side, world in built.worlds.items()}
        generator = torch.Generator().manual_seed(seed + 7919)
        masks = Draws(contexts["seq"][0], contexts["dist"], holds, generator)
        groups = self.case.groups
        try:
            seq = run_ranks(
                {0: self.case.seq}, groups.get("seq", []), table, {0: ours}, masks.sequential
            )
            dist = run_ranks(self.case.dist, groups.get("dist", []), table, theirs, masks.of_rank)
        except NotExecuted as problem:
            raise InputError(
                f"the case cannot be executed: {problem}",
                None,
                "add what is missing to the operator table (docs/operators.md)",
            ) from None
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

    def check_relations(self, found: Replayed) -> None:
        """Every derived relation against the numbers."""
        checker = Checker(self.sides["seq"], self.sides["dist"])
        for row in self.holds:
            try:
                problem = checker.problem(row)
            except NotEvaluated as reason:
                found.skipped.append(f"{row['dist']} of {row['seq']}: {reason}")
                continue
            found.checked += 1
            if problem:
                found.wrong.append(f"{row['dist']} of {row['seq']}: {problem} ({row})")

    def check_outputs(
        self, found: Replayed, returned: list[dict[str, Any]], available: set[str]
    ) -> None:
        """Every output against what the ranks return for it."""
        mapped = {row.seq for row in found.report.outputs if row.status == "mapped"}
        for wants, output in enumerate(self.case.outputs):
            name = output["seq"]
            rows = [r for r in returned if r["wants"] == wants and r["times"] == "[1, 1, , ]"]
            numbers = self._output(output, rows if name in mapped else [])
            before = found.numbers.get(name)
            found.numbers[name] = numbers if before is None else before.worse(numbers)
            if name not in mapped and not found.divergence.get(name) and not _fits(numbers):
                found.divergence[name] = self._divergence(name, available)

    def _output(self, output: dict[str, Any], rows: list[dict[str, Any]]) -> Numbers:
        whole = self.values["seq"][0].get(output["seq"])
        if not isinstance(whole, torch.Tensor):
            return Numbers(None, None)
        full = [r for r in rows if r["parts"] == "nil"] or rows
        numbers = related(self.sides["seq"], self.sides["dist"], output, full)
        if numbers is not None:
            return numbers
        pieces = [self.values["dist"][int(r)].get(n) for r, n in output["dist"].items()]
        if not all(isinstance(p, torch.Tensor) for p in pieces):
            return Numbers(None, None)
        return by_shape(whole, pieces)

    def _divergence(self, name: str, available: set[str]) -> dict[str, Any] | None:
        """The first sequential operator before the output, in program order, that is not there and
        whose namesakes on the ranks hold something else."""
        ctx = self.sides["seq"].contexts[0]
        view = ctx.values.get(name)
        if not isinstance(view, View):
            return None
        before = live_bases([view.base])
        floats = self.values["seq"][0][name].dtype == torch.float64
        for node in self.case.seq["nodes"]:
            value = ctx.values.get(node["name"])
            if not isinstance(value, View) or value.base not in before:
                continue
            if floats and str(node.get("dtype", "")).startswith(("int", "bool")):
                continue  # masks and shifted ids differ between right programs, too
            if value.base.name in available or value.base.node != node["name"]:
                continue
            whole = self.values["seq"][0].get(node["name"])
            ranks = [r for r in self.case.dist if node["name"] in self.values["dist"][r]]
            pieces = [self.values["dist"][r][node["name"]] for r in ranks]
            tensors = [p for p in pieces if isinstance(p, torch.Tensor)]
            if not isinstance(whole, torch.Tensor) or _fits(by_shape(whole, tensors)):
                continue
            if whole.dtype == torch.float64 and _fits(_summed(whole, tensors)):
                continue
            theirs = nodes_of(self.case.dist[ranks[0]])[node["name"]] if ranks else {}
            return {
                "seq": node["name"],
                "seq_source": node.get("source") or None,
                "dist": [f"r{r}.{node['name']}" for r in ranks],
                "dist_source": theirs.get("source") or None,
            }
        return None


def _summed(whole: torch.Tensor, pieces: Sequence[torch.Tensor]) -> Numbers:
    if not pieces or any(p.shape != whole.shape for p in pieces):
        return Numbers(None, None)
    return by_shape(whole, [torch.stack(list(pieces)).sum(0)])


def _fits(numbers: Numbers) -> bool:
    if numbers.max_abs is None or numbers.max_rel is None:
        return False
    return numbers.max_abs <= ABSOLUTE or numbers.max_rel <= RELATIVE


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
        for row in report.outputs
        if row.status == "mapped" and found.agrees(row.seq) is False
    ]
    for text in found.wrong[:1]:
        findings.insert(0, _finding(Kind.CONTRADICTED, f"a derived relation does not hold: {text}"))
    for seq in contradicted:
        text = f"`{seq}` is derived to be rebuilt, but the numbers differ"
        findings.insert(0, replace(_finding(Kind.CONTRADICTED, text), seq=seq))
    for row in report.outputs:
        if row.status != "mapped" and found.agrees(row.seq):
            text = f"`{row.seq}` is not shown to be rebuilt, but no draw shows a difference"
            findings.append(replace(_finding(Kind.NOT_SHOWN, text), seq=row.seq))
    verdict = "does-not-refine" if found.wrong or contradicted else report.verdict
    found.report = replace(report, verdict=verdict, findings=findings)
    return found


def _finding(kind: Kind, text: str) -> Finding:
    return Finding(kind.value.code, kind.value.level, text)


# ---- the report
def as_document(found: Replayed) -> str:
    """The JSON document: the report of a run, its outputs with numbers."""
    document = json.loads(as_json(found.report))
    for row in document["outputs"]:
        numbers = found.numbers.get(row["seq"], Numbers(None, None))
        row |= {k: _finite(v) for k, v in asdict(numbers).items()}
        row["first_divergence"] = found.divergence.get(row["seq"])
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
    for row in report.outputs:
        numbers = found.numbers.get(row.seq, Numbers(None, None))
        agrees = found.agrees(row.seq)
        said = {True: "agrees", False: "differs", None: "not executed"}[agrees]
        text = f"  {row.seq:<{width}}  {row.status:<12}  {said}"
        if numbers.max_abs is not None and not agrees:
            text += f" by {numbers.max_abs:.3g} (relative {numbers.max_rel:.3g})"
        elif agrees is False:
            text += ": shapes that make up no such tensor"
        first = found.divergence.get(row.seq)
        if first:
            text += f", first at `{first['seq']}`"
            text += (
                f" ({first['dist_source'] or first['seq_source']})" if first["seq_source"] else ""
            )
        lines.append(text)
    if found.note:
        lines += ["", f"not executed to the end: {found.note}"]
    if report.findings:
        lines += ["", "findings", *(f"  {f.code} {f.level}: {f.message}" for f in report.findings)]
    lines += ["", f"{found.checked} relations checked, {len(found.wrong)} wrong"]
    if found.skipped:
        lines[-1] += f", {len(found.skipped)} that cannot be evaluated"
    if found.sizes:
        told = ", ".join(f"{a} as {b}" for a, b in found.sizes.items())
        lines.append(f"sizes: {told}; {found.memory / 1e6:.1f} MB")
    return "\n".join(lines)


VERDICTS = {
    "refines": "REFINES: every output is rebuilt from what the ranks return",
    "does-not-refine": "DOES NOT REFINE",
    "inconclusive": "INCONCLUSIVE",
}
