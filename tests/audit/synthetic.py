"""An audit of many items, its rows made up: what reports show of it needs no engine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gg_datalog.audit.folder import AuditFolder, made
from gg_datalog.audit.lake import Lake
from gg_datalog.audit.planned import write_plan
from gg_datalog.audit.rows import _finding as as_dict
from gg_datalog.result.report import Finding, Repair, Report, as_json

Row = dict[str, Any]
HOSTILE = '</script><img src=x onerror="document.title=`owned`">{{ 7 * 7 }}<!--'
FINDINGS = [
    (
        "GG108",
        "each rank has only its part of `mm_1` (aten.mm.default): the reduction over the ranks is missing",
    ),
    (
        "GG119",
        "the gradient `grad_norm.weight` comes back as what each rank's own share gives to it",
    ),
    ("GG101", "no equivalent of `sort` (aten.sort.default) is found on the ranks"),
]
ENDED = {"malformed": "the sequential program: capture failed: TypeError", "timeout": "the item ran for 300 s",
         "memory": "the item had 4 GB", "crash": "its process died by signal 11", "crashes-on-rank": "rank 1: IndexError", "lost": "its worker ended, 3 times"}  # fmt: skip
STATS = {"facts": 1, "relations": 1, "rounds": None, "seconds": {}}
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


def audit(path: Path, programs: int, loose: int, hostile: bool = False) -> AuditFolder:
    """``programs`` times eight configurations, and ``loose`` cases in two folders, one in ten of
    all not run yet."""
    folder = made(path)
    planned = [*_matrix(programs, hostile), *_loose(loose)]
    plan = [{"position": place, **row} for place, row in enumerate(planned)]
    write_plan(folder, plan)
    rows = [_ended(place, row) for place, row in enumerate(planned) if place % 10 != 9]
    Lake(folder.rows, "s1of1").append(rows)
    for row in rows:
        if row["page"] and row["position"] < 200:
            (folder.reports / f"{row['key']}.html").write_text(f"<title>{row['position']}</title>")
    return folder


def _matrix(programs: int, hostile: bool) -> Iterator[Row]:
    for number in range(programs):
        program = f"models.family_{number // 20:02}.block_{number:04}"
        program += HOSTILE if hostile and number == 3 else ""
        for tensor in ("2", "4", "8", "16"):
            for sequence in ("false", "true"):
                axes = {"tensor": tensor, "sequence_parallel": sequence}
                named = ", ".join(f"{name}={value}" for name, value in axes.items())
                yield {
                    "item": f"{program}[{named}]", "entry": "nightly", "program": program,
                    "configuration": named, "kind": "program", "source": "models:pair",
                    "axes": [{"name": n, "value": v} for n, v in axes.items()],
                    "expected": ["inconclusive"] if number % 13 == 5 else ["refines"],
                }  # fmt: skip


def _loose(count: int) -> Iterator[Row]:
    for number in range(count):
        name = f"{'corpus' if number % 3 else 'zoo/cases'}/case-{number:04}"
        yield {"item": name, "entry": name, "program": name, "configuration": "", "kind": "case",
               "source": name, "axes": [], "expected": ["refines"]}  # fmt: skip


def _status(place: int, row: Row) -> str:
    if row["expected"] == ["inconclusive"]:
        return "inconclusive"
    if place // 8 % 7 == 3 and ("tensor=8" in row["item"] or "tensor=16" in row["item"]):
        return "does-not-refine"
    if place % 97 == 5:
        return "inconclusive"
    return [*ENDED][place // 211 % len(ENDED)] if place % 211 == 7 else "refines"


def _ended(place: int, row: Row) -> Row:
    status = _status(place, row)
    verdict = status in ("refines", "does-not-refine", "inconclusive")
    began = BEGAN + timedelta(seconds=place)
    findings = _findings(place, row) if status in ("does-not-refine", "inconclusive") else []
    seconds = 0.4 + (place * 7919 % 1000) ** 2 / 90000
    return row | {
        "position": place, "key": f"{place:064x}", "status": status, "reason": ENDED.get(status, ""),
        "engine": "clingo 5.8.0", "tool": "0.9.0", "torch": "2.13.0", "run": "r", "host": "here",
        "attempt": 1, "started": began, "finished": began + timedelta(seconds=seconds),
        "seconds": seconds, "cpu": seconds * 0.8, "memory": 200 * 2**20 + place * 1000,
        "outputs": [{"seq": "add", "name": "output_0", "status": "mapped" if status == "refines" else "unmapped"}] if verdict else None,
        "findings": [as_dict(found) for found in findings],
        "report": as_json(Report(status, [], findings, [], {"name": "clingo", "version": "5.8.0"}, STATS)) if verdict else None,
        "stages": [{"stage": name, "seconds": seconds * share} for name, share in (("capture", 0.5), ("extract", 0.1), ("engine", 0.3), ("record", 0.1))],
        "page": status in ("does-not-refine", "inconclusive"),
    }  # fmt: skip


def _findings(place: int, row: Row) -> list[Finding]:
    code, message = FINDINGS[place // 8 % 7 % 3]
    message += HOSTILE if HOSTILE in row["program"] else ""
    return [Finding(
        code, "error", message, fingerprint=f"{code}-{place // 8 % 5}",
        seq="add", seq_source="model.py:15 in forward: y = self.down(x)",
        dist=("r0.add",), dist_source="ranks.py:21 in forward: y = self.down(x)", outputs=("add",),
        repair=Repair("all-reduce (sum) over ranks 0-3 after `mm_1`", "all_reduce", ("r0.add",), tried=True),
    )]  # fmt: skip
