"""A report in the formats that other tools read: one function per format, found by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from gg_datalog.result.printable import printable
from gg_datalog.result.report import Report

# Each is `function(report, result folder) -> text`, imported when it is asked for.
FORMATS = {
    "json": "gg_datalog.reporting.document:render",
    "sarif": "gg_datalog.reporting.sarif:render",
    "junit": "gg_datalog.reporting.junit:render",
    "github": "gg_datalog.reporting.github:render",
    "markdown": "gg_datalog.reporting.markdown:render",
    "html": "gg_datalog.reporting.html:render",
}

# Read by programs, which get names as they are; elsewhere what cannot be seen is made visible.
EXACT = ("json",)


def render(form: str, report: Report, result: Path) -> str:
    """The report of the result in folder ``result``, in one of :data:`FORMATS`."""
    module, _, function = FORMATS[form].partition(":")
    write = getattr(import_module(module), function)
    text: str = write(report if form in EXACT else printable(report), result)
    return text
