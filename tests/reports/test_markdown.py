"""Markdown: names show as they are, tables hold, and it fits a comment."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from markdown_it import MarkdownIt

from gg_datalog.foundation.visible import visible
from gg_datalog.reporting import render
from gg_datalog.reporting.markdown import code, inline, row
from gg_datalog.reporting.text import shortened
from gg_datalog.result.report import Assumption, Finding, Report

from ..command import Cli
from .samples import BROKEN, CAUSE, REFINES, report, reports, text

NOWHERE = Path("no-result")
READER = MarkdownIt("commonmark").enable("table")


def _shown(markdown: str) -> str:
    return _told(READER.render(markdown))


def _told(page: str) -> str:
    """What a reader sees: without tags and comments."""
    return html.unescape(re.sub(r"<!--.*?-->|<[^>]*>", "", page))


def _squeezed(shown: str) -> str:
    return " ".join(shown.split())


@given(text.map(visible))
@settings(deadline=None)
@example("a`b``c")
@example("|")
@example("\\|`")
def test_code_shows_what_it_is_given(given_text: str) -> None:
    assert _squeezed(_shown("x " + code(given_text))) == _squeezed("x " + given_text)
    table = "\n".join([row("a", "b"), row("---", "---"), row(code(given_text), "end")])
    cells = re.findall(r"<td>(.*?)</td>", READER.render(table))
    assert len(cells) == 2 and cells[1] == "end"
    assert _squeezed(_told(cells[0])) == _squeezed(given_text)


@given(text.map(visible).map(lambda made: made.replace("`", "")))
@settings(deadline=None)
@example("*a* _b_ [c](d) <e> &amp; # 1. ~f~ @g \\|")
def test_a_sentence_shows_what_it_is_given(sentence: str) -> None:
    assert _squeezed(_shown("x " + inline(sentence))) == _squeezed("x " + sentence)
    table = "\n".join([row("a", "b"), row("---", "---"), row(inline(sentence), "end")])
    assert re.findall(r"<td>(.*?)</td>", READER.render(table))[1:] == ["end"]


def test_names_in_backticks_are_code() -> None:
    assert inline("`r0.mm_1` holds `a|b`*") == "`r0.mm_1` holds `a|b`\\*"


def test_nobody_is_called() -> None:
    assert "@<!-- -->team" in inline("x @team")


def test_a_finding_shows_all_that_is_known() -> None:
    page = READER.render(render("markdown", BROKEN, NOWHERE))
    rows = dict(re.findall(r"<tr>\s*<td>(.*?)</td>\s*<td>(.*?)</td>\s*</tr>", page))
    assert rows.keys() >= {
        "sequential",
        "ranks",
        "module",
        "because",
        "effect",
        "expected",
        "found",
        "outputs",
        "on ranks",
        "repair",
    }
    assert html.unescape(rows["ranks"]) == (
        "<code>models/block.py:87</code> in <code>forward</code>: "
        "<code>y = f(x, self.weight) | `tick`</code>"
    )
    assert rows["on ranks"] == "0-3, 7"
    assert rows["expected"] == f"<code>{CAUSE.expected}</code>"


def test_what_a_baseline_has_is_folded() -> None:
    known = report("does-not-refine", "unmapped", findings=(replace(CAUSE, accepted=True),))
    outputs = [replace(row, accepted=True) for row in known.outputs]
    text = render("markdown", replace(known, outputs=outputs, accepted=True), NOWHERE)
    head, _, folded = text.partition("<details><summary>1 accepted finding</summary>")
    assert "GG108" not in head and "GG108" in folded
    assert "ACCEPTED: the baseline has" in head and "| unmapped, accepted |" in folded


def test_outputs_that_are_rebuilt_are_folded() -> None:
    text = render("markdown", REFINES, NOWHERE)
    head, _, folded = text.partition("<details><summary>2 outputs rebuilt</summary>")
    assert "refines" in head and "`r0.add_1`" not in head and "`r0.add_1`" in folded
    assert text.count("<details>") == text.count("</details>") == 3


@pytest.mark.parametrize("long", [1, 30, 3000])
def test_what_is_long_fits_a_comment_and_is_counted(long: int) -> None:
    loud = tuple(Finding("GG106", "error", f"no. {i} " + "<" * long) for i in range(2000))
    notes = tuple(Finding("GG131", "note", "y" * long) for _ in range(1500))
    base = report("does-not-refine", *["unmapped"] * 900, *["mapped"] * 900, findings=loud + notes)
    outputs = [replace(row, name="|" * long, relation="`" * long) for row in base.outputs]
    trusted = [Assumption("cast", "*" * long)] * 1500
    text = render("markdown", replace(base, outputs=outputs, assumptions=trusted), NOWHERE)
    assert len(text) <= 60_000
    loud_shown = len(re.findall(r"^#### GG106", text, re.MULTILINE))
    assert loud_shown > 5 and f"And {2000 - loud_shown} more findings" in text
    for start, total in (("- GG131", 1500), ("- cast", 1500)):
        shown = len(re.findall(f"^{start}", text, re.MULTILINE))
        assert shown > 0 and f"and {total - shown} more\n" in text
    for status in ("unmapped", "mapped"):
        shown = text.count(f"| {status} |")
        assert 0 < shown <= 100 and f"and {900 - shown} more\n" in text


@given(reports)
@settings(max_examples=60, deadline=None)
def test_every_report_is_a_page(found: Report) -> None:
    text = render("markdown", found, NOWHERE)
    page = READER.render(text)
    loud = [one for one in found.findings if one.level != "note" and not one.accepted]
    assert page.count("<h4>") == len(loud)
    assert page.count("<h3>") == 1
    assert len(re.findall(r"^<details>", page, re.MULTILINE)) == text.count("<details>")
    tags = set(re.findall(r"</?([a-z0-9]+)", page))
    assert tags <= TAGS


TAGS = {"h3", "h4", "p", "code", "table", "thead", "tbody", "tr", "th", "td", "strong", "ul", "li"}
TAGS |= {"details", "summary", "em"}


@pytest.mark.parametrize("name", ["refines", "missing", "mismatch", "inconclusive"])
def test_results(cli: Cli, facts: dict[str, Path], name: str) -> None:
    found = cli("report", facts[name] / "result", "--report", "markdown=-")
    assert (found.status, found.err) == (0, "")
    assert found.out.startswith("### gg-datalog: ")
    assert "`case`" in found.out


EVERY = [f"r{rank}.y" for rank in range(6)]


@pytest.mark.parametrize(
    ("relation", "shown"),
    [
        (f"concat(dim=0, [{', '.join(EVERY)}])", "concat(dim=0, [r0.y, r1.y, ..., r5.y])"),
        (f"concat(dim=0, [{', '.join(EVERY[:4])}])", None),
        (f"concat(dim=0, [{', '.join(EVERY[:5])}, r5.z])", None),
        ("permute(r0.y, [0, 2, 1, 3, 4])", None),
        ("reshape(r0.y, [2, 2, 2, 2, 2])", None),
    ],
)
def test_only_a_list_of_one_tensor_per_rank_is_shortened(relation: str, shown: str | None) -> None:
    assert shortened(relation) == (shown or relation)
