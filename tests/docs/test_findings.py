"""The pages of the codes: what their examples say is so, and docs/findings.md is up to date."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import pytest

from gg_datalog import verify
from gg_datalog.diagnosis.findings import PAGES, Mistake
from gg_datalog.reference.pages import reference
from gg_datalog.result.report import Finding

from ..rules.build import Case, row, write

REFERENCE = Path(__file__).parents[2] / "docs" / "findings.md"
SHOWN = [page for page in PAGES.values() if page.example is not None]
WRONG = [page for page in SHOWN if page.example is not None and page.example.right]


def findings(page: Mistake, dist: str, folder: Path, related: bool = True) -> list[Finding]:
    """What is said of the example with this program on the ranks."""
    example = page.example
    assert example is not None
    rows = example.relate if related else None
    relate = {n: [row(seq=n, **r) for r in rs] for n, rs in (rows or {}).items()}
    case = Case(
        page.code, example.sequential, dist, example.world, relate=relate, groups=example.groups
    )
    write(case, folder)
    lacks = example.lacks if related else ()
    name_outputs(folder, example.names, example.state, lacks, example.kinds)
    return list(verify(folder, engine="clingo").findings)


def name_outputs(
    folder: Path,
    names: Sequence[str],
    state: Sequence[str],
    lacks: Sequence[str],
    kinds: Sequence[str],
) -> None:
    """Gives the outputs the names that the program has for them, and says what they are, what new
    values of, and of what rank 1 lacks the gradient."""
    path = folder / "outputs.json"
    rows = json.loads(path.read_text())
    for output, given in zip(rows, state, strict=False):
        output["state"] = {"seq": given, "dist": dict.fromkeys(output["dist"], given)}
    for output, used in zip(rows, lacks, strict=False):
        del output["dist"]["1"]
        output["lacks"] = {"1": used}
    for output, kind in zip(rows, kinds, strict=False):
        output["kind"] = kind
    for output, name in zip(rows, names, strict=False):
        output["name"] = name
    path.write_text(json.dumps(rows))


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.code)
def test_an_example_says_what_its_page_says(page: Mistake, tmp_path: Path) -> None:
    assert page.example is not None
    found = findings(page, page.example.wrong, tmp_path)
    first = found[0] if page.level == "error" else next(f for f in found if f.code == page.code)
    assert (first.code, first.message) == (page.code, page.example.says)


@pytest.mark.parametrize("page", WRONG, ids=lambda page: page.code)
def test_the_right_program_has_no_such_finding(page: Mistake, tmp_path: Path) -> None:
    assert page.example is not None
    found = findings(page, page.example.right, tmp_path, related=False)
    assert [f for f in found if f.level != "note"] == []


def test_a_module_is_named_by_its_mistake_and_something_looks_for_it() -> None:
    package = Path(str(files("gg_datalog")))
    modules = sorted(path.stem for path in package.glob("diagnosis/mistakes/gg*.py"))
    assert [name.partition("_")[0].upper() for name in modules] == list(PAGES)
    texts = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    assert [name for name in modules if not any(name in text for text in texts)] == []


def test_levels_are_those_of_reports() -> None:
    assert all(page.level in ("error", "warning", "note") for page in PAGES.values())


def test_the_reference_is_up_to_date() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_a_finding_has_the_title_and_level_of_its_page(tmp_path: Path) -> None:
    (page,) = [page for page in SHOWN if page.code == "GG108"]
    assert page.example is not None
    (found,) = findings(page, page.example.wrong, tmp_path)
    assert (found.title, found.level) == (page.title, page.level)
