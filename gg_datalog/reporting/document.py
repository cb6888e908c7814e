"""The report as a JSON document, as ``run --format json`` prints it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from gg_datalog.result.report import Report, as_json


def render(report: Report, result: Path) -> str:
    """The document that ``schemas/report.schema.json`` describes."""
    return as_json(report) + "\n"


def schema() -> str:
    """The JSON schema (draft 2020-12) of the document."""
    path = files("gg_datalog").joinpath("schemas", "report.schema.json")
    return path.read_text(encoding="utf-8")
