"""Small changes of the ranks' programs in the tables, judged and executed:
``python -m tests.numeric.attacks --seed 3 --each 20 --only 'test_channels*'``.

A change is of one place (see :mod:`edits`), of the order of a group, or of what is returned: on one
rank, on all of them, or on both sides, which makes right programs with other arguments. What is said
to refine and does not is wrong, and so is every relation that does not hold in numbers.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

import numpy as np

from .edits import Edit, edits
from .interpreter import Execution, execute
from .judge import Judged, check, judge, outputs_right
from .kernels_np import NotExecuted
from .program import Json, Program
from .promotion import Invalid, torch_name
from .tables import programs

BATCH = 60
HANGS = (
    "hangs", "line up", "never received", "in no group", "no member", "expects other",
    "another form is received",
)  # fmt: skip
RANDOM = ("rand", "bernoulli", "normal", "exponential", "multinomial", "binomial", "uniform")
TRUSTED = {
    "targets",
    "divisors",
    "finite exponents",
}  # assumptions of numbers, which may be others here
UNUSUAL = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
FORMS = ("ff", "fb")  # floats of all widths are executed as doubles
Say = Callable[[str], None]


@dataclass(repr=False)
class Changed:
    """A program that was changed, and how; what came of it."""

    name: str
    text: str
    program: Program
    execution: Execution | None = None
    right: bool = False


# ---- execution
@contextmanager
def _torch() -> Iterator[Any]:
    """Torch, which executes what numpy does not."""
    import torch

    from .torch_machine import Torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield Torch()
    finally:
        torch.set_default_dtype(before)


def run(program: Program, seed: Sequence[int]) -> Execution:
    """Executed by numpy, else by torch; :class:`NotExecuted` where neither does."""
    try:
        return execute(program, np.random.default_rng(seed))
    except NotExecuted:
        pass
    except UNUSUAL as error:
        raise NotExecuted(str(error)) from error
    if any(word in node["target"] for node in _nodes(program) for word in RANDOM):
        raise NotExecuted("what torch draws is not one to one")
    with _torch() as machine:
        try:
            return _arrays(execute(program, np.random.default_rng(seed), machine))
        except UNUSUAL as error:
            raise NotExecuted(str(error)) from error


def _arrays(execution: Execution) -> Execution:
    """What torch held, as numpy has it."""
    for values in (execution.seq, *execution.dist.values()):
        values.update({name: _array(value) for name, value in values.items()})
    return execution


def _array(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_array(v) for v in value]
    return value.detach().numpy() if hasattr(value, "detach") else value


def _nodes(program: Program) -> Iterator[Json]:
    for graph in (program.seq, *program.dist.values()):
        yield from graph["nodes"]


def settled(changed: Changed, seed: Sequence[int]) -> bool:
    """Executes it and says whether it is right; False where it cannot be executed, unless it
    hangs. Shapes that follow from others are told as the execution has them."""
    shapes = [node.pop("shape", None) for node in _computed(changed.program)]
    try:
        changed.execution = run(changed.program, seed)
        known = _told(changed.program, changed.execution, shapes)
        changed.right = known and outputs_right(changed.program, changed.execution)
    except Invalid as error:
        for node, shape in zip(_computed(changed.program), shapes, strict=True):
            node.update({} if shape is None else {"shape": shape})
        return any(word in str(error) for word in HANGS)
    except (NotExecuted, AttributeError, ValueError):  # an output that is no tensor, too
        return False
    return known


def _computed(program: Program) -> list[Json]:
    return [node for node in _nodes(program) if node["op"] == "call_function"]


def _told(program: Program, execution: Execution, shapes: Sequence[Any]) -> bool:
    """Tells shapes where they were told; False where a result is of another type than is told."""
    sides = [(program.seq, execution.seq)]
    sides += [(graph, execution.dist[rank]) for rank, graph in program.dist.items()]
    rows = [(n, v[n["name"]]) for g, v in sides for n in g["nodes"] if n["op"] == "call_function"]
    for (node, value), shape in zip(rows, shapes, strict=True):
        if not isinstance(value, np.ndarray):
            continue
        if shape is not None:
            node["shape"] = list(value.shape)
        if value.dtype == object:  # of None
            return False
        told = node.get("dtype") or torch_name(value)
        if told != torch_name(value) and value.dtype.kind + told[0] not in FORMS:
            return False
    return True


# ---- changes
def _edited(program: Program, edit: Edit, where: str) -> Program | None:
    """The change on ``where``: a rank, ``all`` ranks, or ``both`` sides."""
    copy = program.copy()
    graphs = [copy.dist[int(where)]] if where.isdigit() else list(copy.dist.values())
    graphs += [copy.seq] if where == "both" else []
    before = str(graphs)
    try:
        for graph in graphs:
            for node in [n for n in graph["nodes"] if n["name"] == edit.name]:
                edit.change(graph, node)
    except (KeyError, IndexError, TypeError, OverflowError):  # it has no such place there
        return None
    return None if before == str(graphs) else copy


def _regrouped(program: Program, rng: random.Random) -> Changed | None:
    """The members of a group in another order."""
    copy = program.copy()
    groups = [g for g in copy.groups["dist"] if len(g["ranks"]) > 1]
    if not groups:
        return None
    group = rng.choice(groups)
    group["ranks"] = group["ranks"][1:] + group["ranks"][:1]
    return Changed("", "a group in another order", copy)


def _returned(program: Program, execution: Execution, rng: random.Random) -> Changed | None:
    """The ranks return something else of the same shape."""
    copy = program.copy()
    rows = [row for row in copy.outputs if isinstance(row["dist"], dict)]
    if not rows:
        return None
    row = rng.choice(rows)
    rank, old = rng.choice(sorted(row["dist"].items()))
    values = execution.dist[int(rank)]
    shape = np.shape(values[old]) if isinstance(values.get(old), np.ndarray) else None
    others = [n for n, v in values.items() if isinstance(v, np.ndarray) and v.shape == shape]
    other = rng.choice(others) if others else old
    row["dist"] = {r: other if n == old else n for r, n in row["dist"].items()}
    known = all(n in execution.dist[int(r)] for r, n in row["dist"].items())
    return Changed("", f"returns {other} for {old}", copy) if known and other != old else None


def changes(name: str, program: Program, rng: random.Random, each: int) -> list[Changed]:
    """Some changes of a program, which can be executed."""
    try:
        original = run(program, (0, 0))
    except (NotExecuted, Invalid):
        return []
    rank = rng.choice(sorted(program.dist))
    every = edits(program.dist[rank], original.dist[rank])
    pool = [(edit, where) for edit in every for where in (str(rank), "all", "both")]
    found = [c for c in (_regrouped(program, rng), _returned(program, original, rng)) if c]
    for edit, where in rng.sample(pool, min(len(pool), 3 * each)):
        if (copy := _edited(program, edit, where)) is not None:
            found.append(Changed("", f"`{edit.name}` {edit.text} on {where}", copy))
    kept: list[Changed] = []
    for changed in found:
        changed.name = name
        if len(kept) < each and settled(changed, (rng.randrange(2**30), 1)):
            kept.append(changed)
    return kept


# ---- judged
@dataclass
class Found:
    """What came out."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, changed: Changed, judged: Judged) -> None:
        """Compares what is said of one program with the numbers."""
        where = f"{changed.name}: {changed.text}"
        truth, said = (
            ("right" if changed.right else "wrong"),
            ("refines" if judged.refines else "refused"),
        )
        self.counts["programs"] += 1
        self.counts[f"{truth}, {said}"] += 1
        if judged.failed:
            self.wrong.append(f"{where}: {judged.reason}")
        if _trusts(judged):
            return
        if judged.refines and not changed.right:
            self.wrong.append(f"{where}: it is said to refine, and the outputs differ")
        if judged.extracted is not None and changed.execution is not None:
            self._compare(where, judged, changed.execution)

    def _compare(self, where: str, judged: Judged, execution: Execution) -> None:
        try:
            report = check(judged, execution)
        except UNUSUAL:  # arguments that no operator has
            self.counts["not compared"] += 1
            return
        self.counts["relations"] += report.relations
        self.wrong += [f"{where}: {problem}" for problem in report.wrong[:2]]


