"""The static verdict and the truth by execution, for many programs in one run of the engine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fuzz import STEP, merged, separated
from interpreter import Execution, degenerate, execute
from kernels_np import Array, Invalid
from lowered import Extracted, case_of, extract
from program import Program
from relations import RULES, Checker, Report, agrees, derive

from gg_datalog.errors import InputError


@dataclass(repr=False)
class Judged:
    """What the rules say of one program; ``extracted`` is None where extraction refused it."""

    program: Program
    extracted: Extracted | None
    reason: str
    holds: list[dict[str, Any]]
    refines: bool


def judge(programs: Sequence[Program], rules: Path = RULES) -> list[Judged]:
    """Extraction of every program, and one run of the engine for all of them."""
    found: dict[int, Extracted] = {}
    reasons: dict[int, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, program in enumerate(programs):
            place = Path(folder) / str(number)
            program.write(place)
            try:
                found[number] = extract(case_of(place))
            except InputError as error:
                reasons[number] = str(error)
    derived = derive(merged({n: x.tables for n, x in found.items()}), rules) if found else {}
    holds = separated(derived.get("holds", []))
    mapped = {row["wants"] for row in derived.get("output_mapped", [])}
    return [
        Judged(
            program, found.get(n), reasons.get(n, ""), holds.get(n, []),
            n in found and _refines(found[n], program, n, mapped),
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
    return report


def outputs_right(program: Program, execution: Execution) -> bool:
    """Can every output be put together from what the ranks return for it, none of it wrong?"""
    for row in program.outputs:
        seq = np.asarray(execution.seq[row["seq"]])
        named = row["dist"]
        ranks = {r: named if isinstance(named, str) else named.get(str(r)) for r in program.dist}
        pieces = [execution.dist[r][n] for r, n in ranks.items() if n is not None]
        if not rebuilt(seq, pieces):
            return False
    return True


def rebuilt(seq: Array, pieces: Sequence[Array]) -> bool:
    """Are the pieces made of slices of ``seq`` along one dimension, and do these cover it?"""
    if all(p.shape == seq.shape and agrees(p, seq) for p in pieces):
        return bool(pieces)
    return any(_covered(seq, pieces, dim) for dim in range(seq.ndim))


def _covered(seq: Array, pieces: Sequence[Array], dim: int) -> bool:
    slices = np.moveaxis(seq, dim, 0)
    found: set[int] = set()
    for piece in pieces:
        if piece.ndim != seq.ndim:
            return False
        for one in np.moveaxis(piece, dim, 0):
            same = {
                i
                for i, other in enumerate(slices)
                if one.shape == other.shape and agrees(one, other)
            }
            if not same:
                return False
            found |= same
    return len(found) == seq.shape[dim]


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
