"""Seconds and peak memory of `extract` and `run`, per case and engine: run by hand.

    python bench/measure.py            # the corpus if it is there, and generated GPT-like pairs
    python bench/measure.py --layers 8 64 --ranks 2 8 --exponent --no-corpus
    python bench/measure.py --layers --no-corpus --case step/    # a case of your own

Each command runs as a process of its own, start-up included. The figures are the median of
`--repeat` runs and the largest resident set of any one process. Souffle is measured where it is on
the PATH.
"""

from __future__ import annotations

import argparse
import math
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parent.parent / "shared" / "corpus"


VERDICT = {0: "refines", 1: "does not refine", 3: "inconclusive"}


def timed(command: Sequence[str]) -> tuple[float, float, int]:
    """(seconds, peak MB, exit code) of a command that must not fail."""
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - began
    if done.returncode not in VERDICT:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, done.returncode


def in_fresh_process(command: Sequence[str]) -> tuple[float, float, int]:
    """The same in a process of its own, whose children's peak memory starts at 0."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(timed, (list(command),))


def median_of(command: Sequence[str], repeat: int) -> tuple[float, float, int]:
    """Median of the seconds, largest memory and the exit code over ``repeat`` runs."""
    runs = [in_fresh_process(command) for _ in range(repeat)]
    seconds, memory, codes = zip(*runs, strict=True)
    return statistics.median(seconds), max(memory), max(codes)


def generated(folder: Path, layers: int, ranks: int) -> Path:
    """A GPT-like pair."""
    case = folder / f"gpt-{layers}x{ranks}"
    script = [sys.executable, str(HERE / "generate.py"), "--layers", str(layers)]
    subprocess.run(
        [*script, "--ranks", str(ranks), "-o", str(case)], check=True, stderr=subprocess.DEVNULL
    )
    return case


def cases(
    folder: Path, corpus: Path | None, layers: Sequence[int], ranks: Sequence[int]
) -> Iterator[tuple[str, Path]]:
    """The corpus, where it is there, and generated pairs."""
    if corpus is not None and corpus.is_dir():
        yield from ((p.name, p) for p in sorted(corpus.iterdir()) if p.is_dir())
    for depth in layers:
        for degree in ranks:
            yield f"gpt {depth} layers x {degree} ranks", generated(folder, depth, degree)


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    numbers = {"type": int, "nargs": "*", "metavar": "N"}
    parser.add_argument("--layers", default=[8], help="depths of the pairs [8]", **numbers)
    parser.add_argument("--ranks", default=[2, 8], help="degrees of each depth [2 8]", **numbers)
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs per figure [3]")
    parser.add_argument(
        "--case", type=Path, action="append", default=[], help="a case folder; repeatable"
    )
    parser.add_argument("--no-corpus", action="store_true", help="leave ../shared/corpus out")
    parser.add_argument(
        "--exponent",
        action="store_true",
        help="e of seconds ~ (layers x ranks)^e, from the smallest pair to the largest",
    )
    options = parser.parse_args()
    if options.exponent and len(options.layers) * len(options.ranks) < 2:
        parser.error("--exponent needs pairs of two sizes")
    command = [sys.executable, "-m", "gg_datalog"]
    engines = ["clingo", *(["souffle"] if shutil.which("souffle") else [])]
    print("| case | step | seconds | peak MB | verdict |\n| --- | --- | ---: | ---: | --- |")
    spent: dict[tuple[str, int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        corpus = None if options.no_corpus else CORPUS
        listed = [(case.name, case) for case in options.case]
        for name, case in [
            *listed,
            *cases(Path(folder), corpus, options.layers, options.ranks),
        ]:
            facts = str(Path(folder) / "facts")
            steps = {"extract": [*command, "extract", str(case), "-o", facts]}
            for engine in engines:
                steps[f"run ({engine})"] = [*command, "run", facts, "--engine", engine]
            for step, line in steps.items():
                seconds, memory, code = median_of(line, options.repeat)
                verdict = "" if step == "extract" else VERDICT[code]
                print(f"| {name} | {step} | {seconds:.2f} | {memory:.0f} | {verdict} |", flush=True)
                if name.startswith("gpt ") and " x " in name:
                    size = math.prod(int(w) for w in name.split() if w.isdigit())
                    spent[step, size] = seconds
            shutil.rmtree(facts, ignore_errors=True)
    if options.exponent:
        for step in dict.fromkeys(s for s, _ in spent):
            sizes = sorted(n for s, n in spent if s == step)
            low, high = sizes[0], sizes[-1]
            slope = math.log(spent[step, high] / spent[step, low]) / math.log(high / low)
            print(f"\n{step}: exponent {slope:.2f} between {low} and {high} layers x ranks")


if __name__ == "__main__":
    main()
