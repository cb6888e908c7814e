"""Seconds and sizes of `certificate`, `check` and `explain`, per case: run by hand.

    python bench/proofs.py              # the good cases of the corpus, and a generated pair
    python bench/proofs.py --layers 8 --ranks 8 --no-corpus

Each command runs as a process of its own, start-up included; the figures are medians.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import CORPUS, generated, median_of

GG = [sys.executable, "-m", "gg_datalog"]


def cases(layers: int, ranks: int, corpus: bool, folder: Path) -> Iterator[tuple[str, Path]]:
    """The cases of the corpus that refine, where it is there, and a generated pair."""
    for expected in sorted(CORPUS.glob("*/expect.json")) if corpus else ():
        if json.loads(expected.read_text(encoding="utf-8"))["verdict"] == "refines":
            yield expected.parent.name, expected.parent
    yield f"gpt {layers} layers x {ranks} ranks", generated(folder, layers, ranks)


def measured(case: Path, folder: Path, repeat: int) -> list[str]:
    """The cells of a row."""
    facts, proof = folder / "facts", folder / "proof.json"
    median_of([*GG, "extract", str(case), "-o", str(facts)], 1)
    run, _, _ = median_of([*GG, "run", str(facts)], repeat)
    made, _, _ = median_of([*GG, "certificate", str(facts / "result"), "-o", str(proof)], repeat)
    checked, memory, code = median_of([*GG, "check", str(proof), str(facts)], repeat)
    report = json.loads((facts / "result" / "report.json").read_text(encoding="utf-8"))
    output = next(row["seq"] for row in report["outputs"] if row["status"] == "mapped")
    told, _, _ = median_of([*GG, "explain", str(facts / "result"), output], repeat)
    steps = len(json.loads(proof.read_text(encoding="utf-8"))["steps"])
    verdict = "holds" if code == 0 else "REFUSED"
    size = proof.stat().st_size / 1024
    cells = [f"{steps:,}", f"{size:,.0f}", f"{run:.2f}", f"{made:.2f}", f"{checked:.2f}"]
    return [*cells, verdict, f"{told:.2f}", f"{memory:.0f}"]


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs per figure [3]")
    parser.add_argument("--no-corpus", action="store_true")
    options = parser.parse_args()
    heads = ["case", "steps", "KiB", "run s", "certificate s", "check s", "", "explain s", "MB"]
    print("|", " | ".join(heads), "|")
    print("|", " | ".join("---" for _ in heads), "|")
    with tempfile.TemporaryDirectory() as place:
        corpus = not options.no_corpus
        for number, (name, case) in enumerate(
            cases(options.layers, options.ranks, corpus, Path(place))
        ):
            folder = Path(place, str(number))
            folder.mkdir()
            print("|", " | ".join([name, *measured(case, folder, options.repeat)]), "|", flush=True)


if __name__ == "__main__":
    main()
