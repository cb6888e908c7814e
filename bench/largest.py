"""From the source of a large Llama to its verdict: right, and with one all-reduce missing.

    python bench/largest.py                                    # 405B: 126 layers, 8 ranks, layer 77
    python bench/largest.py --size 8b --layers 32 --missing 7
    python bench/largest.py --layers 4 --ranks 2 --missing 2   # a try

Each pair is captured (forward and backward), extracted and run, as processes of their own, and what
each step took is printed: CPU seconds of all its processes, seconds, and MB of the largest one. Of
the wrong pair the first finding is printed, too. Needs transformers and torch.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from captures import SIZES, llama
from models import example
from used import run

from gg_datalog import capture

NOT_REDUCED = "rowwise_not_reduced"


def main() -> None:
    """Both pairs, one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=sorted(SIZES), default="405b")
    parser.add_argument("--layers", type=int, default=126, metavar="N", help="depth [126]")
    parser.add_argument("--ranks", type=int, default=8, metavar="N", help="degree [8]")
    parser.add_argument(
        "--missing", type=int, default=77, metavar="LAYER",
        help="the layer whose attention is not reduced [77]",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, metavar="N", help="as for capture [processors]")
    parser.add_argument("--keep-in", type=Path, metavar="DIR", help="where cases and results stay")
    parser.add_argument("--capture", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.capture:
        place, missing = options.capture
        captured(options, Path(place), int(missing))
        return
    print("| pair | step | CPU s | s | peak MB | |\n| --- | --- | ---: | ---: | ---: | --- |")
    with kept(options.keep_in) as folder:
        for name, missing in (("right", -1), ("wrong", options.missing)):
            for row in steps(folder / name, missing):
                print(f"| {name} | {' | '.join(row)} |", flush=True)


@contextmanager
def kept(folder: Path | None) -> Iterator[Path]:
    """The folder, or one that is gone afterwards."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def captured(options: argparse.Namespace, place: Path, missing: int) -> None:
    """Captures a pair; ``missing`` is the layer without its all-reduce, or negative."""
    given = llama(options.size, options.layers, "eager", options.ranks)
    module = example()
    planned = module.planted

    def planted(plan: dict[str, str], bug: str | None) -> dict[str, str]:
        layer = f"model.layers.{missing}.self_attn.o_proj"
        right: dict[str, str] = planned(plan, bug)
        return right | ({layer: NOT_REDUCED} if missing >= 0 else {})

    # the module that ``given`` was made by is another one of the same file
    given["build"].__globals__["planted"] = planted
    capture(**given, jobs=options.jobs).save(place)


def steps(place: Path, missing: int) -> Iterator[Sequence[str]]:
    """What each step took, and what came of it."""
    case, facts = place / "case", place / "facts"
    own = [sys.executable, __file__, *sys.argv[1:], "--capture", str(case), str(missing)]
    command = [sys.executable, "-m", "gg_datalog"]
    yield ("capture", *used(own), "")
    yield ("extract", *used([*command, "extract", str(case), "-o", str(facts)]), "")
    figures = used([*command, "run", str(facts), "--confirm", "0"])
    report: dict[str, Any] = json.loads((facts / "result" / "report.json").read_text())
    findings = [f"{f['code']} {f['title']}" for f in report.get("findings", [])]
    yield ("run", *figures, "; ".join([report["verdict"], *findings[:1]]))


def used(command: Sequence[str]) -> tuple[str, str, str]:
    """CPU seconds, seconds and MB of a command, with all that it starts."""
    found = run(command)
    return f"{found.cpu:.1f}", f"{found.seconds:.1f}", f"{found.memory:.0f}"


if __name__ == "__main__":
    main()
