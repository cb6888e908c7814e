"""The rows of items, from what workers answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from gg_datalog.audit.items import Item, worded
from gg_datalog.audit.key import rules_hash

if TYPE_CHECKING:
    from gg_datalog.audit.jobs import Job
    from gg_datalog.audit.known import Outcome
    from gg_datalog.audit.pool import Answer

Json = dict[str, Any]
RESULTS = ("facts", "derived", "outputs", "findings", "assumptions", "operators", "report", "page",
           "engine")  # fmt: skip


def said_of(item: Item) -> Json:
    """The fields of a row that the plan gives."""
    axes = [{"name": name, "value": worded(v)} for name, v in item.configuration.items()]
    return {
        "item": item.name,
        "entry": item.entry,
        "program": item.program,
        "configuration": item.column,
        "axes": axes,
        "kind": item.kind,
        "source": item.source,
    }


def row_of(job: Job, answer: Answer, record: Json, run: str) -> Json:
    """The row of an item that was run."""
    used, now = answer.used, datetime.now(UTC)
    noted = job.note if record is not answer.record or answer.task["does"] == "check" else {}
    seconds = used.get("wall", 0.0) + noted.get("seconds", 0.0)
    stages = [*noted.get("stages", ()), *record.get("stages", ())]
    return {
        **said_of(job.item),
        **_made_by(job, run),
        **{name: record.get(name) for name in RESULTS},
        "status": record["status"],
        "reason": record["reason"],
        "host": answer.host,
        "started": now - timedelta(seconds=seconds),
        "finished": now,
        "seconds": round(seconds, 3),
        "cpu": round(used.get("cpu", 0.0) + noted.get("cpu", 0.0), 3),
        "memory": max(used.get("memory", 0), noted.get("memory", 0)),
        "stages": stages,
        "limits": [
            {"name": name, "allowed": float(allowed), "used": used.get(name)}
            for name, allowed in job.item.limits.document().items()
        ],
        "printed": used.get("printed", ""),
    }


def _made_by(job: Job, run: str) -> Json:
    return {
        "key": job.key,
        "content": job.content,
        "capture_key": job.capture_key,
        "tool": _version("gg-datalog"),
        "torch": _version("torch"),
        "rules": rules_hash(job.item.run.get("rules")),
        "run": run,
        "attempt": job.attempt,
    }


@cache
def _version(package: str) -> str:
    if package == "gg-datalog":
        from gg_datalog.foundation.version import __version__

        return __version__
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def mention(job: Job, found: Outcome, run: str) -> Json:
    """The row of an item that ends as another one did."""
    now = datetime.now(UTC)
    given = {"status": found.status, "like": found.item, "started": now, "finished": now}
    return {**said_of(job.item), **_made_by(job, run), **given}


def captured_note(answer: Answer) -> Json:
    """What is kept of a capture."""
    record, used = answer.record, answer.used
    return {
        "status": record["status"],
        "reason": record.get("reason", ""),
        "content": record.get("content", ""),
        "sources": record.get("sources", {"files": {}, "packages": {}}),
        "stages": record.get("stages", []),
        "seconds": used.get("wall", 0.0),
        "cpu": used.get("cpu", 0.0),
        "memory": used.get("memory", 0),
    }
