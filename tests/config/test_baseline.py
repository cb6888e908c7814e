"""What a baseline accepts, and what it never does. Reports here are written by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gg_datalog.diagnosis.findings import BESIDE, PAGES, REPLAYED
from gg_datalog.diagnosis.outcome import exit_code
from gg_datalog.foundation.errors import InputError
from gg_datalog.result.report import Finding, OutputRow, Report, as_json, from_json
from gg_datalog.settings.baseline import Baseline, Entry
from gg_datalog.settings.baseline_file import load_baseline, save_baseline
from gg_datalog.settings.policy import Policy


def _finding(code: str = "GG108", mark: str = "aa", outputs: tuple[str, ...] = ("y",)) -> Finding:
    return Finding(code, PAGES[code].level, f"{code} is so", outputs=outputs, fingerprint=mark)


def _report(*findings: Finding, verdict: str = "does-not-refine", **statuses: str) -> Report:
    rows = [OutputRow(seq, status, None) for seq, status in (statuses or {"y": "unmapped"}).items()]
    engine = {"name": "clingo", "version": "5"}
    return Report(verdict, rows, list(findings), [], engine, {"seconds": {}})


def _accepted(baseline: Baseline, report: Report) -> int:
    """The exit code with this baseline; the verdict never changes."""
    found = baseline.accept(report)
    assert found.verdict == report.verdict
    assert [row.status for row in found.outputs] == [row.status for row in report.outputs]
    assert exit_code(found) == (0 if found.accepted else exit_code(report))
    return exit_code(found)


AA = Entry("aa", "GG108", outputs=("y",))


def test_a_known_finding_does_not_fail_the_run() -> None:
    found = Baseline((AA,)).accept(_report(_finding()))
    assert found.accepted and found.findings[0].accepted and found.outputs[0].accepted
    assert (found.verdict, exit_code(found)) == ("does-not-refine", 0)
    document = json.loads(as_json(found))
    assert (document["verdict"], document["accepted"]) == ("does-not-refine", True)
    assert from_json(as_json(found)) == found


NOT_ACCEPTED = {
    "a new finding": _report(_finding(), _finding("GG101", "bb")),
    "the same code elsewhere": _report(_finding(mark="bb")),
    "another code": _report(_finding("GG101")),
    "no fingerprint": _report(_finding(mark="")),
    "an output that no finding names": _report(_finding(), y="unmapped", z="unmapped"),
    "a finding that names no output": _report(_finding(outputs=())),
    "a further finding that names no output": _report(_finding(), _finding("GG110", "", ())),
    "further outputs": _report(_finding(outputs=("y", "z")), y="unmapped", z="unmapped"),
    "one more of the same": _report(_finding(), _finding()),
    "no finding at all": _report(),
    "a code that nobody has heard of": _report(_finding(), replace(_finding(), code="GG199")),
}


@pytest.mark.parametrize("name", NOT_ACCEPTED)
def test_what_is_not_accepted(name: str) -> None:
    assert _accepted(Baseline((AA,)), NOT_ACCEPTED[name]) == 1


def test_an_entry_without_fingerprint_accepts_nothing() -> None:
    entry = replace(AA, fingerprint="")
    assert _accepted(Baseline((entry,)), _report(_finding(mark=""))) == 1


def test_what_is_beside_the_verdict_needs_no_entry() -> None:
    beside = [_finding(code, "", ()) for code in ("GG130", "GG131", "GG132", "GG133")]
    assert _accepted(Baseline((AA,)), _report(_finding(), *beside)) == 0


def test_inconclusive_is_accepted_alike() -> None:
    report = _report(_finding("GG120"), verdict="inconclusive", y="inconclusive")
    assert _accepted(Baseline((replace(AA, code="GG120"),)), report) == 0
    assert _accepted(Baseline((AA,)), report) == 3


def test_which_codes_are_beside_the_verdict() -> None:
    """Were one of them an error, or one of the others only a note, this would be wrong."""
    levels = {code: page.level for code, page in PAGES.items()}
    assert BESIDE and all(levels[code] != "error" for code in BESIDE)
    others = [code for code in levels if code not in (*BESIDE, *REPLAYED)]
    assert all(levels[code] != "note" for code in others)


def test_counts() -> None:
    twice = _report(_finding(), _finding())
    assert _accepted(Baseline((replace(AA, count=2),)), twice) == 0
    assert _accepted(Baseline((replace(AA, count=2),)), _report(_finding())) == 0


def test_the_program_s_names_of_outputs_count() -> None:
    """Nodes are numbered anew with every change; the names that a program gives stay."""
    report = _report(_finding(outputs=("add_7",)), add_7="unmapped")
    named = replace(report, outputs=[replace(report.outputs[0], name="loss")])
    assert _accepted(Baseline((replace(AA, outputs=("loss",)),)), named) == 0
    assert _accepted(Baseline((replace(AA, outputs=("add_7",)),)), named) == 1


def test_renewed_keeps_reasons_and_leaves_out_what_is_gone(tmp_path: Path) -> None:
    old = Baseline((replace(AA, reason="wanted", date="2020-01-02"), Entry("gone", "GG101")))
    report = _report(_finding(), _finding("GG101", "bb"), _finding("GG131", "cc", ()), y="unmapped")
    new = old.renewed(report)
    assert [(e.code, e.fingerprint, e.reason) for e in new.entries] == [
        ("GG101", "bb", ""),
        ("GG108", "aa", "wanted"),
    ]
    assert new.entries[1].date == "2020-01-02" < new.entries[0].date
    assert _accepted(new, report) == 0
    save_baseline(new, tmp_path / "deep" / "known.json")
    assert load_baseline(tmp_path / "deep" / "known.json") == new
    assert [e.fingerprint for e in old.stale(report)] == ["gone"]


def test_what_is_said_of_a_baseline() -> None:
    old = Baseline((AA, Entry("gone", "GG101", "it was so")))
    assert list(old.said(NOT_ACCEPTED["further outputs"])) == [
        "a finding of the baseline no longer occurs: GG101 it was so [gone]",
        "GG108 of the baseline spoils further outputs now: `z`",
    ]
    assert list(Baseline().said(_report(_finding(mark="", outputs=())))) == [
        "findings without fingerprint cannot be accepted: GG108",
        "no finding names output `y`: it cannot be accepted",
    ]


@pytest.mark.parametrize("level", ["note", "warning", "off"])
def test_severity_does_not_change_what_is_shown_right(level: str) -> None:
    found = Policy({"GG108": level}).applied(_report(_finding()))
    assert (found.verdict, exit_code(found), len(found.findings)) == ("does-not-refine", 1, 1)


def test_severity_makes_a_warning_fail() -> None:
    report = _report(_finding("GG133", "dd"), verdict="refines", y="mapped")
    assert exit_code(Policy().applied(report)) == 0
    raised = Policy({"GG133": "error"})
    assert exit_code(raised.applied(report)) == 1
    known = Baseline((Entry("dd", "GG133", outputs=("y",)),))
    assert exit_code(replace(raised, baseline=known).applied(report)) == 0
    assert Policy({"GG133": "off"}).applied(report).findings == []


def test_an_error_by_severity_fails_beside_what_is_accepted() -> None:
    policy = Policy({"GG133": "error"}, Baseline((AA,)))
    assert exit_code(policy.applied(_report(_finding(), _finding("GG133", "dd")))) == 1


ENTRY: dict[str, Any] = {"fingerprint": "aa", "code": "GG108"}
MISTAKES: list[tuple[Any, str]] = [
    ([], "list `entries`"),
    ({"schema_version": 2, "entries": []}, "schema version 2, not 1"),
    ({"schema_version": 1, "entries": [1]}, "entry 0 is not an object"),
    ({"schema_version": 1, "entries": [{**ENTRY, "reasons": ""}]}, "unknown key `reasons`"),
    ({"schema_version": 1, "entries": [{**ENTRY, "count": True}]}, "`count` is True"),
    ({"schema_version": 1, "entries": [{**ENTRY, "outputs": "y"}]}, "`outputs` is 'y'"),
    ({"schema_version": 1, "entries": [{**ENTRY, "fingerprint": ""}]}, "no fingerprint"),
    ({"schema_version": 1, "entries": [ENTRY, ENTRY]}, "entry 1: `aa` is there already"),
]


@pytest.mark.parametrize(("document", "words"), MISTAKES)
def test_mistakes_in_a_file(tmp_path: Path, document: Any, words: str) -> None:
    path = tmp_path / "known.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=words) as error:
        load_baseline(path)
    assert error.value.where == str(path)
