"""The report as a JSON document, as ``run --format json`` prints it."""

from __future__ import annotations

from pathlib import Path

from gg_datalog.report import Report, as_json


def render(report: Report, result: Path) -> str:
    """The document that ``schemas/report.schema.json`` describes."""
    return as_json(report) + "\n"
