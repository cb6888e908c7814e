"""Seconds and peak memory of `extract` and `run`, per case and engine: run by hand.

    python bench/measure.py            # generated pairs, and ../shared/corpus if it is there
    python bench/measure.py --layers 8 64 --ranks 2 8 --exponent

Each command runs as a process of its own; the figures are the median of `--repeat` runs and the
largest resident set of the process and its children.
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


def timed(command: Sequence[str]) -> tuple[float, float]:
    """(seconds, peak MB) of a command that must end with 0, 1 or 3."""
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - began
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def in_fresh_process(command: Sequence[str]) -> tuple[float, float]:
    """The same in a process of its own, whose children's peak memory starts at 0."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(timed, (list(command),))


def median_of(command: Sequence[str], repeat: int) -> tuple[float, float]:
    """Medians over ``repeat`` runs."""
    runs = [in_fresh_process(command) for _ in range(repeat)]
    return statistics.median(r[0] for r in runs), max(r[1] for r in runs)


def generated(folder: Path, layers: int, ranks: int) -> Path:
    """A GPT-like pair."""
    case = folder / f"gpt-{layers}x{ranks}"
    script = [sys.executable, str(HERE / "generate.py"), "--layers", str(layers)]
    subprocess.run(
        [*script, "--ranks", str(ranks), "-o", str(case)], check=True, stdout=subprocess.DEVNULL
    )
    return case


def cases(folder: Path, layers: Sequence[int], ranks: Sequence[int]) -> Iterator[tuple[str, Path]]:
    """The corpus, where it is there, and generated pairs."""
    if CORPUS.is_dir():
        yield from ((p.name, p) for p in sorted(CORPUS.iterdir()) if p.is_dir())
    for depth in layers:
        for degree in ranks:
            yield f"gpt {depth} layers x {degree} ranks", generated(folder, depth, degree)


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--layers", type=int, nargs="*", default=[8])
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 8])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--exponent", action="store_true", help="fit time ~ (layers x ranks)^e")
    options = parser.parse_args()
    command = [sys.executable, "-m", "gg_datalog"]
    engines = ["clingo", *(["souffle"] if shutil.which("souffle") else [])]
    print("| case | step | seconds | peak MB |\n| --- | --- | --- | --- |")
    spent: dict[tuple[str, int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases(Path(folder), options.layers, options.ranks):
            facts = str(Path(folder) / "facts")
            steps = {"extract": [*command, "extract", str(case), "-o", facts]}
            for engine in engines:
                steps[f"run ({engine})"] = [*command, "run", facts, "--engine", engine]
            for step, line in steps.items():
                seconds, memory = median_of(line, options.repeat)
                print(f"| {name} | {step} | {seconds:.2f} | {memory:.0f} |", flush=True)
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
