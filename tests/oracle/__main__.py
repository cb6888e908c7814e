"""The oracle: ``python -m tests.oracle -n 10000 --op 'add*' --seed 1``, or ``make oracle``.

Progress and what is wrong on stderr, the table on stdout; exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import opinion
from .report import page, table, wrong
from .running import run, targets, turns
from .samples import recorded, restrict


def main() -> int:
    """Runs as the command line says."""
    asked = _arguments()
    if asked.tests:
        restrict(asked.tests.split(","))
    names = targets(asked.op, uninterpreted=not asked.known)
    if not names:
        print(f"no operator of torch's tests is called {asked.op}", file=sys.stderr)
        return 2
    wanted = turns(names, asked.n)
    if asked.turn is not None:
        wanted = [(name, asked.turn) for name in names]
    counts = run(wanted, asked.seed, say)
    second = {}
    if asked.opinion:
        ruled = [t for t in recorded() if t in set(names) and opinion.has_rule(t)]
        second = opinion.ask(ruled, asked.seed, say)
    print(table(counts, second))
    if asked.write is not None:
        seconds = sum(os.times()[:4])  # of batches, too
        asked.write.write_text(page(counts, second, asked.seed, seconds), encoding="utf-8")
    return 1 if wrong(counts) else 0


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("-n", type=int, default=5000, help="how many combinations, about")
    parser.add_argument(
        "--op", default="*", help="which operators: `add`, `add.Tensor`, `_foreach_*`"
    )
    parser.add_argument(
        "--tests",
        help="only samples of these of torch's operator tests, `nn.functional.mish,atan2`",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turn", type=int, help="only this turn of each operator, to see it again")
    parser.add_argument("--known", action="store_true", help="only described operators")
    parser.add_argument("--opinion", action="store_true", help="ask DTensor's rules as well")
    parser.add_argument(
        "--write", type=Path, help="write the table as a page, e.g. docs/coverage.md"
    )
    asked = parser.parse_args()
    if asked.write is not None and asked.tests:
        parser.error("a page is of all operators: leave --tests out")
    return asked


if __name__ == "__main__":
    sys.exit(main())
