"""The report of a run: one model, which becomes JSON or text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

REPORT_VERSION = 1
EXIT_CODE = {"refines": 0, "does-not-refine": 1, "inconclusive": 3}


@dataclass(frozen=True)
class OutputRow:
    """A sequential output; ``relation`` is how the ranks' tensors make it up, where they do;
    ``name`` is what the program calls it, where a capture knows."""

    seq: str
    status: str
    relation: str | None
    name: str = ""


@dataclass(frozen=True)
class Finding:
    """Something to look at; names of distributed nodes carry their rank (``r1.mm_4``)."""

    code: str
    level: str
    message: str
    seq: str | None = None
    seq_source: str | None = None
    dist: tuple[str, ...] = ()
    dist_source: str | None = None


@dataclass(frozen=True)
class Assumption:
    """Something that the verdict takes on trust."""

    kind: str
    text: str


@dataclass(frozen=True)
class Report:
    """Everything a run says."""

    verdict: str
    outputs: list[OutputRow]
    findings: list[Finding]
    assumptions: list[Assumption]
    engine: Mapping[str, str]
    stats: Mapping[str, Any]


def as_json(report: Report) -> str:
    """The report as a JSON document."""
    findings = [
        {
            "code": f.code,
            "level": f.level,
            "seq": f.seq,
            "seq_source": f.seq_source,
            "dist": list(f.dist),
            "dist_source": f.dist_source,
            "message": f.message,
        }
        for f in report.findings
    ]
    document = {
        "schema_version": REPORT_VERSION,
        "verdict": report.verdict,
        "outputs": [_output(row) for row in report.outputs],
        "findings": findings,
        "assumptions": [asdict(row) for row in report.assumptions],
        "engine": dict(report.engine),
        "stats": dict(report.stats),
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def _output(row: OutputRow) -> dict[str, Any]:
    document = asdict(row)
    if not row.name:
        del document["name"]
    return document
