"""HTML: the text of the page. What a browser makes of it is tested in ``tests/browser``."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import combinations, pairwise
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gg_datalog.foundation.errors import InputError
from gg_datalog.reporting import render
from gg_datalog.reporting.html_explain import MOST_NODES, _pruned
from gg_datalog.reporting.html_layout import GAP_X, HEIGHT, WIDTH, acyclic, placed, rows_of
from gg_datalog.result.folder import read_result
from gg_datalog.result.report import Report

from .samples import BROKEN, CAUSE, NOTE, REFINES, report, reports

TAGS = """
    a article body button caption circle code dd defs details div dl dt figcaption figure form g h1 h2 h3
    head header html input kbd label li line link main marker meta nav option p path pattern pre rect
    script section select span strong style summary svg table tbody td text th thead title tr ul
"""


class Page(HTMLParser):
    """Tags, attributes and ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]


def _blocks(page: str, tag: str) -> list[str]:
    return re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", page, re.DOTALL)


def _result(facts: dict[str, Path], name: str = "missing") -> Path:
    return facts[name] / "result"


def _told(page: str) -> str:
    """What a reader sees of the page itself."""
    page = page[page.index("<main") : page.index("</main>")]
    return " ".join(unescape(re.sub(r"<[^>]*>", "", page)).split())


def test_everything_of_a_finding_is_shown(facts: dict[str, Path]) -> None:
    told = _told(render("html", BROKEN, _result(facts)))
    for text in (
        CAUSE.code, CAUSE.title, CAUSE.trigger, CAUSE.effect, CAUSE.expected, CAUSE.found,
        CAUSE.fingerprint, "Repair: put an all-reduce after r0.mm", "ranks 0-3, 7", "layers.0.proj",
        "models/block.py:69", "x = x + self.proj(context)",
    ):  # fmt: skip
        assert text and text.replace("`", "").lower() in told.lower()


def test_empty_fields_leave_no_trace(facts: dict[str, Path]) -> None:
    told = _told(render("html", REFINES, _result(facts, "refines")))
    for word in ("Trigger", "Expected", "Repair", "fingerprint", "None", "no source line"):
        assert word not in told


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(any_report=reports)
def test_no_report_gets_out_of_its_page(any_report: Report, facts: dict[str, Path]) -> None:
    """Whatever texts a report has: no tag, no attribute and no script of theirs."""
    page = render("html", any_report, _result(facts))
    page.encode("utf-8")
    found = Page(page)
    assert found.tags <= set(TAGS.split())
    assert not [name for _, name, _ in found.attributes if name.startswith("on") or name == "style"]
    links = {value for _, name, value in found.attributes if name in ("href", "src")}
    assert all(value.startswith("#") or value == "data:," for value in links)
    assert len(found.ids) == len(set(found.ids))
    assert {value[1:] for value in links if value.startswith("#")} <= set(found.ids)


