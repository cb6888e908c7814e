"""Extraction and inference from one layer on two ranks to 126 layers on eight: table and chart.

    python bench/scale.py                                     # GPT and Llama, a minute and a half
    python bench/scale.py --write bench/figures/0.3.0.json    # keep the figures
    python bench/scale.py --against bench/figures/0.2.0.json  # how many times those of a release
    python bench/scale.py --python OTHER/bin/python           # another installation
    python bench/scale.py --read bench/figures/0.3.0.json --chart docs/pictures/scale.svg

Pairs are generated in the form of those that Entangle publishes, forward only. Every command is a
process of its own, start-up included, on files that were not read before by it. CPU seconds are
those of all processes, so they hardly change beside other jobs; memory is that of the largest one.
`--chart` needs matplotlib (extra `bench`).
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from used import Used, run

HERE = Path(__file__).resolve().parent
SIZES = ((1, 2), (1, 8), (8, 2), (8, 8), (32, 8), (126, 8))
"""Layers and ranks of the pairs that are measured."""
KINDS = ("gpt", "llama")
PUBLISHED: Mapping[str, Mapping[tuple[int, int], float]] = {
    "gpt": {
        (1, 2): 13.6, (1, 4): 18.9, (1, 6): 27.3, (1, 8): 52.8,
        (2, 2): 20.6, (2, 4): 29.4, (2, 6): 39.9, (2, 8): 68.4,
        (4, 2): 35.4, (4, 4): 49.9, (4, 6): 65.2, (4, 8): 102.8,
        (8, 2): 68.7, (8, 4): 94.7, (8, 6): 123.1, (8, 8): 174.4,
    },
    "llama": {
        (1, 2): 10.0, (1, 4): 13.7, (1, 8): 20.8,
        (2, 2): 20.1, (2, 4): 29.7, (2, 8): 44.2,
        (4, 2): 42.8, (4, 4): 63.9, (4, 8): 99.5,
        (8, 2): 95.5, (8, 4): 146.8, (8, 8): 237.0,
    },
}  # fmt: skip
"""Seconds of Entangle by layers and ranks, on 16 cores of an EPYC 7302P: read off the curves of
GPT_scalability.pdf and Llama-3_scalability.pdf in examples/reference_figures of
github.com/nyu-systems/Entangle (figure 4 of the paper)."""

HEAD = """
 <title>Seconds against layers times ranks</title>
 <style>
  svg { --ink: #55616e }
  @media (prefers-color-scheme: dark) { svg { --ink: #aab4bf } }
 </style>"""


@dataclass(frozen=True)
class Figure:
    """What one pair took: CPU seconds and seconds of ``extract`` and ``run``, memory in MB."""

    kind: str
    layers: int
    ranks: int
    extract: float
    run: float
    seconds: float
    memory: float

    @property
    def pair(self) -> tuple[str, int, int]:
        """What was measured."""
        return self.kind, self.layers, self.ranks

    @property
    def cpu(self) -> float:
        """CPU seconds of both steps."""
        return self.extract + self.run

    @property
    def published(self) -> float | None:
        """Seconds that Entangle took for it."""
        return PUBLISHED[self.kind].get((self.layers, self.ranks))


# ---- measuring -----------------------------------------------------------------------------------
def measured(python: str, kind: str, layers: int, ranks: int) -> Figure:
    """Writes the pair and checks it."""
    with tempfile.TemporaryDirectory() as folder:
        case, facts = f"{folder}/case", f"{folder}/facts"
        script = [sys.executable, str(HERE / "generate.py"), "--kind", kind, "-o", case]
        sizes = [f"--layers={layers}", f"--ranks={ranks}"]
        subprocess.run([*script, *sizes], check=True, stderr=subprocess.DEVNULL)
        steps = [used(python, "extract", case, "-o", facts), used(python, "run", facts)]
        first, second = steps
        seconds, memory = sum(step.seconds for step in steps), max(step.memory for step in steps)
        return Figure(kind, layers, ranks, first.cpu, second.cpu, seconds, memory)


def used(python: str, *arguments: str) -> Used:
    """What a command of gg-datalog uses; a pair that does not refine is a mistake here."""
    return run([python, "-P", "-m", "gg_datalog", *arguments], codes=(0,))  # not the checkout here


def exponent(figures: Sequence[Figure], size: str) -> float:
    """e of size ~ (layers x ranks)^e between the smallest and the largest pair from 8 x 8 up."""
    large = sorted((f for f in figures if f.layers * f.ranks >= 64), key=lambda f: f.layers)
    if len(large) < 2:
        return math.nan
    first, last = large[0], large[-1]
    growth = math.log(getattr(last, size) / getattr(first, size))
    return growth / math.log(last.layers * last.ranks / (first.layers * first.ranks))


# ---- showing -------------------------------------------------------------------------------------
def rows(figures: Iterable[Figure], before: Mapping[tuple[str, int, int], Figure]) -> list[str]:
    """The table in Markdown."""
    lines = [
        "| pair | extract, CPU s | run, CPU s | both, s | peak MB | of before | Entangle, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for f in figures:
        old = before.get(f.pair)
        ratio = f"{f.cpu / old.cpu:.2f}" if old else ""
        other = "" if f.published is None else f"{f.published:.0f}"
        lines.append(
            f"| {f.kind}, {f.layers} x {f.ranks} | {f.extract:.2f} | {f.run:.2f} "
            f"| {f.seconds:.2f} | {f.memory:.0f} | {ratio} | {other} |"
        )
    return lines


def chart(figures: Sequence[Figure], path: Path) -> None:
    """Seconds against layers x ranks, ours and the published ones, on logarithmic axes."""
    import matplotlib as mpl
    from matplotlib import pyplot

    grey = "#7d8894"
    colours = dict(zip(KINDS, ("#2f7fd0", "#d0762f"), strict=True))
    style = {"svg.fonttype": "none", "svg.hashsalt": "scale", "font.family": "sans-serif"}
    style |= dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), grey
    )
    with mpl.rc_context(style):
        canvas, axes = pyplot.subplots(figsize=(6.4, 4.2))
        for kind in KINDS:
            told = sorted((la * ra, s) for (la, ra), s in PUBLISHED[kind].items())
            axes.scatter(*zip(*told, strict=True), color=colours[kind], marker="x", s=24,
                         label=f"Entangle, {kind}: seconds on 16 cores")  # fmt: skip
            own = sorted((f.layers * f.ranks, f.cpu) for f in figures if f.kind == kind)
            if own:
                axes.plot(*zip(*own, strict=True), color=colours[kind], marker="o", markersize=4,
                          label=f"gg-datalog, {kind}: CPU seconds")  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="layers x ranks", ylabel="seconds")
        axes.grid(color=grey, alpha=0.25, linewidth=0.5)
        axes.legend(
            frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=2
        )
        axes.spines[["top", "right"]].set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, transparent=True, bbox_inches="tight", metadata={"Date": None})
        pyplot.close(canvas)
    if path.suffix == ".svg":
        drawn = path.read_text(encoding="utf-8").replace(grey, "var(--ink)")
        path.write_text(re.sub(r"(<svg[^>]*>)", rf"\1{HEAD}", drawn, count=1), encoding="utf-8")


def loaded(path: Path | None) -> list[Figure]:
    """Figures that were kept."""
    return [] if path is None else [Figure(**row) for row in json.loads(path.read_text())]


def main() -> None:
    """Measures, and shows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, action="append", help="these only; repeatable")
    parser.add_argument("--python", default=sys.executable, help="of the installation measured")
    parser.add_argument("--against", type=Path, metavar="FILE", help="figures of another release")
    parser.add_argument("--read", type=Path, metavar="FILE", help="figures instead of measuring")
    parser.add_argument("--write", type=Path, metavar="FILE", help="where figures are kept")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="an SVG of them")
    given = parser.parse_args()
    figures = loaded(given.read)
    if given.read is None:
        for kind in given.kind or KINDS:
            for layers, ranks in SIZES:
                print(f"{kind}, {layers} layers on {ranks} ranks", file=sys.stderr)
                figures.append(measured(given.python, kind, layers, ranks))
    print("\n".join(rows(figures, {f.pair: f for f in loaded(given.against)})))
    for kind in dict.fromkeys(f.kind for f in figures):
        own = [f for f in figures if f.kind == kind]
        print(f"\n{kind}: from 8 x 8 up CPU seconds grow with layers x ranks to the power of "
              f"{exponent(own, 'cpu'):.2f}, memory {exponent(own, 'memory'):.2f}")  # fmt: skip
    if given.write:
        given.write.parent.mkdir(parents=True, exist_ok=True)
        given.write.write_text(json.dumps([asdict(f) for f in figures], indent=1) + "\n")
    if given.chart:
        chart(figures, given.chart)


if __name__ == "__main__":
    main()
