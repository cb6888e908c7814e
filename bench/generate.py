"""Write a pair of programs of any depth and degree as a case in the JSON form.

    python bench/generate.py --layers 8 --ranks 8 -o DIR
    python bench/generate.py --kind llama --layers 2 --ranks 8 -o DIR
    python bench/generate.py --kind qwen2 --layers 4 --ranks 4 -o DIR

Only shapes are written, so no size needs memory. A size that is not given has the default of the
kind; sizes that do not divide by the number of ranks are refused.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path

import gpt
import llama
import qwen2

KINDS = {"gpt": gpt, "llama": llama, "qwen2": qwen2}
SIZES = ("layers", "ranks", "hidden", "heads", "kv-heads", "ffn", "vocab", "seq", "batch")


def main() -> int:
    """Parse the arguments and write the case."""
    summary = "write a sequential and a distributed program as a case"
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--kind", choices=sorted(KINDS), default="gpt")
    for size in SIZES:
        parser.add_argument(f"--{size}", type=int, metavar="N")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder to write")
    args = parser.parse_args()

    kind = KINDS[args.kind]
    given = {name: getattr(args, name) for name in (size.replace("-", "_") for size in SIZES)}
    given = {name: value for name, value in given.items() if value is not None}
    known = {size.name for size in fields(kind.Sizes)}
    if unknown := sorted(given.keys() - known):
        parser.error(f"{args.kind} has no {', '.join(unknown)}")
    if given.get("ranks", 2) < 2 or min(given.values(), default=1) < 1:
        parser.error("sizes must be positive, and ranks at least 2")
    try:
        case = kind.case(kind.Sizes(**given))
    except ValueError as error:
        parser.error(str(error))
    case.write(args.out)
    nodes = len(case.seq.nodes), len(case.dist[0].nodes)
    print(f"{args.out}: {nodes[0]} nodes, {len(case.dist)} ranks of {nodes[1]}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
