"""The report as one HTML file: it needs no network, and lets nothing leave the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.foundation.errors import InputError
from gg_datalog.reporting.html_page import asset, filled
from gg_datalog.reporting.places import place
from gg_datalog.reporting.wording import element, executed, modules, numbers, repair
from gg_datalog.result.folder import AGAIN, open_result, read_result
from gg_datalog.result.printable import printable
from gg_datalog.result.reasons import Status, Verdict
from gg_datalog.result.report import Finding, Report

if TYPE_CHECKING:
    from gg_datalog.reporting.html_picture import Picture
    from gg_datalog.reporting.html_tensors import Tensors

PACKAGE = "gg_datalog.reporting"
MOST_PICTURES = 30
STATUSES = (Status.UNMAPPED, Status.INCONCLUSIVE, Status.MAPPED)
HEADLINE: dict[str, tuple[str, str, str]] = {
    Verdict.REFINES: ("✓", "Refines", "Every output is rebuilt from what the ranks return."),
    Verdict.DIFFERS: ("✗", "Does not refine", "A difference is shown."),
    Verdict.INCONCLUSIVE: (
        "?",
        "Inconclusive",
        "Neither a proof nor a difference is shown.",
    ),
}


def render(report: Report, result: Path) -> str:
    """The page for the report of the result in folder ``result``.

    Raises:
        InputError: the result cannot be read.
    """
    style, script = asset(PACKAGE, "report.css"), asset(PACKAGE, "report.js")
    return filled(PACKAGE, "report.html.j2", style, script, _content(report, result))


def _content(report: Report, result: Path) -> dict[str, Any]:
    """Everything that the template shows."""
    from gg_datalog.diagnosis.findings import PAGES
    from gg_datalog.diagnosis.outcome import raised
    from gg_datalog.foundation.version import __version__
    from gg_datalog.reporting.html_explain import explanations
    from gg_datalog.reporting.html_modules import coverage
    from gg_datalog.reporting.html_operators import operators
    from gg_datalog.reporting.html_tensors import read_tensors

    _, manifest = read_result(result)
    with open_result(result) as database, _complete(result):
        tensors = read_tensors(database)
        rows = operators(database, tensors)
        covered = coverage(database)
        pictures, shared = _pictures(report, database, tensors)
        explained = explanations(report, database)
    return {
        "report": report,
        "headline": HEADLINE[report.verdict],
        "findings": list(enumerate(report.findings)),
        "accepted": sum(found.accepted for found in report.findings),
        "raised": list(dict.fromkeys(found.code for found in raised(report))),
        "meanings": PAGES,
        "outputs": sorted(report.outputs, key=lambda row: STATUSES.index(Status(row.status))),
        "counts": {s: sum(row.status == s for row in report.outputs) for s in STATUSES},
        "levels": _levels(report),
        "case": _case(manifest),
        "pictures": pictures,
        "shared": shared,
        "operators": rows,
        "coverage": covered,
        "explained": explained,
        "place": place,
        "numbers": numbers,
        "executed": executed,
        "element": element,
        "modules": modules,
        "repair": repair,
        "version": __version__,
        "seconds": sum(report.stats["seconds"].values()),
    }


@contextmanager
def _complete(result: Path) -> Iterator[None]:
    """An error in words where the database is that of another version."""
    import duckdb

    try:
        yield
    except duckdb.CatalogException as error:
        text = str(error).splitlines()[0]
        raise InputError(f"the database lacks a part: {text}", str(result), AGAIN) from None


def _levels(report: Report) -> dict[str, int]:
    levels = ("error", "warning", "note")
    return {level: sum(f.level == level for f in report.findings) for level in levels}


def _pictures(
    report: Report, database: Any, tensors: Tensors
) -> tuple[dict[int, Picture], dict[int, int]]:
    """The neighbourhoods of the first findings that have one, and findings that share another's."""
    from gg_datalog.reporting.html_graph import picture, read_breaks

    breaks = read_breaks(database, tensors)
    found: dict[int, Picture] = {}
    shared: dict[int, int] = {}
    for index, finding in enumerate(report.findings):
        if len(found) < MOST_PICTURES and _broken(finding):
            drawn = picture(finding, tensors, breaks)
            same = next((i for i, other in found.items() if drawn == other), None)
            if same is not None:
                shared[index] = same
            elif drawn is not None:
                found[index] = drawn
    return found, shared


def _broken(finding: Finding) -> bool:
    return finding.level != "note"


def _case(manifest: dict[str, Any]) -> str:
    """The folder of the case, the short name of it all."""
    case = manifest.get("case")
    path = case.get("seq") if isinstance(case, dict) else None
    return printable(Path(path).parent.name) if isinstance(path, str) else ""
