"""What an audit of many one-layer pairs costs, and what its questions and its page cost then.

    python bench/audits.py --items 10000                 # on this machine
    python bench/audits.py --items 10000 --ray auto      # on a Ray cluster that is there
    python bench/audits.py --items 10000 --small         # pairs of a few operators
    python bench/audits.py --known 100000                # made-up items, all of them known already

The pairs are GPTs of one layer on two ranks, or products cut along what is summed (`--small`), each
of another size, so that none is like another one.
CPU seconds are those of all processes of the audit, imports and the coordinator included; they
stay what they are beside other jobs, the rate does not. On Ray the items' own are counted alone.
Memory is the largest of the coordinator. `--keep-in DIR` keeps cases and audit there.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gpt
from graphs import Case, Graph, Input, even
from used import run

from gg_datalog.audit.database import asked, ensure
from gg_datalog.audit.folder import AuditFolder, made
from gg_datalog.audit.html import render
from gg_datalog.audit.items import NOTHING, Item
from gg_datalog.audit.jobs import Job
from gg_datalog.audit.key import item_key
from gg_datalog.audit.known import Outcome
from gg_datalog.audit.lake import Lake
from gg_datalog.audit.limits import Limits
from gg_datalog.audit.packing import SUFFIX
from gg_datalog.audit.recording import mention
from gg_datalog.queries import statement

QUERIES = ("summary", "by_cause", "by_configuration", "unsupported", "slowest", "changes")
SMALLEST = 3072  # features of the inner layer
TOTALS = """
    SELECT count(*), count(*) FILTER (status = 'refines'), coalesce(sum(cpu), 0) FROM items"""


# ---- items ---------------------------------------------------------------------------------------
def write_cases(folder: Path, count: int, small: bool) -> None:
    """So many pairs, one below the other."""
    for number in range(count):
        kind = "product" if small else "layer"
        place = folder / f"{number // 1000:03}" / f"{kind}-{number:06}"
        if not place.exists():
            size = SMALLEST + 2 * number
            case = product(size) if small else gpt.case(gpt.Sizes(layers=1, ffn=size))
            case.write(place)


def product(size: int, ranks: int = 2) -> Case:
    """Gelu of ``[16, size] @ [size, 16]``, of which each rank adds up a part."""
    inputs = [
        Input("x", (16, size), "float32", even(1, size, ranks)),
        Input("w", (size, 16), "float32", even(0, size, ranks)),
    ]
    graphs = [Graph(None), *map(Graph, range(ranks))]
    for graph in graphs:
        total = graph.aten("mm", *map(graph.placeholder, inputs))
        if graph.rank is not None:
            total = graph.call("_c10d_functional.all_reduce.default", total, "sum", "tp")
            total = graph.call("_c10d_functional.wait_tensor.default", total)
        graph.output([graph.aten("gelu", total)])
    return Case(graphs[0], graphs[1:], inputs, [("gelu", "gelu")], group="tp")


def known_items(count: int) -> list[Item]:
    """Items that need no files to be looked up: packed cases, which are named by their content."""
    named = ((f"made-up/{n:06}", sha256(str(n).encode()).hexdigest()) for n in range(count))
    limits = Limits()
    return [
        Item(name, name, name, NOTHING, "case", content + SUFFIX, limits=limits)
        for name, content in named
    ]


def write_known(folder: AuditFolder, items: Sequence[Item]) -> None:
    """Rows that say that all of these refine."""
    lake = Lake(folder.rows, "s1of1")
    for first in range(0, len(items), 1000):
        lake.append([_row(item) for item in items[first : first + 1000]])


def _row(item: Item) -> dict[str, Any]:
    content = item.source.removesuffix(SUFFIX)
    job = Job(item, content=content, key=item_key(content, item))
    return {**mention(job, Outcome("refines", {}, False, item.name), "made-up"), "like": None}


def run_known(folder: Path, count: int) -> None:
    """Looks so many made-up items up: in a process of its own, which is measured."""
    from gg_datalog.audit.plan import Plan
    from gg_datalog.audit.running import Asked, run_items

    items = known_items(count)
    run_items(AuditFolder(folder), Plan("made-up", items), items, Asked(jobs=1))


# ---- what is measured ----------------------------------------------------------------------------
def audited(command: Sequence[str], out: Path, name: str, ray: bool = False) -> None:
    """Runs an audit, and says what it cost."""
    used = run(command)
    ((count, refine, own),) = asked(AuditFolder(out), TOTALS).rows
    cpu = own if ray else used.cpu
    rate = count / used.seconds * 3600
    say(f"{name}: {count} items, {refine} refine", f"{used.seconds:.1f} s, {rate:,.0f} an hour")
    say("  CPU seconds", f"{cpu:.1f}, {cpu / count:.4f} an item")
    say("  memory of the coordinator", f"{used.own:.0f} MB")


def questions(folder: AuditFolder) -> None:
    """The three heaviest of the shipped queries."""
    taken = {name: seconds(lambda n=name: asked(folder, statement(n, "audit"))) for name in QUERIES}
    for name in sorted(taken, key=taken.__getitem__, reverse=True)[:3]:
        say(f"query {name}", f"{taken[name]:.2f} CPU s")


def page(folder: AuditFolder) -> None:
    """The dashboard."""
    texts: list[str] = []
    cpu = seconds(lambda: texts.append(render(folder, str(folder.path / "audit.html"))))
    say("dashboard", f"{cpu:.2f} CPU s, {len(texts[0].encode()) / 1e6:.1f} MB")


def seconds(work: Any) -> float:
    """CPU seconds of some work in this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def size(folder: Path) -> float:
    """MB of all files below a folder."""
    files = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return sum(file.stat().st_size for file in files) / 1e6


