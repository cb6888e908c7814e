"""What is done for one item, in a process of its own: graphs in, a record out.

A record is a JSON object. Tasks come in two sorts. A ``capture`` makes a packed case of a program;
a ``check`` extracts, infers and judges, as ``gg-datalog verify`` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gg_datalog.foundation.errors import EngineError, GGError, InputError, is_memory

if TYPE_CHECKING:
    import duckdb

    from gg_datalog.result.report import Report
    from gg_datalog.result.store import Facts

Json = dict[str, Any]


def perform(task: Mapping[str, Any], scratch: Path) -> Json:
    """The record of a task; files that go with it lie in ``scratch``."""
    stages: list[Json] = []
    try:
        record = (_capture if task["does"] == "capture" else _check)(task, scratch, stages)
    except GGError as error:
        record = {"status": status_of(error), "reason": str(error)}
    except Exception as error:
        told = _told(error)
        record = {"status": "memory" if is_memory(error) else "crash", "reason": told}
    return {**record, "stages": stages}


def status_of(error: GGError) -> str:
    """``malformed`` where the item is at fault, ``timeout`` where the rules took too long."""
    if isinstance(error, EngineError):
        text = f"{error.what} {error.hint}"
        if "did not finish within" in error.what:
            return "timeout"
        return "memory" if "bad_alloc" in text or "MemoryError" in text else "crash"
    return "malformed" if isinstance(error, InputError) else "crash"


def _told(error: Exception) -> str:
    """An error that nobody foresaw: what, and where."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    at = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}{at}"


@contextmanager
def _stage(stages: list[Json], name: str) -> Iterator[None]:
    """Notes how long something takes, also where it fails."""
    began = perf_counter()
    try:
        yield
    finally:
        stages.append({"stage": name, "seconds": round(perf_counter() - began, 4)})


# ---- check ---------------------------------------------------------------------------------------
def _check(task: Mapping[str, Any], scratch: Path, stages: list[Json]) -> Json:
    from gg_datalog.audit.rows import is_kept, of_result, operators_of
    from gg_datalog.inference.run import Options, run_facts, run_given
    from gg_datalog.result.database import forget
    from gg_datalog.result.store import open_facts

    options = Options.given(baseline=None, **_run_options(task), replayable=task["replayable"])
    result = scratch / "result"
    operators: list[Json] = []

    def look(database: duckdb.DuckDBPyConnection, report: Report) -> None:
        operators.extend(operators_of(database))
        if not is_kept(report, task):
            forget(database)

    if task["kind"] == "facts":
        place = Path(task["place"])
        report = run_facts(place, result, options, _silent, look)
        facts = open_facts(place)
    else:
        with _stage(stages, "extract"):
            facts, options = _facts(task, scratch, options)
        report = run_given(facts, scratch / "facts", result, options, _silent, look=look)
    seconds = report.stats["seconds"].items()
    stages += [{"stage": name, "seconds": took} for name, took in seconds]
    with _stage(stages, "record"):
        return {**of_result(report, facts, result, task, scratch), "operators": operators}


def _silent(text: str) -> None:
    """Nobody watches."""


RUNNING = ("engine", "timeout", "partial", "layouts", "repairs", "confirm", "operators",
           "rules")  # fmt: skip


def _run_options(task: Mapping[str, Any]) -> Json:
    run = task["run"]
    return {name: run.get(name) for name in RUNNING}


def _facts(task: Mapping[str, Any], scratch: Path, options: Any) -> tuple[Facts, Any]:
    """The facts of graphs, and the options that are left."""
    from dataclasses import replace

    from gg_datalog.inference.run import repeated
    from gg_datalog.result.sources import extracted
    from gg_datalog.result.store import Facts, hashed

    files = _files(task, scratch)
    run = task["run"]
    files = replace(
        files, chosen=list(run.get("chosen", ())), partial=list(run.get("extract_partial", ()))
    )
    tables, case = extracted(files, options.operators, _silent)
    replayable = options.replayable + repeated("--operators", options.operators)
    options = replace(options, operators=(), replayable=replayable)
    return Facts(tables, case, hashed(tables)), options


def _files(task: Mapping[str, Any], scratch: Path) -> Any:
    from gg_datalog.audit.packing import unpack
    from gg_datalog.extract import case_files

    place = Path(task["place"])
    if task["kind"] == "text":
        return _texts(place, task["reading"], scratch)
    if place.is_file():
        unpack(place, scratch / "case")
        place = scratch / "case"
    return case_files(place)


def _texts(folder: Path, reading: Mapping[str, Any], scratch: Path) -> Any:
    from gg_datalog.commands.extract import Given

    seq = sorted(folder.glob(reading["sequential"]))
    ranks = sorted(folder.glob(reading["ranks"]), key=_numbered)
    ranks = [path for path in ranks if path not in seq]
    if len(seq) != 1 or not ranks:
        what = f"`{reading['sequential']}` fits {len(seq)} files, `{reading['ranks']}` {len(ranks)}"
        raise InputError(what, str(folder), "one sequential text and those of the ranks are needed")
    given = Given([*seq, *ranks], reading["reader"], reading.get("groups", ()))
    return given.files(scratch / "case", _silent)


def _numbered(path: Path) -> list[tuple[int, str]]:
    """Names in the order of the numbers in them: rank 2 comes before rank 10."""
    import re

    return [(int(p) if p.isdecimal() else -1, p) for p in re.split(r"(\d+)", path.name)]


# ---- capture -------------------------------------------------------------------------------------
def _capture(task: Mapping[str, Any], scratch: Path, stages: list[Json]) -> Json:
    from gg_datalog.audit.captures import Captured

    captured = Captured(task, scratch, _saved(scratch))
    with _stage(stages, "capture"):
        return captured.record()


def _saved(scratch: Path) -> Callable[[Json], None]:
    """Keeps what is known of the sources, should the process not live to tell."""
    import json

    def save(sources: Json) -> None:
        fresh = scratch / "sources.new"
        fresh.write_text(json.dumps(sources), encoding="utf-8")
        os.replace(fresh, scratch / "sources.json")

    return save
