"""The page of an audit in a browser: ten thousand items, filtered, walked through, read."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from gg_datalog.cli import cli

from ..audit.synthetic import HOSTILE, audit
from .conftest import Open

if TYPE_CHECKING:
    from playwright.sync_api import Page

PHONE = {"width": 390, "height": 844}
WRONG = "#groups .cell.wrong:not(.off)"


def written(folder: Path, page: Path) -> Path:
    """The page of an audit."""
    done = CliRunner().invoke(
        cli, ["audit", "report", str(folder), "--report", f"html={page}"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of 10,000 items: 1,000 programs x 8 configurations, and 2,000 cases."""
    return audit(tmp_path_factory.mktemp("audit") / "nightly", 1000, 2000).path


@pytest.fixture(scope="module")
def large(folder: Path) -> Path:
    """Its page, beside it."""
    return written(folder, folder.parent / "large.html")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of 70 items, one of whose programs has a name that tries to get out."""
    home = tmp_path_factory.mktemp("small")
    return written(audit(home / "audit", 6, 22, hostile=True).path, home / "deep.html")


def count(page: Page) -> int:
    """How many items the page says that there are."""
    return int(page.inner_text("#count").split()[0].replace(",", ""))


def focused(page: Page) -> str:
    """What the cell with the focus says of itself."""
    return page.evaluate("() => document.activeElement.getAttribute('aria-label') || ''")


def test_ten_thousand_items_open_and_answer(large: Path, opened: Open) -> None:
    assert large.stat().st_size < 5_000_000
    with opened(large) as page:
        assert "Not as expected" in page.inner_text("h1") and count(page) == 10_000
        assert page.locator("*").count() < 8000  # what is not looked at is not made yet
        rows = page.locator(".matrix tbody tr")
        made = rows.count()
        page.locator(".box").first.evaluate("box => { box.scrollTop = box.scrollHeight; }")
        page.wait_for_function(
            f"() => document.querySelectorAll('.matrix tbody tr').length > {made}"
        )
        page.fill("#search", "block_0999 tensor=16")
        assert count(page) == 2 and rows.count() == 1
        assert page.locator(".matrix .cell.off").count() == 6


def test_numbers_are_those_of_the_queries(folder: Path, large: Path, opened: Open) -> None:
    def asked(*query: str) -> list[dict[str, object]]:
        told = CliRunner().invoke(cli, ["audit", "query", str(folder), *query, "--format", "json"])
        return json.loads(told.stdout)

    with opened(large) as page:
        for row in asked("summary"):
            said = page.inner_text(f"[data-status={row['status']}]").replace(",", "")
            assert f"{row['items']} {row['status']}" in said
            page.select_option("#status", str(row["status"]))
            assert count(page) == row["items"]
            page.select_option("#outcome", "1")
            assert count(page) == row["unexpected"]
            page.click("button[type=reset]")
            page.wait_for_function("() => document.querySelector('#status').value === ''")
        page.locator("details.more").evaluate("one => { one.open = true; }")
        causes = page.locator(".causes strong").all_inner_texts()
        assert [int(text.split()[0]) for text in causes] == [r["items"] for r in asked("by_cause")]


def test_a_cause_shows_its_items_alone(large: Path, opened: Open) -> None:
    with opened(large) as page:
        first = page.locator(".causes button").first
        items = int(first.inner_text().split()[1])
        first.click()
        page.wait_for_function("() => document.querySelector('#cause').value === '0'")
        assert count(page) == items and first.get_attribute("aria-pressed") == "true"
        first.click()
        page.wait_for_function("() => document.querySelector('#cause').value === ''")
        assert count(page) == 10_000


def test_an_item_links_to_its_own_report(folder: Path, large: Path, opened: Open) -> None:
    with opened(large) as page:
        page.locator(WRONG).first.click()
        told = page.inner_text("#about-item")
        assert "ranks.py:21 in forward" in told and "refines" in told
        link = page.locator("#about-item .own").get_attribute("href")
        assert link and (large.parent / unquote(link)).parent == folder / "reports"
        assert (large.parent / unquote(link)).is_file()
        page.select_option("#status", "refines")
        page.locator("#groups .cell:not(.off)").first.click()
        assert "It has no report of its own" in page.inner_text("#about-item")
        page.keyboard.press("Escape")
        assert page.locator("#about-item").is_hidden()


def test_links_lead_from_where_the_page_lies(folder: Path, large: Path) -> None:
    elsewhere = folder.parent / "a b" / "page.html"
    elsewhere.parent.mkdir()
    text = written(folder, elsewhere).read_text()
    place = json.loads(re.findall(r'id="data">(.*?)</script>', text)[0])["reports"]
    assert os.path.normpath(elsewhere.parent / unquote(place)) == str(folder / "reports")


def test_keys_walk_through_the_matrix(large: Path, opened: Open) -> None:
    with opened(large) as page:
        page.keyboard.press("/")
        page.keyboard.type("family_00")
        page.keyboard.press("Enter")
        assert "block_0000[tensor=2, sequence_parallel=false]" in focused(page)
        for key, where in (("ArrowRight", "0000[tensor=2, sequence_parallel=true]"),
                           ("ArrowDown", "0001[tensor=2, sequence_parallel=true]"),
                           ("End", "0001[tensor=16, sequence_parallel=true]"),
                           ("ArrowRight", "0002[tensor=2, sequence_parallel=false]"),
                           ("PageDown", "0012[tensor=2, sequence_parallel=false]"),
                           ("ArrowUp", "0011[tensor=2, sequence_parallel=false]"),
                           ("Home", "0011[tensor=2, sequence_parallel=false]")):  # fmt: skip
            page.keyboard.press(key)
            assert where in focused(page)
            assert where in page.inner_text("#about-item h3")
        page.keyboard.type("zoo")  # typing searches
        assert page.input_value("#search") == "zoo"
        page.keyboard.press("Enter")
        assert "zoo/cases/case-0000" in focused(page)
        page.keyboard.press("ArrowRight")
        assert "zoo/cases/case-0003" in focused(page)
        page.keyboard.press("ArrowDown")
        assert "zoo/cases/" in focused(page) and "case-0003" not in focused(page)
        page.keyboard.press("Escape")
        assert page.locator("#about-item").is_hidden() and "zoo/cases/" in focused(page)


def test_keys_reach_rows_that_are_not_made_yet(large: Path, opened: Open) -> None:
    with opened(large) as page:
        page.locator("#groups .cell").first.focus()
        for _ in range(30):
            page.keyboard.press("PageDown")
        assert "block_0300[" in focused(page)


def test_only_one_cell_is_reached_by_tab(large: Path, opened: Open) -> None:
    with opened(large) as page:
        assert page.locator('#groups [tabindex="0"]').count() == 1
        page.locator(WRONG).nth(2).click()
        assert page.locator('#groups [tabindex="0"]').count() == 1


def test_a_status_is_not_told_by_colour_alone(large: Path, opened: Open) -> None:
    with opened(large) as page:
        signs: dict[str, set[str]] = {}
        for button in page.locator(".tally button").all():
            sign = button.locator(".cell").inner_text()
            signs.setdefault(sign, set()).add(button.get_attribute("data-status") or "")
        assert len(signs) == 10 and all(len(named) == 1 for named in signs.values())
        for sign, (named,) in signs.items():
            cell = page.locator(f"#groups .cell.s-{named}").first
            assert cell.inner_text() == sign and named in (cell.get_attribute("aria-label") or "")


def test_a_phone_needs_no_scrolling_sideways(large: Path, small: Path, opened: Open) -> None:
    for path in (large, small):
        with opened(path, viewport=PHONE, has_touch=True, is_mobile=True) as page:
            page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
            page.locator(WRONG).first.tap()
            assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
            assert page.locator("#about-item").is_visible()
            page.locator("#about-item .close").tap()
            assert page.locator("#about-item").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(scheme: str, small: Path, opened: Open) -> None:
    """What axe-core can find without a person, contrast included."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    )
    with opened(small, color_scheme=scheme) as page:
        page.locator(WRONG).first.click()
        colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", colour)[:3])) > 600) == (scheme == "light")
        found = axe.Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def test_names_of_others_stay_text(small: Path, opened: Open) -> None:
    with opened(small) as page:
        assert page.locator("img").count() == 0
        page.fill("#search", "</script>")
        assert count(page) == 8
        assert HOSTILE in page.locator(".matrix tbody th").first.inner_text()
        page.locator("#groups .cell:not(.off)").first.click()
        assert HOSTILE in page.inner_text("#about-item h3")


def test_numbers_and_causes_need_no_scripts(small: Path, opened: Open) -> None:
    with opened(small, java_script_enabled=False) as page:
        assert "needs JavaScript" in page.inner_text("#count")
        assert page.locator(".causes li").count() and page.locator(".plot tr").count()


def test_an_audit_of_which_nothing_ran(tmp_path: Path, opened: Open) -> None:
    from gg_datalog.audit.folder import made

    with opened(written(made(tmp_path / "none").path, tmp_path / "none.html")) as page:
        assert "Nothing run yet" in page.inner_text("h1") and count(page) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screenshots(scheme: str, large: Path, opened: Open, pictures: Path | None) -> None:
    """They show what they are to show, and are renewed with ``GG_SCREENSHOTS=1``."""
    with opened(large, color_scheme=scheme, reduced_motion="reduce") as page:
        page.locator(".matrix .cell.s-does-not-refine.wrong").first.click()
        page.evaluate("() => document.getElementById('items').scrollIntoView()")
        assert page.locator("#about-item").is_visible()
        assert page.locator(".matrix thead").is_visible()
        shot = page.screenshot()
        assert len(shot) < 200_000
        if pictures is not None and scheme == "light":
            (pictures / "audit-light.png").write_bytes(shot)
