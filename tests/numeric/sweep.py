"""Many random programs: ``python -m tests.numeric.sweep --programs 1000 --coverage``.

Every program is judged by the rules and executed; every derived relation, and every verdict, is
compared with the numbers. Exit code 1 if one of them is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .coverage import Coverage, instrumented, rules_of
from .fuzz import Made, mixed
from .interpreter import Execution, execute
from .judge import Derived, Judged, check, judge, outputs_right
from .promotion import Invalid
from .relations import RULES, Report

BATCH = 50


@dataclass
class Figures:
    """What came out, over some programs. ``clean`` are those that were written without a mistake."""

    programs: int = 0
    refine: int = 0
    right: int = 0
    clean: int = 0
    relations: int = 0
    wrong: int = 0
    refused: int = 0  # clean and right, and yet not shown
    bad_input: int = 0  # clean and right, and yet taken for a mistake of the input


ROW = "{:<12} {:>8} {:>9} {:>5} {:>7} {:>7} {:>7} {:>9}"
HEAD = ("", "programs", "relations", "wrong", "refine", "right", "refused", "bad input")


@dataclass
class Found:
    """The same over all programs, and by what they speak of."""

    total: Figures = field(default_factory=Figures)
    features: dict[str, Figures] = field(default_factory=dict)
    mistakes: dict[str, list[int]] = field(
        default_factory=dict
    )  # programs with one, and wrong ones
    failed: list[str] = field(default_factory=list)  # extraction ended with an exception
    messages: dict[str, int] = field(default_factory=dict)  # of bad input, and a seed
    not_executable: int = 0
    refused: list[int] = field(default_factory=list)
    spoilt: list[int] = field(default_factory=list)  # clean, and yet not right: the generator errs
    report: Report = field(default_factory=Report)

    def add(self, seed: int, made: Made, judged: Judged) -> None:
        """Executes one program and compares."""
        rows = [self.total] + [
            self.features.setdefault(name, Figures()) for name in made.features or ("plain",)
        ]
        for row in rows:
            row.programs += 1
        if judged.failed:
            self.failed.append(f"seed {seed}: {judged.reason}")
        try:
            execution = execute(made.program, np.random.default_rng(seed))
        except Invalid:
            self.not_executable += 1
            self.spoilt += [seed] if made.clean else []
            return
        right = outputs_right(made.program, execution)
        report = self._compared(seed, judged, execution, right)
        self.report.add(report)
        shown, clean = judged.refines, made.clean and right
        self.spoilt += [seed] if made.clean and not right else []
        self.refused += [seed] if clean and not shown else []
        if clean and judged.extracted is None and not judged.failed:
            self.messages.setdefault(judged.reason, seed)
        for what in set(made.mistakes):
            counts = self.mistakes.setdefault(what, [0, 0])
            counts[0] += 1
            counts[1] += bool(report.wrong)
        for row in rows:
            row.refine += shown
            row.right += right
            row.clean += clean
            row.relations += report.relations
            row.wrong += len(report.wrong)
            row.refused += clean and not shown
            row.bad_input += clean and judged.extracted is None

    def _compared(self, seed: int, judged: Judged, execution: Execution, right: bool) -> Report:
        """Every relation, and the verdict."""
        if judged.extracted is None:
            return Report()
        report = check(judged, execution)
        if judged.refines and not right:
            report.wrong.append("it is said to refine, and the outputs differ")
        report.wrong = [f"seed {seed}: {problem}" for problem in report.wrong]
        return report

    @property
    def programs(self) -> int:
        """How many there were."""
        return self.total.programs

    @property
    def clean(self) -> int:
        """How many were written without a mistake, and are right."""
        return self.total.clean

    @property
    def rate(self) -> float:
        """How many of the right programs are refused."""
        return len(self.refused) / max(1, self.clean)

    def table(self) -> str:
        """The figures by feature."""
        rows = [*sorted(self.features.items()), ("all", self.total)]
        lines = [ROW.format(*HEAD)]
        for name, row in rows:
            share = f"{row.refused / max(1, row.clean):.1%}"
            numbers = row.programs, row.relations, row.wrong, row.refine, row.right
            lines.append(ROW.format(name, *numbers, share, row.bad_input))
        return "\n".join(line.rstrip() for line in lines)

    def text(self) -> str:
        """The summary."""
        report = self.report
        lines = [
            self.table(),
            f"not executable           {self.not_executable}",
            f"nodes checked            {report.nodes} ({len(report.skipped)} skipped)",
            f"relations checked        {report.relations} ({report.parts} open)",
            f"relations wrong          {len(report.wrong)}",
            f"right programs refused   {len(self.refused)} of {self.clean} ({self.rate:.1%})",
        ]
        if self.refused:
            lines.append(f"  seeds {' '.join(map(str, self.refused[:12]))}")
        if self.spoilt:
            lines.append(f"clean programs that are not right: {' '.join(map(str, self.spoilt))}")
        rows = sorted((what, counts) for what, counts in self.mistakes.items() if counts[1])
        lines += [f"mistake `{what}`: {bad} of {all_} programs wrong" for what, (all_, bad) in rows]
        lines += [f"bad input, seed {s}: {text}" for text, s in [*self.messages.items()][:12]]
        lines += self.failed[:12]
        first: dict[str, str] = {}
        for problem in report.wrong:
            first.setdefault(problem.partition(":")[0], problem)
        return "\n".join([*lines, *list(first.values())[:30]])


def sweep(
    seeds: Sequence[int],
    rules: Path = RULES,
    also: Callable[[Derived], None] | None = None,
    say: Callable[[str], None] = lambda text: None,
    batch: int = BATCH,
    make: Callable[[int], Made] = mixed,
) -> Found:
    """Judges and executes the programs of all seeds."""
    found, began = Found(), time.monotonic()
    for start in range(0, len(seeds), batch):
        mine = seeds[start : start + batch]
        made = [make(seed) for seed in mine]
        judged = judge([one.program for one in made], rules, also)
        for seed, one, verdict in zip(mine, made, judged, strict=True):
            found.add(seed, one, verdict)
        wrong = f", {len(found.report.wrong)} WRONG" if found.report.wrong else ""
        took = time.monotonic() - began
        say(
            f"{found.programs}/{len(seeds)} programs, {found.report.relations} relations{wrong}, {took:.0f} s"
        )
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="random programs, judged and executed")
    parser.add_argument("--programs", type=int, default=1000, help="how many")
    parser.add_argument(
        "--seed", type=int, default=None, help="the first seed (default: the clock)"
    )
    parser.add_argument("--coverage", action="store_true", help="which rules fired")
    parser.add_argument("--rules", type=Path, default=RULES, help="another main.dl to judge by")
    options = parser.parse_args()
    first = int(time.time()) * 10_000 if options.seed is None else options.seed
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    say(f"seeds from {first}")
    coverage = Coverage(rules_of(options.rules))
    with ExitStack() as stack:
        rules = (
            stack.enter_context(instrumented(options.rules)) if options.coverage else options.rules
        )
        also = coverage.add if options.coverage else None
        found = sweep(range(first, first + options.programs), rules, also, say)
    print(f"seeds                    {first} to {first + options.programs - 1}")
    print(found.text())
    if options.coverage:
        never = coverage.never()
        print(f"rules that never fired   {len(never)} of {len(coverage.rules)}")
        for place in never:
            print(f"  {coverage.text(place)}")
    return 1 if found.report.wrong or found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
