"""A worker: a process with everything imported, which forks another one for every item.

Run as ``python -m gg_datalog.audit.worker DESCRIPTOR SETTINGS``. Over the socket of that number it
gets tasks, a JSON object a line, and answers each with a line. It has one thread, runs nothing of
the user's itself, and ends, with all processes of the item, when the socket is closed.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from gg_datalog.audit.limits import Limits
from gg_datalog.audit.processes import adopt_orphans, end_descendants
from gg_datalog.audit.watching import Abandoned, cleared, watch
from gg_datalog.audit.work import perform

WARM = (
    "dateutil.relativedelta",
    "duckdb",
    "encodings.unicode_escape",
    "gg_datalog.audit.packing",
    "gg_datalog.audit.rows",
    "gg_datalog.audit.schema",
    "gg_datalog.commands.verify",
    "jinja2",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.parquet",
)
# Of these rooms everything: what an item needs of them depends on what is wrong with it.
ROOMS = ("diagnosis", "engine", "extract", "inference", "proofs", "repairs", "reporting", "result")
# One thread each: several items run side by side, and a process that forks should have no others.
QUIET = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def main() -> None:
    """Runs what comes over the socket."""
    number, settings = int(sys.argv[1]), json.loads(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us decides
    adopt_orphans()
    line = socket.socket(fileno=number)
    line.set_inheritable(False)
    warm(settings)
    _say(line, {"ready": os.getpid(), "threads": len(os.listdir("/proc/self/task"))})
    with line.makefile("rb") as tasks:
        for text in tasks:
            try:
                answer = run(json.loads(text), line.fileno())
            except Abandoned:
                break
            _say(line, answer)
    end_descendants()


def _say(line: socket.socket, answer: Mapping[str, Any]) -> None:
    try:
        line.sendall(json.dumps(answer).encode() + b"\n")
    except (BrokenPipeError, ConnectionResetError):
        raise SystemExit(0) from None


def warm(settings: Mapping[str, Any]) -> None:
    """Imports what every item needs: once, instead of for each. What is there then is not looked
    at again for garbage, here or in an item, and so stays shared."""
    from gg_datalog.extract.signature import signature
    from gg_datalog.extract.table import load_table
    from gg_datalog.reference.views import empty_result
    from gg_datalog.result.comments import relation_comments

    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    os.dup2(2, 1)  # modules of the user may print
    for name in (*WARM, *_rooms()):
        import_module(name)
    load_table()
    signature("aten.mm.default")
    relation_comments()
    _translated(settings.get("rules") or ())
    with empty_result():
        pass  # the empty database that all results begin as is in memory now
    if settings.get("captures"):
        from gg_datalog.commands.capture import tracing

        tracing()
    sys.path[:0] = settings.get("path", [])
    for name in settings.get("preload", ()):
        import_module(name)
    gc.collect()
    gc.freeze()


def _rooms() -> Iterator[str]:
    for room in ROOMS:
        package = import_module(f"gg_datalog.{room}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if module.name != "gg_datalog.engine.clingo_worker":  # a program, not a module
                yield module.name


def _translated(others: Iterable[str]) -> None:
    """The rules, and other ones in these folders, as the engine of clingo needs them, kept in
    memory."""
    from gg_datalog.datalog import program_path
    from gg_datalog.engine.kept import kept
    from gg_datalog.engine.translate import translated

    for path in [Path(folder, "main.dl") for folder in others] or [program_path()]:
        kept("clingo", path, translated)


def run(task: Mapping[str, Any], line: int) -> dict[str, Any]:
    """The answer to a task: its record, and what it used."""
    scratch = cleared(Path(task["scratch"]))
    limits = Limits(**task["limits"])
    record, used = watch(lambda: perform(task, scratch), scratch, limits, line)
    sources = scratch / "sources.json"
    if sources.exists():
        record["sources"] = json.loads(sources.read_text(encoding="utf-8"))
    _tidy(scratch, set(record.get("files", {}).values()))
    return {"task": task["id"], "record": record, "used": used}


def _tidy(scratch: Path, wanted: set[str]) -> None:
    """Nothing stays but what goes with the record."""
    for entry in scratch.iterdir():
        if entry.name not in wanted:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
