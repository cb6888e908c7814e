"""SARIF 2.1.0: findings on source lines, for code scanning and editors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gg_datalog.diagnosis.findings import PAGES, Mistake
from gg_datalog.diagnosis.outcome import exit_code
from gg_datalog.reference.pages import as_markdown, as_text
from gg_datalog.reporting.origin import TOOL, Origin, origin
from gg_datalog.reporting.places import Place, place, uri
from gg_datalog.reporting.wording import MANY, counted, details
from gg_datalog.result.report import Finding, Report

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ROOT = "%SRCROOT%"
FINGERPRINT = "ggDatalog/v1"
LEVELS = ("error", "warning", "note")
Json = dict[str, Any]


def render(report: Report, result: Path) -> str:
    """A log of one run; its results are the findings."""
    of = origin(result)
    rules = rules_of(report.findings)
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    results = [result_of(found, index, of) for found in report.findings]
    return log(of.name, rules, _invocation(report), results, _about(report))


def log(
    name: str, rules: Sequence[Json], invocation: Json, results: Sequence[Json], properties: Json
) -> str:
    """The log of one run; code scanning keeps the alerts of runs of another name apart."""
    from gg_datalog.foundation.version import __version__

    driver = {"name": TOOL, "version": __version__, "semanticVersion": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"{TOOL}/{name}/"},
        "originalUriBaseIds": {ROOT: {"description": {"text": "where source paths start from"}}},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": properties,
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def rules_of(findings: Iterable[Finding]) -> list[Json]:
    """All codes, so that their numbers stay; and those of a later release that findings have."""
    rules = {page.code: _rule(page) for page in PAGES.values()}
    for found in findings:
        if found.code not in rules:
            title = {"text": found.title or found.code}
            rules[found.code] = {"id": found.code, "shortDescription": title, "help": title}
    return list(rules.values())


def _rule(page: Mistake) -> Json:
    return {
        "id": page.code,
        "shortDescription": {"text": page.title},
        "fullDescription": {"text": page.note},
        "help": {"text": as_text(page), "markdown": as_markdown(page)},
        "defaultConfiguration": {"level": page.level},
    }


def _invocation(report: Report) -> Json:
    return {
        "executionSuccessful": True,
        "exitCode": exit_code(report),
        "exitCodeDescription": report.verdict,
    }


def _about(report: Report) -> Json:
    return {
        "verdict": report.verdict,
        "summary": counted(report),
        "outputs": [asdict(output) for output in report.outputs],
        "assumptions": [asdict(row) for row in report.assumptions],
        "engine": dict(report.engine),
    }


def result_of(found: Finding, index: Mapping[str, int], of: Origin) -> Json:
    """A finding as a result; ``index`` has the numbers of the rules by their codes."""
    seq, dist = place(found.seq_source), place(found.dist_source)
    main = dist or seq or of.graph(found)
    document: Json = {
        "ruleId": found.code,
        "ruleIndex": index[found.code],
        "level": found.level if found.level in LEVELS else "warning",
        "message": {"text": _message(found, seq if dist else None)},
        "locations": [{**_physical(main), **_logical(found)}],
        "properties": _properties(found),
    }
    if seq is not None and dist is not None:
        message = {"text": "the line of the sequential program"}
        document["relatedLocations"] = [{"id": 1, **_physical(seq), "message": message}]
    if found.accepted:
        document["suppressions"] = [{"kind": "external", "justification": "the baseline has it"}]
    if found.fingerprint:
        document["partialFingerprints"] = {FINGERPRINT: found.fingerprint}
    document["locations"] = [location for location in document["locations"] if location]
    return document


def _message(found: Finding, related: Place | None) -> str:
    """The message, then what else is known; the sequential line as a link, where it is not the
    place of the result itself."""
    lines = [found.message]
    for label, text in details(found):
        if label == "sequential" and related is not None:
            shown = str(related).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
            text = f"[{shown}](1)"
        lines.append(f"{label}: {text}")
    return "\n".join(lines)


def _physical(at: Place | None) -> Json:
    if at is None:
        return {}
    name, relative = uri(at.path)
    artifact = {"uri": name, "uriBaseId": ROOT} if relative else {"uri": name}
    region: Json = {"startLine": at.line or 1}
    if at.code:
        region["snippet"] = {"text": at.code}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


def _logical(found: Finding) -> Json:
    names = list(dict.fromkeys(_names(found)))
    if not names:
        return {}
    rows = [{"name": name, "fullyQualifiedName": name, "kind": kind} for name, kind in names]
    return {"logicalLocations": rows}


def _names(found: Finding) -> Iterator[tuple[str, str]]:
    """Modules and nodes to show with a result; its properties have all of the nodes."""
    for name in (found.dist_module, found.module):
        if name:
            yield name, "module"
    for name in (*found.dist[:MANY], found.seq):
        if name:
            yield name, "variable"


def _properties(found: Finding) -> Json:
    """The fields that SARIF has no place for."""
    document = asdict(found)
    for placed in ("code", "level", "message", "fingerprint", "title"):
        del document[placed]
    return {name: value for name, value in document.items() if value not in (None, (), "", False)}
