"""Baselines: findings that are known, and accepted until they are gone.

An accepted finding stays a finding and the verdict stays what it is; only the exit code changes.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gg_datalog.configured import BESIDE
from gg_datalog.errors import InputError
from gg_datalog.report import Finding, OutputRow, Report

BASELINE_VERSION = 1
EXCERPT = 160
Key = tuple[str, str]  # code and fingerprint
AGAIN = "`--write-baseline` writes a new one"


@dataclass(frozen=True)
class Entry:
    """An accepted finding. ``outputs`` are the outputs it may spoil, by the program's names for
    them where a capture knows; ``count`` is how many findings with this fingerprint there are."""

    fingerprint: str
    code: str
    message: str = ""
    outputs: tuple[str, ...] = ()
    count: int = 1
    date: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Baseline:
    """The entries of a baseline file."""

    entries: tuple[Entry, ...] = ()

    def accept(self, report: Report) -> Report:
        """The report with everything marked that this baseline accepts; the verdict stays.

        An output is accepted where every finding that spoils it is, and at least one names it.
        While a finding that says of no output what it spoils is not accepted, none is.
        """
        left = Counter({_key(entry): entry.count for entry in self.entries})
        findings = [replace(f, accepted=self._accepts(f, report, left)) for f in report.findings]
        outputs = [replace(row, accepted=_accepted(row, findings)) for row in report.outputs]
        marked = replace(report, findings=findings, outputs=outputs)
        return replace(marked, accepted=_all_accepted(marked))

    def _accepts(self, finding: Finding, report: Report, left: Counter[Key]) -> bool:
        entry = self.entry(finding)
        if entry is None or left[_key(entry)] == 0:
            return False
        left[_key(entry)] -= 1
        return not _further(finding, entry, report)

    def entry(self, finding: Finding) -> Entry | None:
        """The entry that knows a finding; a finding without fingerprint has none."""
        if not finding.fingerprint:
            return None
        return next((e for e in self.entries if _key(e) == _key(finding)), None)

    def stale(self, report: Report) -> list[Entry]:
        """Entries of which no finding is left."""
        there = {_key(f) for f in report.findings}
        return [e for e in self.entries if _key(e) not in there]

    def renewed(self, report: Report) -> Baseline:
        """The baseline that accepts what is in a report now; reasons and dates are kept."""
        wanted: dict[Key, list[Finding]] = {}
        for finding in report.findings:
            if finding.fingerprint and (finding.level != "note" or decides(finding)):
                wanted.setdefault(_key(finding), []).append(finding)
        return Baseline(tuple(self._entry(wanted[key], report) for key in sorted(wanted)))

    def _entry(self, same: Sequence[Finding], report: Report) -> Entry:
        first = same[0]
        old = self.entry(first)
        labels = sorted({label for f in same for label in _labels(f, report)})
        return Entry(
            first.fingerprint,
            first.code,
            _excerpt(first.message),
            tuple(labels),
            len(same),
            old.date if old else datetime.now(UTC).date().isoformat(),
            old.reason if old else "",
        )

    def said(self, report: Report) -> Iterator[str]:
        """What a person should know of the baseline: what is stale, what outgrew it, and what
        no baseline can accept. ``report`` is one that it was applied to."""
        for e in self.stale(report):
            what = f"{e.code} {e.message} [{e.fingerprint}]"
            yield f"a finding of the baseline no longer occurs: {what}"
        for finding in report.findings:
            entry = self.entry(finding)
            if entry is not None and (further := _further(finding, entry, report)):
                names = ", ".join(f"`{name}`" for name in further)
                yield f"{finding.code} of the baseline spoils further outputs now: {names}"
        if nameless := [f.code for f in report.findings if decides(f) and not f.fingerprint]:
            codes = ", ".join(dict.fromkeys(nameless))
            yield f"findings without fingerprint cannot be accepted: {codes}"
        for row in report.outputs:
            if row.status != "mapped" and not any(_spoils(f, row) for f in report.findings):
                yield f"no finding names output `{row.name or row.seq}`: it cannot be accepted"


def _key(of: Entry | Finding) -> Key:
    return of.code, of.fingerprint


def decides(finding: Finding) -> bool:
    """Whether a finding is a reason why an output is not rebuilt."""
    return finding.code not in BESIDE


def _spoils(finding: Finding, row: OutputRow) -> bool:
    return decides(finding) and row.seq in finding.outputs


def _all_accepted(report: Report) -> bool:
    if report.verdict == "refines":
        return False
    reasons = [found for found in report.findings if decides(found)]
    spoiled = [row for row in report.outputs if row.status != "mapped"]
    accepted = [*(f.accepted for f in reasons), *(row.accepted for row in spoiled)]
    return bool(reasons) and all(accepted)


def _accepted(row: OutputRow, findings: Sequence[Finding]) -> bool:
    if row.status == "mapped":
        return False
    spoilers = [f for f in findings if _spoils(f, row)]
    vague = [f for f in findings if decides(f) and not f.outputs]
    return bool(spoilers) and all(f.accepted for f in (*spoilers, *vague))


def _labels(finding: Finding, report: Report) -> list[str]:
    """The outputs that a finding spoils, as the program calls them where that is known."""
    names = [row.name or row.seq for row in report.outputs if row.seq in finding.outputs]
    known = {row.seq for row in report.outputs}
    return [*names, *(seq for seq in finding.outputs if seq not in known)]


def _further(finding: Finding, entry: Entry, report: Report) -> list[str]:
    return sorted(set(_labels(finding, report)) - set(entry.outputs))


def _excerpt(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= EXCERPT else text[: EXCERPT - 3] + "..."


# ---- the file ------------------------------------------------------------------------------------
def load_baseline(path: Path) -> Baseline:
    """The baseline in a file.

    Raises:
        InputError: there is none, or it is not usable.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Baseline(tuple(_entries(document)))
    except FileNotFoundError:
        raise InputError("there is no such baseline", str(path), AGAIN) from None
    except OSError as error:
        what = f"the baseline cannot be read: {error.strerror}"
        raise InputError(what, str(path), "give the path of a file") from None
    except RecursionError:
        raise InputError("this is no baseline: nested too deeply", str(path), AGAIN) from None
    except ValueError as error:
        raise InputError(f"this is no baseline: {error}", str(path), AGAIN) from None


