"""SARIF 2.1.0 of an audit: one run, whose results are the findings of all items, each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gg_datalog.audit.database import asked, connected
from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.items import PENDING, VERDICTS
from gg_datalog.audit.summary import headline, read_status
from gg_datalog.foundation.folders import MANIFEST
from gg_datalog.foundation.visible import visible
from gg_datalog.reporting.origin import Origin
from gg_datalog.reporting.sarif import log, result_of, rules_of
from gg_datalog.reporting.wording import listed
from gg_datalog.result.printable import printable
from gg_datalog.result.report import Finding, from_json

Json = dict[str, Any]
BATCH = 100  # reports in memory at a time
REPORTS = """
    SELECT i.item, i.kind, i.source, i.as_expected, r.report
    FROM items i JOIN results r ON r.key = i.key WHERE len(r.findings) > 0 ORDER BY i.position"""
FAILED = f"""
    SELECT item, status, as_expected, coalesce(reason, '') FROM items
    WHERE status NOT IN {(*VERDICTS, PENDING)} ORDER BY position"""


@dataclass
class Shared:
    """A finding, and the items that have it; whether none of them is as expected otherwise."""

    finding: Finding
    of: Origin
    items: list[str] = field(default_factory=list)
    expected: bool = True


def render(folder: AuditFolder, _: str) -> str:
    """A log of one run; items that have no verdict are notifications of it."""
    found = _shared(folder)
    rules = rules_of(one.finding for one in found)
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    results = [_result(one, index) for one in found]
    status = read_status(folder)
    about = {"statuses": status.counts, "unexpected": status.unexpected, "total": status.total}
    name = visible(folder.path.absolute().name)
    return log(f"audit/{name}", rules, _invocation(folder), results, about)


def _shared(folder: AuditFolder) -> Sequence[Shared]:
    """Findings that have fingerprint, message and line in common are one."""
    found: dict[tuple[Any, ...], Shared] = {}
    for item, kind, source, expected, finding in _findings(folder):
        at = finding.dist_source or finding.seq_source or source
        key = (finding.code, finding.fingerprint, finding.message, at)
        shared = found.setdefault(key, Shared(finding, _origin(kind, source)))
        shared.items.append(item)
        shared.expected = shared.expected and expected
    return list(found.values())


def _findings(folder: AuditFolder) -> Iterator[tuple[str, str, str, bool, Finding]]:
    with connected(folder) as database:
        asked = database.execute(REPORTS)
        while rows := asked.fetchmany(BATCH):
            for item, kind, source, expected, report in rows:
                for finding in printable(from_json(report)).findings:
                    yield visible(item), kind, source, expected, finding


def _origin(kind: str, source: str) -> Origin:
    """Where to look at a finding that has no code line: the graph, or the program's module."""
    if kind == "program":
        return Origin(source.partition(":")[0].replace(".", "/") + ".py", ())
    return Origin(f"{source}/{MANIFEST if kind == 'facts' else 'seq.json'}", ())


def _result(one: Shared, index: dict[str, int]) -> Json:
    document = result_of(one.finding, index, one.of)
    count = len(one.items)
    text = f"in {count} item{'s' * (count != 1)}: {listed(one.items)}"
    document["message"]["text"] += f"\n{text}"
    document["occurrenceCount"] = count
    document["properties"]["items"] = one.items
    if one.expected and "suppressions" not in document:
        reason = "every item that has it ends as the plan expects"
        document["suppressions"] = [{"kind": "external", "justification": reason}]
    return document


def _invocation(folder: AuditFolder) -> Json:
    """How it all ended, with a notification for each item that has no verdict."""
    status = read_status(folder)
    failed = asked(folder, FAILED).rows
    notes = [
        {
            "level": "note" if expected else "error",
            "message": {"text": visible(f"{item}: {ended}" + (f": {why}" if why else ""))},
        }
        for item, ended, expected, why in failed
    ]
    return {
        "executionSuccessful": all(expected for _, _, expected, _ in failed),
        "exitCode": status.exit_code(),
        "exitCodeDescription": headline(status),
        "toolExecutionNotifications": notes,
    }
