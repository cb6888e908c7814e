"""The report of a run: one model, which becomes JSON or text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from gg_datalog.foundation.visible import visible_json
from gg_datalog.result.reasons import Evidence, Verdict

REPORT_VERSION = 1
REPORT = "report.json"  # in the folder of a result
EXIT_CODE: dict[str, int] = {Verdict.REFINES: 0, Verdict.DIFFERS: 1, Verdict.INCONCLUSIVE: 3}


@dataclass(frozen=True)
class Element:
    """An element that differs: its position in the output, its value in the sequential program and
    with the ranks; ``rank`` returns it, None where all ranks' tensors are added up."""

    rank: int | None
    at: tuple[int, ...]
    sequential: float | int | bool | str
    ranks: float | int | bool | str


@dataclass(frozen=True)
class Numbers:
    """What came of executing both programs for one output, on inputs of ``seed``.

    ``agrees`` is None where no one can tell: ``note`` says why, or what the programs do instead
    of giving numbers. ``max_abs`` and ``max_rel`` (relative to the largest element) say how far
    they are apart, ``elements`` where, ``seq`` and ``dist`` with their lines where the programs
    part first. ``command`` does it again. ``guesses`` are inputs whose guessed relation numbers
    refute: with another one they agree.
    """

    agrees: bool | None
    draws: int = 0
    seed: int = 0
    max_abs: float | str | None = None
    max_rel: float | str | None = None
    seq: str | None = None
    seq_source: str | None = None
    dist: tuple[str, ...] = ()
    dist_source: str | None = None
    elements: tuple[Element, ...] = ()
    note: str = ""
    command: str = ""
    guesses: tuple[str, ...] = ()


@dataclass(frozen=True)
class OutputRow:
    """A sequential output; ``relation`` is how the ranks' tensors make it up, where they do;
    ``name`` is what the program calls it, where a capture knows. Where it is ``accepted``, it is
    not rebuilt, and a baseline has every finding in its way. ``evidence`` says what its status
    rests on: ``proof``, ``numbers`` that differ, ``relations`` that cannot both hold, or
    ``none``."""

    seq: str
    status: str
    relation: str | None
    name: str = ""
    accepted: bool = False
    evidence: str = Evidence.NONE
    numbers: Numbers | None = None


@dataclass(frozen=True)
class Repair:
    """One collective or scalar that would close a gap.

    ``action`` is ``all_reduce``, ``reduce_scatter``, ``all_gather``, ``broadcast`` or ``scale``
    (by ``factor``), put in after ``nodes``, or instead of them, on ``ranks``. Where it was
    ``tried``, ``outputs`` are the sequential outputs that are then rebuilt and were not before.
    """

    text: str
    action: str
    nodes: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    factor: str | None = None
    tried: bool = False
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something to look at; names of distributed nodes carry their rank (``r1.mm_4``).

    ``trigger`` is what about the graphs makes it happen, ``effect`` what the outputs are instead,
    ``expected`` and ``found`` are relations, ``outputs`` the sequential outputs that it spoils.
    Where it is ``certain``, what is found and what was expected are both derived, and cannot be
    equal for all values. The ``fingerprint`` does not depend on how nodes are numbered; where it is
    ``accepted``, a baseline has it.
    """

    code: str
    level: str
    message: str
    seq: str | None = None
    seq_source: str | None = None
    dist: tuple[str, ...] = ()
    dist_source: str | None = None
    title: str = ""
    module: str | None = None
    dist_module: str | None = None
    ranks: tuple[int, ...] = ()
    trigger: str | None = None
    effect: str | None = None
    expected: str | None = None
    found: str | None = None
    outputs: tuple[str, ...] = ()
    repair: Repair | None = None
    fingerprint: str = ""
    accepted: bool = False
    certain: bool = False


@dataclass(frozen=True)
class Assumption:
    """Something that the verdict takes on trust."""

    kind: str
    text: str


@dataclass(frozen=True)
class Report:
    """Everything a run says. Where it is ``accepted``, the verdict is not ``refines``, but for
    nothing that a baseline does not have."""

    verdict: str
    outputs: list[OutputRow]
    findings: list[Finding]
    assumptions: list[Assumption]
    engine: Mapping[str, str]
    stats: Mapping[str, Any]
    accepted: bool = False


def as_json(report: Report) -> str:
    """The report as a JSON document."""
    document = {
        "schema_version": REPORT_VERSION,
        "verdict": report.verdict,
        **({"accepted": True} if report.accepted else {}),
        "outputs": [_document(row) for row in report.outputs],
        "findings": [_document(found) for found in report.findings],
        "assumptions": [asdict(row) for row in report.assumptions],
        "engine": dict(report.engine),
        "stats": dict(report.stats),
    }
    return visible_json(json.dumps(document, indent=1, ensure_ascii=False))


def from_json(text: str) -> Report:
    """The report that :func:`as_json` wrote.

    Raises:
        ValueError, KeyError, TypeError: the text is no such document.
    """
    document = json.loads(text)
    if document["schema_version"] != REPORT_VERSION:
        raise ValueError(f"schema version {document['schema_version']}, not {REPORT_VERSION}")
    return Report(
        document["verdict"],
        [_output(row) for row in document["outputs"]],
        [_finding(row) for row in document["findings"]],
        [Assumption(**row) for row in document["assumptions"]],
        document["engine"],
        document["stats"],
        document.get("accepted", False),
    )


def _output(row: Mapping[str, Any]) -> OutputRow:
    numbers = row.get("numbers")
    if numbers is not None:
        elements = tuple(Element(**_tuples(Element, e)) for e in numbers["elements"])
        numbers = Numbers(**_tuples(Numbers, numbers | {"elements": elements}))
    return OutputRow(**{**_tuples(OutputRow, row), "numbers": numbers})


def _finding(row: Mapping[str, Any]) -> Finding:
    repair = row.get("repair")
    given = {**row, "repair": None if repair is None else Repair(**_tuples(Repair, repair))}
    return Finding(**_tuples(Finding, given))


def _tuples(kind: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``kind`` that a row has, lists as tuples."""
    known = {field.name for field in fields(kind)} & row.keys()
    return {name: tuple(v) if isinstance(v := row[name], list) else v for name in known}


def _document(row: OutputRow | Finding) -> dict[str, Any]:
    """The fields of a row; a few are left out where there is nothing to say."""
    document = asdict(row)
    for key in ("accepted", "name", "numbers"):
        if not document.get(key, True):
            del document[key]
    return document
