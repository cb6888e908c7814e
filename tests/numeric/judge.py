"""The static verdict and the truth by execution, for many programs in one run of the engine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import format_exception
from typing import Any

import numpy as np

from gg_datalog.foundation.errors import InputError

from .batches import STEP, merged, separated
from .drawing import ends_early
from .interpreter import Execution, degenerate, execute
from .lowered import Extracted, case_of, extract
from .program import Json, Program
from .promotion import Array, Invalid
from .relations import RULES, Checker, Report, Rows, derive

Derived = dict[str, Rows]


@dataclass(repr=False)
class Judged:
    """What the rules say of one program; ``extracted`` is None where extraction refused it, for a
    ``reason`` or because it ``failed``."""

    program: Program
    extracted: Extracted | None
    reason: str
    holds: list[dict[str, Any]]
    returned: list[dict[str, Any]]
    refines: bool
    failed: bool = False


def judge(
    programs: Sequence[Program], rules: Path = RULES, also: Callable[[Derived], None] | None = None
) -> list[Judged]:
    """Extraction of every program, and one run of the engine for all of them; ``also`` is shown
    everything that is derived."""
    found: dict[int, Extracted] = {}
    reasons: dict[int, str] = {}
    failed: set[int] = set()
    with tempfile.TemporaryDirectory() as folder:
        for number, program in enumerate(programs):
            place = Path(folder) / str(number)
            program.write(place)
            try:
                found[number] = extract(case_of(place))
            except InputError as error:
                reasons[number] = str(error)
            except Exception as error:  # a defect, to be counted like others
                reasons[number] = "".join(format_exception(error)[-3:])
                failed.add(number)
    derived = derive(merged({n: x.rows for n, x in found.items()}), rules) if found else {}
    if also is not None:
        also(derived)
    holds = separated(derived.get("holds", []))
    returned = separated(derived.get("returned_holds", []))
    mapped = {row["wants"] for row in derived.get("output_mapped", [])}
    return [
        Judged(
            program, found.get(n), reasons.get(n, ""), holds.get(n, []), returned.get(n, []),
            n in found and _refines(found[n], program, n, mapped), n in failed,
        )
        for n, program in enumerate(programs)
    ]  # fmt: skip


def _refines(extracted: Extracted, program: Program, number: int, mapped: set[int]) -> bool:
    every = all(number * STEP + k in mapped for k in range(len(program.outputs)))
    return every and extracted.tables["collective_mismatch"].num_rows == 0


def check(judged: Judged, execution: Execution) -> Report:
    """The lowering and every relation of one program."""
    assert judged.extracted is not None
    if degenerate(execution):
        return Report()
    checker = Checker(judged.extracted, execution)
    report = checker.lowering()
    report.add(checker.relations(judged.holds))
    report.add(checker.outputs(judged.returned, judged.refines))
    return report


def outputs_right(program: Program, execution: Execution) -> bool:
    """Can every output be put together from what the ranks return for it, none of it wrong?"""
    for row in program.outputs:
        seq = np.asarray(execution.seq[row["seq"]])
        named = row["dist"]
        ranks = {r: named if isinstance(named, str) else named.get(str(r)) for r in program.dist}
        values = {r: execution.dist[r][n] for r, n in ranks.items() if n is not None}
        held = {r: without_padding(program, r, seq, value) for r, value in values.items()}
        pieces = [list(held.values())]
        if row.get("partial"):
            pieces += added_up(held, program.groups["dist"])
        if not any(rebuilt(seq, found) for found in pieces):
            return False
    return True


def without_padding(program: Program, rank: int, seq: Array, value: Array) -> Array:
    """What a rank returns without the zeros that lie where an input of its shape, of which the
    relations leave out the last positions of some dimension, has them left out."""
    shapes = {n["name"]: n.get("shape") for n in program.seq["nodes"]}
    mine = {n["name"]: n.get("shape") for n in program.dist[rank]["nodes"]}
    for row in (r for r in program.relations if r["rank"] == rank):
        alike = shapes[row["seq"]] == list(seq.shape) and mine[row["dist"]] == list(value.shape)
        if not alike or not ends_early(program, row):
            continue
        inside = tuple(slice(hi) for _, hi in row["dist_box"])
        behind = value.copy()
        behind[inside] = 0
        if not behind.any():
            return value[inside]
    return value


def added_up(held: Mapping[int, Array], groups: Sequence[Json]) -> list[list[Array]]:
    """The sums over the groups of each name: what is left open is added up later."""
    names = {name for group in groups for name in group["names"].values()}
    found = []
    for name in sorted(names):
        mine = [g["ranks"] for g in groups if name in g["names"].values()]
        fits = sorted(r for ranks in mine for r in ranks) == sorted(held)
        if fits and all(len({held[r].shape for r in ranks}) == 1 for ranks in mine):
            found.append([np.sum([held[r] for r in ranks], 0) for ranks in mine])
    return found


def rebuilt(seq: Array, pieces: Sequence[Array]) -> bool:
    """Can ``seq`` be put together from elements of the pieces, with none left over? Which element
    goes where is what the relations say, and these are checked one by one."""
    if not pieces:
        return False
    found = np.concatenate([p.ravel() for p in pieces])
    if seq.dtype.kind in "biu":
        return bool(np.isin(found, seq).all() and np.isin(seq, found).all())
    if np.isnan(seq).any():  # 0 / 0 on both sides
        found, seq = found[~np.isnan(found)], seq[~np.isnan(seq)]
    return _among(found, seq.ravel()) and _among(seq.ravel(), found)


def _among(values: Array, others: Array) -> bool:
    if not len(values) or not len(others):
        return not len(values)
    others = np.sort(others)
    at = np.searchsorted(others, values)
    near = [others[np.clip(at + k, 0, len(others) - 1)] for k in (-1, 0)]
    return bool(np.any([np.isclose(values, n, rtol=1e-6, atol=1e-9) for n in near], axis=0).all())


def truth(program: Program, seed: int, draws: int = 4) -> tuple[bool, list[Execution]]:
    """Is the program right on several draws? With the executions that were possible."""
    done = []
    right = True
    for draw in range(draws):
        try:
            execution = execute(program, np.random.default_rng((seed, draw)))
        except Invalid:
            return False, done
        done.append(execution)
        right = right and outputs_right(program, execution)
    return right, done
