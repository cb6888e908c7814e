"""Executes a case: the sequential graph, and all ranks together in step.

Inputs of the sequential graph are random; those of the ranks are cut from them as the input
relations say, and what they leave open is NaN (integers: an arbitrary number).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .drawing import draw_inputs
from .execution import Values, name_of
from .program import Program
from .running import Run, Versions, collective, run_ranks

__all__ = [
    "Execution", "Run", "Versions", "collective", "degenerate", "execute", "name_of", "run_ranks",
    "version",
]  # fmt: skip


@dataclass(repr=False)
class Execution:
    """Values of every node at the end: of the sequential graph, and per rank; what they were before
    something was written into them, and while the result of a collective was not there."""

    seq: Values
    dist: dict[int, Values]
    before: dict[str, dict[int, Versions]] = field(default_factory=dict)
    noise: dict[str, dict[int, Versions]] = field(default_factory=dict)


def version(found: Versions, name: str, place: int) -> Any:
    """What a node held after the node at a place of the program."""
    values = [value for at, value in found.get(name, ()) if at <= place]
    return values[-1] if values else None


LARGE = 1e6


def degenerate(execution: Execution) -> bool:
    """Did a number grow so large that equal expressions need not give equal numbers?"""
    values = [v for side in (execution.seq, *execution.dist.values()) for v in side.values()]
    floats = [v for v in values if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    return any(bool((abs(v) > LARGE).any()) for v in floats)


def execute(program: Program, rng: np.random.Generator, machine: Any = None) -> Execution:
    """Both sides on fresh inputs; :class:`Invalid` where the distributed program cannot run."""
    ours, theirs = draw_inputs(program, rng)
    groups = program.groups.get("seq", []), program.groups.get("dist", [])
    seq = run_ranks({0: program.seq}, groups[0], {0: ours}, machine)
    dist = run_ranks(program.dist, groups[1], theirs, machine)
    sides = {"seq": seq, "dist": dist}
    before = {side: {r: run.before for r, run in runs.items()} for side, runs in sides.items()}
    noise = {side: {r: run.noise for r, run in runs.items()} for side, runs in sides.items()}
    return Execution(seq[0].values, {r: run.values for r, run in dist.items()}, before, noise)