def say(what: str, how_much: str) -> None:
    """A line."""
    print(f"{what:44} {how_much}", flush=True)


@contextmanager
def work_folder(given: Path | None) -> Iterator[Path]:
    """The folder that is to be kept, or one that goes away."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)


def measure_items(home: Path, count: int, options: Sequence[str], ray: bool, small: bool) -> None:
    """An audit of so many pairs, then the same once more, with all of them known."""
    write_cases(home / "cases", count, small)
    out = home / "audit"
    command = [sys.executable, "-m", "gg_datalog", "audit", str(home / "cases"), "-o", str(out)]
    audited([*command, *options], out, "first run", ray)
    say("  on disk", f"{size(out):.1f} MB")
    audited([*command, *options], out, "second run")
    questions(AuditFolder(out))
    page(AuditFolder(out))


def measure_known(home: Path, count: int) -> None:
    """An audit of so many items that are all known."""
    folder = made(home / "audit")
    write_known(folder, known_items(count))
    ensure(folder)
    command = [sys.executable, __file__, "--known", str(count), "--lookup", str(folder.path)]
    audited(command, folder.path, "all known")
    questions(folder)
    page(folder)


def main() -> None:
    """Prints a line for each figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, metavar="N", help="so many pairs")
    parser.add_argument("--known", type=int, metavar="N", help="so many made-up items")
    parser.add_argument("--small", action="store_true", help="products instead of layers")
    parser.add_argument("--ray", metavar="ADDRESS|auto", help="as for audit")
    parser.add_argument("--jobs", metavar="N", help="as for audit")
    parser.add_argument("--keep-in", type=Path, metavar="DIR", help="keep what is written")
    parser.add_argument("--lookup", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.lookup:
        run_known(given.lookup, given.known)
        return
    passed = [
        f"--{name}={getattr(given, name)}" for name in ("ray", "jobs") if getattr(given, name)
    ]
    if given.items:
        with work_folder(given.keep_in) as home:
            measure_items(home, given.items, passed, given.ray is not None, given.small)
    if given.known:
        with TemporaryDirectory() as folder:
            measure_known(Path(folder), given.known)


if __name__ == "__main__":
    main()
