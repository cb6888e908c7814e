"""JUnit: a test case per output, and nothing that is wrong passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from junitparser import Failure, JUnitXml, Skipped, TestSuite

from gg_datalog.diagnosis.outcome import exit_code
from gg_datalog.reporting import render
from gg_datalog.result.report import Finding, OutputRow, Report

from ..command import Cli
from .samples import BEYOND, BROKEN, CAUSE, LINED_UP, MISMATCH, REFINES, report, reports

NOWHERE = Path("no-result")


def _suite(found: Report, result: Path = NOWHERE) -> Any:
    document = JUnitXml.fromstring(render("junit", found, result).encode())
    (suite,) = document
    assert isinstance(suite, TestSuite)
    cases = list(suite)
    assert suite.tests == len(cases)
    assert suite.failures == sum(case.is_failure for case in cases)
    assert suite.skipped == sum(case.is_skipped for case in cases)
    assert len({(case.classname, case.name) for case in cases}) == len(cases)
    return suite


def _states(found: Report) -> dict[str, str]:
    return {
        case.name: "failed" if case.is_failure else "skipped" if case.is_skipped else "passed"
        for case in _suite(found)
    }


def test_an_output_is_a_case() -> None:
    assert _states(REFINES) == {"add_1": "passed", "add_2": "passed"}
    assert _states(BROKEN) == {"add_1": "failed", "add_2": "passed"}
    assert _states(BEYOND) == {"add_1": "skipped"}


def test_a_failure_tells_the_findings_that_name_the_output() -> None:
    (failure,) = next(iter(_suite(BROKEN))).result
    assert isinstance(failure, Failure)
    assert (failure.type, failure.message) == ("GG108", CAUSE.message)
    for text in (CAUSE.seq_source, CAUSE.dist_source, CAUSE.trigger, CAUSE.expected, "0-3, 7"):
        assert text is not None and text in failure.text
    assert "put an all-reduce after `r0.mm`" in failure.text


def test_a_skipped_case_says_what_stands_in_the_way() -> None:
    (skipped,) = next(iter(_suite(BEYOND))).result
    assert isinstance(skipped, Skipped)
    assert "mine.kernel.default" in skipped.text


def test_an_error_that_belongs_to_no_output_fails_a_case_of_its_own() -> None:
    states = _states(LINED_UP)
    assert states.pop("add_1") == "passed"
    assert states == {"GG110 a collective does not line up between ranks: r1.total": "failed"}


def test_errors_are_not_lost_beside_an_output_that_fails() -> None:
    found = report("does-not-refine", "unmapped", "mapped", findings=(CAUSE, MISMATCH))
    told = [case.result[0].text for case in _suite(found) if case.is_failure]
    assert [MISMATCH.message in text for text in told] == [False, True]


def test_an_output_that_no_finding_names_fails_with_what_there_is() -> None:
    other = report("does-not-refine", "unmapped", findings=(MISMATCH,))
    first, second = _suite(other)
    assert first.is_failure and MISMATCH.message in first.result[0].text
    assert second.is_failure


def test_no_verdict_against_passes() -> None:
    """Whatever the model allows: not refined, so that something fails."""
    assert "failed" in _states(report("does-not-refine", "mapped")).values()


def test_what_a_baseline_has_is_skipped() -> None:
    """A finding of an output, and one that belongs to none."""
    known = tuple(replace(one, accepted=True) for one in (CAUSE, MISMATCH))
    base = report("does-not-refine", "unmapped", "mapped", findings=known)
    outputs = [replace(base.outputs[0], accepted=True), base.outputs[1]]
    found = replace(base, outputs=outputs, accepted=True)
    assert _states(found) == {"add_1": "skipped", "add_2": "passed"}
    text = render("junit", found, NOWHERE)
    assert "accepted, the baseline has it: `r0.mm`" in text and MISMATCH.message in text
    assert _states(replace(found, outputs=base.outputs, accepted=False))["add_1"] == "failed"


def test_names_are_told_apart() -> None:
    rows = [OutputRow(seq, "mapped", None, name) for seq, name in SAME]
    base = report("refines")
    found = Report("refines", rows, [], [], base.engine, base.stats)
    assert [case.name for case in _suite(found)] == ["loss (a)", "loss (b)", "c", "d", "d #2"]


SAME = (("a", "loss"), ("b", "loss"), ("c", ""), ("d", ""), ("d", ""))


def test_long_lists_of_findings_are_cut_and_counted() -> None:
    many = tuple(Finding("GG106", "error", f"no. {i}", seq="add_1") for i in range(40))
    (case,) = _suite(report("does-not-refine", "unmapped", findings=many))
    assert "no. 11" in case.result[0].text and "no. 12" not in case.result[0].text
    assert case.result[0].text.endswith("and 28 more findings")


def test_properties_hold_what_is_taken_on_trust() -> None:
    properties = {(row.name, row.value) for row in _suite(REFINES).properties()}
    assert ("assumption", "cast: r0.to: float32 to bfloat16 is the identity") in properties
    assert ("verdict", "refines") in properties


@pytest.mark.parametrize(
    "name, failures, skipped",
    [("refines", 0, 0), ("missing", 1, 0), ("mismatch", 1, 0), ("inconclusive", 0, 1)],
)
def test_results(cli: Cli, facts: dict[str, Path], name: str, failures: int, skipped: int) -> None:
    found = cli("report", facts[name] / "result", "--report", "junit=-")
    assert (found.status, found.err) == (0, "")
    (suite,) = JUnitXml.fromstring(found.out.encode())
    assert suite.failures >= failures and bool(suite.failures) == bool(failures)
    assert suite.skipped == skipped
    assert {case.classname for case in suite} == {"case"}


@given(reports)
@settings(max_examples=60, deadline=None)
def test_every_report_is_xml(found: Report) -> None:
    suite = _suite(found)
    assert suite.tests >= len(found.outputs)
    errors = any(one.level == "error" and not one.accepted for one in found.findings)
    unmapped = any(row.status == "unmapped" and not row.accepted for row in found.outputs)
    against = exit_code(found) == 1
    assert bool(suite.failures) == (errors or unmapped or against)


def test_what_xml_has_no_way_to_write_is_shown() -> None:
    found = report(
        "does-not-refine", findings=(Finding("GG101", "error", "a\x00\x1b\ud800\ufffe"),)
    )
    root = ElementTree.fromstring(render("junit", found, NOWHERE).encode())
    failure = root.find(".//failure")
    assert failure is not None and failure.get("message") == "a\\x00\\x1b\\ud800\\ufffe"
