"""The outputs in question of a run, executed: a process of its own, which reads what it is asked on
stdin and writes a line of JSON after every draw.

    python -P -m gg_datalog.replay.confirm < asked.json

A line holds what is known by then, so that of a process that is stopped the last one counts:
``draws``, ``outputs`` by their place, and ``problem`` where nothing can be executed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from gg_datalog.extract.case import CaseFiles
from gg_datalog.extract.facts import build_sides
from gg_datalog.extract.table import load_table
from gg_datalog.foundation.errors import GGError
from gg_datalog.inference.confirmation import ENOUGH, NOTHING, SEED, WANTED
from gg_datalog.replay.calls import NotExecuted
from gg_datalog.replay.collectives import Mismatch
from gg_datalog.replay.command import SMALL, has_room, judged_case
from gg_datalog.replay.derived import OPEN
from gg_datalog.replay.documents import load
from gg_datalog.replay.dtypes import exact
from gg_datalog.replay.shrink import Shrunk, shrink
from gg_datalog.replay.trial import FAILURES, Draw, Judged, Replayed, draws, rests_on
from gg_datalog.replay.unknown import guessed_names, other_guesses
from gg_datalog.result.report import Report, from_json
from gg_datalog.result.sources import remembered

Json = dict[str, Any]


def confirmed(asked: Mapping[str, Any]) -> Iterator[Json]:
    """What is known after every draw."""
    try:
        yield from _confirmed(asked)
    except (NotExecuted, GGError) as problem:
        yield {"problem": str(problem)}
    except MemoryError:
        yield {"problem": "it takes more memory than it may have"}


def _confirmed(asked: Mapping[str, Any]) -> Iterator[Json]:
    files, operators = remembered(asked["case"], "extract again")
    files = replace(files, partial=[*files.partial, *asked["partial"]])
    report = from_json(asked["report"])
    table = load_table(operators)
    captured = load(files)
    whole = shrink(captured, table, smaller=False)
    fitted = whole
    if whole.captured > SMALL:
        with suppress(AssertionError, *FAILURES):  # shapes that do not add up
            fitted = shrink(captured, table)
    if not has_room(fitted):
        raise NotExecuted(f"it takes {2 * fitted.now / 1e9:.1f} GB of memory")
    with exact(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if fitted.sizes:
            small = fitted.case.write(folder / "case")
            judged = judged_case(small, fitted, operators, folder / "facts", lambda text: None)
        else:
            judged = _as_run(files, fitted, operators, Path(asked["result"]), report)
        odd = {
            place
            for place, row in enumerate(report.outputs)
            if row.status != judged.statuses[place]
        }
        returned = {p for p, row in enumerate(judged.case.outputs) if row["dist"]}
        places = [p for p in asked["outputs"] if p not in odd and p in returned]
        found = Replayed(report, SEED)
        if not places:
            raise NotExecuted(NOTHING)
        yield from _drawn(found, judged, table, places, guessed_names(files.about))


def _as_run(
    files: CaseFiles, fitted: Shrunk, operators: list[Path], result: Path, report: Report
) -> Judged:
    """The case in its own sizes, with what the run derived of it."""
    built = build_sides(files, operators, lambda text: None)
    return Judged.by(result, fitted, built, report)


def _drawn(
    found: Replayed, judged: Judged, table: Any, places: list[int], guessed: set[str]
) -> Iterator[Json]:
    rests: dict[int, Json] = {
        place: {"unknown": names}
        for place in places
        if (names := rests_on(judged, place, table, guessed))
    }
    try:
        for number, (_, one) in enumerate(draws(judged, table, found.seed)):
            left = [place for place in places if found.agrees(place) is not False]
            if number == WANTED or not left:
                break
            one.check_outputs(found, left)
            yield _line(found, places, rests)
        for place in _guesses(found, judged, table, places, guessed):
            rests.setdefault(place, {})["guessed"] = names_of(judged, guessed)
    except Mismatch as problem:
        found.note = str(problem)
    yield _line(found, places, rests)


def _guesses(
    found: Replayed, judged: Judged, table: Any, places: list[int], guessed: set[str]
) -> list[int]:
    """Outputs that differ, and do not where something is guessed in another way."""
    differ = [place for place in places if found.agrees(place) is False]
    other = other_guesses(judged.case, guessed)
    if not differ or other is None:
        return []
    case = replace(judged.fitted, case=other[0])
    again = Replayed(found.report, SEED)
    for number in range(ENOUGH):
        left = [place for place in differ if again.agrees(place) is not False]
        Draw(replace(judged, case=other[0], fitted=case), other[0], table, number).check_outputs(
            again, left
        )
    return [place for place in differ if again.agrees(place) and again.agreed[place] == ENOUGH]


def names_of(judged: Judged, guessed: set[str]) -> list[str]:
    """The inputs for which there is another guess."""
    other = other_guesses(judged.case, guessed)
    return [] if other is None else other[1]


def _line(found: Replayed, places: list[int], rests: Mapping[int, Json]) -> Json:
    """``rests`` has per output what its numbers rest on."""
    return {
        "draws": found.draws,
        "breaks_off": found.note,
        "outputs": {str(p): _output(found, p) | rests.get(p, {}) for p in places},
    }


def _output(found: Replayed, place: int) -> Json:
    numbers = found.numbers.get(place, OPEN)
    return {
        "agrees": numbers.fits,
        "draws": found.agreed[place],
        "max_abs": _rounded(numbers.max_abs),
        "max_rel": _rounded(numbers.max_rel),
        "first": found.divergence.get(place),
        "elements": [asdict(element) for element in found.shown.get(place, [])],
    }


def _rounded(value: float | None) -> float | str | None:
    """A few digits: the last ones of a sum depend on the machine."""
    if value is None or abs(value) == float("inf"):
        return value if value is None else "inf"
    return float(f"{value:.4g}")


def limit_memory(limit: int) -> None:
    """The process gets no more than that many bytes of its own, and ends with its parent."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def main() -> None:
    """Reads what is asked, and writes what is found."""
    asked = json.load(sys.stdin)
    limit_memory(int(asked["memory"]))
    torch.set_num_threads(1)
    for line in confirmed(asked):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