def test_only_what_ships_may_run(facts: dict[str, Path]) -> None:
    page = render("html", BROKEN, _result(facts))
    policy = unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0])
    (style,), (data, script) = _blocks(page, "style"), _blocks(page, "script")
    for text in (style, script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert "http" not in style + script
    rows = json.loads(data)
    assert {len(column) for column in rows["columns"].values()} == {len(rows["columns"]["name"])}


def _rows(page: str) -> list[tuple[int, str, list[int], str]]:
    """Side, name, ranks and status of every row of the table of operators."""
    rows = json.loads(_blocks(page, "script")[0])
    texts, columns = rows["texts"], rows["columns"]
    return [
        (side, texts[name], rows["rank_sets"][ranks], texts[status])
        for side, name, ranks, status in zip(
            columns["side"], columns["name"], columns["ranks"], columns["status"], strict=True
        )
    ]


def test_alike_ranks_are_one_row(facts: dict[str, Path]) -> None:
    assert _rows(render("html", BROKEN, _result(facts))) == [
        (0, "mm", [0], "partial"), (0, "y", [0], "unmapped"),
        (0, "x", [0], "mapped"), (0, "w", [0], "mapped"),
        (1, "mm", [0, 1], "partial"), (1, "y", [0, 1], "unmapped"),
        (1, "x", [0, 1], "mapped"), (1, "w", [0, 1], "mapped"),
    ]  # fmt: skip


def test_ranks_that_differ_are_rows_of_their_own(facts: dict[str, Path]) -> None:
    """One rank has an all-reduce that the other never joins."""
    page = render("html", read_result(_result(facts, "mismatch"))[0], _result(facts, "mismatch"))
    ranks = {
        name: [row[2] for row in _rows(page) if row[:2] == (1, name)] for name in ("x", "total")
    }
    assert ranks == {"x": [[0, 1]], "total": [[0]]}
    assert 'data-side="1" data-node="total"' in page


def test_a_database_of_another_version_is_refused(facts: dict[str, Path], tmp_path: Path) -> None:
    old = tmp_path / "result"
    shutil.copytree(_result(facts), old)
    with duckdb.connect(str(old / "result.duckdb")) as database:
        database.execute("DROP VIEW internal.tensor_size")
    with pytest.raises(InputError, match="the database lacks a part") as refused:
        render("html", BROKEN, old)
    assert "gg-datalog run" in (refused.value.hint or "")


def test_what_the_baseline_has_is_folded(facts: dict[str, Path]) -> None:
    known = replace(CAUSE, accepted=True)
    whole = replace(report("does-not-refine", "unmapped", findings=(known, CAUSE)), accepted=True)
    page = render("html", whole, _result(facts))
    assert page.index('id="finding-2"') < page.index('id="finding-1"')
    told = _told(page)
    assert "Accepted: the baseline has every finding" in told
    assert "1 accepted finding, which the baseline has" in told


def test_a_note_that_was_made_an_error_says_why_the_run_fails(facts: dict[str, Path]) -> None:
    made = replace(NOTE, level="error")
    told = _told(render("html", report("refines", "mapped", findings=(made,)), _result(facts)))
    assert "Fails: GG131 is an error here" in told


def test_a_result_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such result folder"):
        render("html", BROKEN, tmp_path / "none")


# ---- layout --------------------------------------------------------------------------------------
def test_pairs_stand_beside_each_other() -> None:
    """0 -> 1 -> 2 beside 10 -> 11 -> 12 -> 13, where 11 has no counterpart."""
    edges = [(0, 1), (1, 2), (10, 11), (11, 12), (12, 13)]
    rows = rows_of([0, 1, 2, 10, 11, 12, 13], edges, [(0, 10), (1, 12), (2, 13)])
    assert [rows[n] for n in (0, 1, 2)] == [rows[n] for n in (10, 12, 13)] == [0, 2, 3]


def test_a_pair_that_would_make_a_circle_is_left_apart() -> None:
    rows = rows_of([0, 1, 10, 11], [(0, 1), (10, 11)], [(0, 11), (1, 10)])
    assert rows[0] == rows[11] and rows[10] < rows[11] and rows[0] < rows[1]


def test_a_circle_is_opened() -> None:
    """Boxes of several ranks can need each other: r1.a needs r0.b, r0.b needs r0.a."""
    assert acyclic([0, 1, 2], [(0, 1), (1, 0), (1, 2), (2, 2)]) == [(0, 1), (1, 2)]


def test_inputs_stand_above_their_user() -> None:
    assert rows_of([0, 1, 2, 3], [(0, 1), (1, 2), (3, 2)], []) == {0: 0, 1: 1, 2: 2, 3: 1}


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_boxes_never_overlap_and_edges_run_down(pairs: set[tuple[int, int]]) -> None:
    edges = [(a, b) for a, b in sorted(pairs) if a < b]
    nodes = list(range(10))
    found = placed(nodes, edges, rows_of(nodes, edges, []))
    for a, b in combinations(nodes, 2):
        (ax, ay), (bx, by) = found.centres[a], found.centres[b]
        assert abs(ay - by) >= HEIGHT or abs(ax - bx) >= WIDTH + GAP_X - 0.001
    for x, y in found.centres.values():
        assert WIDTH / 2 - 0.001 <= x <= found.width - WIDTH / 2 + 0.001 and y < found.height
    for (a, b), route in found.routes.items():
        assert route[0][0] == found.centres[a][0] and route[-1][0] == found.centres[b][0]
        assert all(above[1] < below[1] for above, below in pairwise(route))


# ---- explanations --------------------------------------------------------------------------------
def test_a_large_tree_is_cut_and_says_so() -> None:
    wide = [{"text": str(i), "rule": None, "at": [], "premises": [], "more": 0} for i in range(500)]
    top = {"text": "top", "rule": "operator", "at": [], "premises": wide, "more": 2}
    (kept,), left_out = _pruned([top], [MOST_NODES])
    assert len(kept["premises"]) == MOST_NODES - 1 and left_out == 0
    assert kept["more"] == 2 + 500 - (MOST_NODES - 1)
