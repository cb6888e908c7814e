"""Flat buffers and zeros around pieces, executed: the cases of the rules, and random buffers."""

from __future__ import annotations

from math import prod
from pathlib import Path
from random import Random

import pytest

from ..rules.build import Case, write
from ..rules.test_flat import EVERY
from .judge import Judged, check, judge, truth
from .program import Program, load

ROUNDS = 60


def _program(case: Case, folder: Path) -> Program:
    folder.mkdir(parents=True)
    write(case, folder)
    return load(folder)


def _compared(judged: Judged, seed: int) -> bool:
    """Is the program right? Every node is lowered to what it computes, every relation holds."""
    right, executions = truth(judged.program, seed)
    assert judged.extracted is not None, judged.reason
    for execution in executions:
        report = check(judged, execution)
        assert not report.wrong, "\n".join(report.wrong[:5])
    return right


def test_cases_of_the_rules(tmp_path: Path) -> None:
    """What refines is right; what is mapped nowhere is wrong."""
    cases = [c for c in EVERY if "nobody has written" not in c.name and not c.groups]
    programs = [_program(case, tmp_path / str(i)) for i, case in enumerate(cases)]
    for case, judged in zip(cases, judge(programs), strict=True):
        right = _compared(judged, 1)
        assert judged.refines == (case.maps is None), case.name
        assert right or not judged.refines, case.name


class Buffers:
    """A random program of flat buffers on every rank; its sequential sibling is the same program
    of one rank, whose inputs all have alike."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.ranks = self.rng.choice([2, 3])
        self.lines: list[str] = []
        self.sizes: dict[str, int] = {}
        self.inputs: list[str] = []

    def add(self, text: str, size: int) -> None:
        name = f"v{len(self.sizes)}"
        self.lines.append(f"{name}: f32[{size}] = {text}")
        self.sizes[name] = size

    def given(self) -> None:
        """A tensor of one to three dimensions, flattened."""
        shape = [self.rng.choice([1, 2, 3, 4]) for _ in range(self.rng.randint(1, 3))]
        name = f"p{len(self.inputs)}"
        self.inputs.append(f"{name}: f32[{', '.join(map(str, shape))}]")
        order = self.rng.sample(range(len(shape)), len(shape))
        self.add(f"view(permute({name}, {order}), [{prod(shape)}])", prod(shape))

    def pick(self) -> str:
        return self.rng.choice(list(self.sizes))

    def step(self) -> None:
        """One more buffer."""
        rng, x = self.rng, self.pick()
        n, kind = self.sizes[x], self.rng.randrange(8)
        alike = [y for y, size in self.sizes.items() if size == n]
        if kind == 0:
            many = [self.pick() for _ in range(rng.randint(2, 3))]
            self.add(f"cat([{', '.join(many)}])", sum(self.sizes[y] for y in many))
        elif kind == 1 and n > 1:
            start = rng.randrange(n)
            end = rng.randint(start + 1, n)
            self.add(f"slice.Tensor({x}, 0, {start}, {end})", end - start)
        elif kind == 2:
            self.add(f"{rng.choice(['add', 'mul', 'sub'])}.Tensor({x}, {rng.choice(alike)})", n)
        elif kind == 3:
            self.add(f"tanh({x})", n)
        elif kind == 4 and n > 1:
            start = rng.randrange(n)
            end = rng.randint(start + 1, n)
            front, back = rng.randint(0, 2), rng.randint(0, 2)
            total = front + end - start + back
            part = f"slice.Tensor({x}, 0, {start}, {end})"
            self.add(
                f"slice_backward({part}, [{total}], 0, {front}, {front + end - start}, 1)", total
            )
        elif kind == 5 and self.ranks * n <= 60:
            self.add(f"GATHER({x})", self.ranks * n)
        elif kind == 6:
            self.add(f"REDUCE({x})", n)
        elif kind == 7:
            extents = [e for e in range(1, n + 1) if n % e == 0]
            rows = rng.choice(extents)
            self.add(f"view(t(view({x}, [{rows}, {n // rows}])), [{n}])", n)

    def case(self) -> Case:
        """The pair: what the ranks reduce is as often there as there are ranks."""
        for _ in range(self.rng.randint(2, 3)):
            self.given()
        for _ in range(self.rng.randint(4, 9)):
            self.step()
        last = list(self.sizes)[-1]
        n = self.sizes[last]
        rows = self.rng.choice([e for e in range(1, n + 1) if n % e == 0])
        out = f"return tanh(view({last}, [{rows}, {n // rows}]))"
        text = "\n".join([*self.inputs, *self.lines, out])
        dist = _named(
            text,
            lambda x: f"all_gather_into_tensor({x}, {self.ranks}, 'g')",
            lambda x: f"all_reduce({x}, 'sum', 'g')",
        )
        seq = _named(
            text,
            lambda x: f"cat([{', '.join([x] * self.ranks)}])",
            lambda x: f"mul.Tensor({x}, {float(self.ranks)})",
        )
        return Case("random", seq, dist, ranks=self.ranks)


def _named(text: str, gather: object, reduce: object) -> str:
    for word, use in (("GATHER(", gather), ("REDUCE(", reduce)):
        while word in text:
            before, _, rest = text.partition(word)
            name, _, after = rest.partition(")")
            text = before + use(name) + after  # type: ignore[operator]
    return text


@pytest.mark.parametrize("seed", range(4))
def test_random_buffers(seed: int, tmp_path: Path) -> None:
    """However buffers are put together, taken apart, reduced and gathered: every node is what it
    computes. Most pairs, all of them right, refine: not where the sequential program returns a buffer
    in which a matrix begins within a row."""
    cases = [Buffers(seed * ROUNDS + i).case() for i in range(ROUNDS)]
    programs = [_program(case, tmp_path / str(i)) for i, case in enumerate(cases)]
    refining = 0
    for case, judged in zip(cases, judge(programs), strict=True):
        assert _compared(judged, seed), f"{case.seq}\n\n{case.dist}"
        refining += judged.refines
    assert refining >= 0.8 * ROUNDS
