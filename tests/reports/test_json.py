"""The JSON report and the schema that ships with it."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator, ValidationError

from gg_datalog.reporting.document import schema
from gg_datalog.result.report import (
    Assumption,
    Finding,
    OutputRow,
    Repair,
    Report,
    as_json,
    from_json,
)

from ..command import Cli
from .samples import BROKEN, reports

SCHEMA = json.loads(schema())
VALID = Draft202012Validator(SCHEMA)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", ["refines", "missing", "mismatch", "inconclusive"])
def test_results_conform(cli: Cli, facts: dict[str, Path], name: str) -> None:
    found = cli("report", facts[name] / "result", "--report", "json=-")
    assert (found.status, found.err) == (0, "")
    VALID.validate(json.loads(found.out))
    assert json.loads(found.out) == json.loads((facts[name] / "result/report.json").read_text())


@given(reports)
@settings(max_examples=60, deadline=None)
def test_every_report_conforms_and_comes_back(report: Report) -> None:
    document = as_json(report)
    VALID.validate(json.loads(document))
    assert from_json(document) == report


@pytest.mark.parametrize(
    "name, kind",
    [("output", OutputRow), ("finding", Finding), ("repair", Repair), ("assumption", Assumption)],
)
def test_the_schema_describes_every_field(name: str, kind: Any) -> None:
    assert set(SCHEMA["$defs"][name]["properties"]) == {field.name for field in fields(kind)}
    for about in SCHEMA["$defs"][name]["properties"].values():
        assert "description" in about or "oneOf" in about


def test_fields_of_later_releases_are_allowed() -> None:
    document = json.loads(as_json(BROKEN))
    document["findings"][0]["later"] = document["later"] = 1
    VALID.validate(document)


@pytest.mark.parametrize(
    "path, value",
    [
        (["verdict"], "maybe"),
        (["schema_version"], 2),
        (["outputs", 0, "status"], None),
        (["findings", 0, "code"], "108"),
        (["findings", 0, "dist"], "r0.mm"),
        (["findings", 0, "repair", "nodes"], None),
        (["stats", "seconds"], 1),
    ],
)
def test_what_is_wrong_is_refused(path: list[Any], value: object) -> None:
    document = json.loads(as_json(BROKEN))
    *before, last = path
    at = document
    for step in before:
        at = at[step]
    at[last] = value
    with pytest.raises(ValidationError):
        VALID.validate(document)


def test_the_schema_can_be_printed(cli: Cli) -> None:
    found = cli("report", "--schema")
    assert (found.status, json.loads(found.out)) == (0, SCHEMA)