def _trusts(judged: Judged) -> bool:
    """Does the verdict list something that the numbers need not meet?"""
    if judged.extracted is None:
        return False
    rows = judged.extracted.tables["assumption"].to_pylist()
    return any(row["kind"] in TRUSTED for row in rows)


def attacked(
    chosen: Mapping[str, Program], seed: int, each: int, say: Say = lambda text: None
) -> Found:
    """Changes of all these programs, judged and executed."""
    found, began, waiting = Found(), time.monotonic(), list[Changed]()
    for number, (name, program) in enumerate(chosen.items()):
        waiting += changes(name, program, random.Random(f"{seed} {name}"), each)
        if waiting and (len(waiting) >= BATCH or number == len(chosen) - 1):
            seen = len(found.wrong)
            for changed, judged in zip(waiting, judge([c.program for c in waiting]), strict=True):
                found.add(changed, judged)
            waiting = []
            took = f"{time.monotonic() - began:.0f} s"
            say(
                "\n".join(
                    [*found.wrong[seen:], f"{number + 1}/{len(chosen)} {took} {dict(found.counts)}"]
                )
            )
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="small changes of the tables' programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=6, help="changes of each program")
    parser.add_argument("--only", default="*", help="which programs, by name")
    options = parser.parse_args()
    chosen = {name: p for name, p in programs().items() if fnmatch(name, options.only)}
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    found = attacked(chosen, options.seed, options.each, say)
    print(*found.wrong, dict(found.counts), sep="\n")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
