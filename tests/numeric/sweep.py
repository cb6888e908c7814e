"""Many random programs: ``python tests/numeric/sweep.py --programs 1000 --coverage``.

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
from coverage import Coverage, instrumented, rules_of
from fuzz import generate
from interpreter import execute
from judge import Derived, Judged, check, judge, outputs_right
from kernels_np import Invalid
from program import Program
from relations import RULES, Report

BATCH = 50


@dataclass
class Found:
    """What came out, over all programs. ``clean`` are those that were written without a mistake."""

    programs: int = 0
    refused_by_extraction: int = 0
    not_executable: int = 0
    refine: int = 0
    right: int = 0
    clean: int = 0
    refused: list[int] = field(default_factory=list)  # clean and right, and yet refused
    spoilt: list[int] = field(default_factory=list)  # clean, and yet not right: the generator errs
    report: Report = field(default_factory=Report)

    def add(self, seed: int, program: Program, clean: bool, judged: Judged) -> None:
        """Executes one program and compares."""
        self.programs += 1
        if judged.extracted is None:
            self.refused_by_extraction += 1
            return
        try:
            execution = execute(program, np.random.default_rng(seed))
        except Invalid:
            self.not_executable += 1
            self.spoilt += [seed] if clean else []
            return
        found = check(judged, execution)
        right = outputs_right(program, execution)
        if judged.refines and not right:
            found.wrong.append("it is said to refine, and the outputs differ")
        found.wrong = [f"seed {seed}: {problem}" for problem in found.wrong]
        self.report.add(found)
        self.refine += judged.refines
        self.right += right
        self.clean += clean and right
        self.spoilt += [seed] if clean and not right else []
        self.refused += [seed] if clean and right and not judged.refines else []

    @property
    def rate(self) -> float:
        """How many of the right programs are refused."""
        return len(self.refused) / max(1, self.clean)

    def text(self) -> str:
        """The summary."""
        report = self.report
        lines = [
            f"programs                 {self.programs}",
            f"  refused by extraction  {self.refused_by_extraction}",
            f"  not executable         {self.not_executable}",
            f"refine by the rules      {self.refine}",
            f"right by numbers         {self.right}",
            f"nodes checked            {report.nodes} ({len(report.skipped)} skipped)",
            f"relations checked        {report.relations} ({report.parts} open)",
            f"relations wrong          {len(report.wrong)}",
            f"right programs refused   {len(self.refused)} of {self.clean} ({self.rate:.1%})",
        ]
        if self.refused:
            lines.append(f"  seeds {' '.join(map(str, self.refused[:12]))}")
        if self.spoilt:
            lines.append(f"clean programs that are not right: {' '.join(map(str, self.spoilt))}")
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
) -> Found:
    """Judges and executes the programs of all seeds."""
    found, began = Found(), time.monotonic()
    for start in range(0, len(seeds), batch):
        mine = seeds[start : start + batch]
        made = [generate(seed) for seed in mine]
        judged = judge([program for program, _ in made], rules, also)
        for seed, (program, clean), verdict in zip(mine, made, judged, strict=True):
            found.add(seed, program, clean, verdict)
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
    return 1 if found.report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