def check_place(path: Path) -> None:
    """Refuses a path where no baseline can be written, before any work is done."""
    folder = next(place for place in path.absolute().parents if place.exists())
    what = None
    if path.is_dir():
        what = "there is a folder of this name"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        what = "the baseline may not be written"
    if what is not None:
        raise InputError(what, str(path), "give another path to --baseline")


def save_baseline(baseline: Baseline, path: Path) -> None:
    """Writes a baseline file, whole or not at all.

    Raises:
        InputError: it cannot be written.
    """
    from gg_datalog.reporting.targets import replace_file

    rows = [asdict(entry) for entry in baseline.entries]
    for row in rows:
        if row["count"] == 1:
            del row["count"]
    document = {"schema_version": BASELINE_VERSION, "entries": rows}
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    try:
        replace_file(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        what = f"the baseline cannot be written: {error.strerror}"
        raise InputError(what, str(path), "give another path to --baseline") from None


def _entries(document: Any) -> Iterator[Entry]:
    if not isinstance(document, Mapping) or not isinstance(document.get("entries"), list):
        raise ValueError("not an object with a list `entries`")
    if document.get("schema_version") != BASELINE_VERSION:
        raise ValueError(
            f"schema version {document.get('schema_version')!r}, not {BASELINE_VERSION}"
        )
    seen = set()
    for number, row in enumerate(document["entries"]):
        entry = _read(row, f"entry {number}")
        if _key(entry) in seen:
            raise ValueError(f"entry {number}: `{entry.fingerprint}` is there already")
        seen.add(_key(entry))
        yield entry


def _read(row: Any, where: str) -> Entry:
    if not isinstance(row, Mapping):
        raise ValueError(f"{where} is not an object")
    names = [field.name for field in fields(Entry)]
    for key, value in row.items():
        if key not in names:
            raise ValueError(f"{where} has an unknown key `{key}` (known: {', '.join(names)})")
        if not _fits(key, value):
            raise ValueError(f"{where}: `{key}` is {value!r}")
    if not row.get("fingerprint") or not row.get("code"):
        raise ValueError(f"{where} has no fingerprint or no code")
    given: dict[str, Any] = {k: tuple(v) if k == "outputs" else v for k, v in row.items()}
    return Entry(**given)


def _fits(key: str, value: Any) -> bool:
    if key == "outputs":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if key == "count":
        return type(value) is int and value > 0
    return isinstance(value, str)
