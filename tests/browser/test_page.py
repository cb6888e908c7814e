"""The HTML report in a browser: it opens, filters, expands, highlights, and keeps to itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .conftest import Open
from .pages import HOSTILE, Pages

if TYPE_CHECKING:
    from playwright.sync_api import Page

PHONE = {"width": 390, "height": 844}
NAMES = "#rows tbody th code"


def names(page: Page) -> list[str]:
    """Names of the operators that are listed."""
    return page.locator(NAMES).all_inner_texts()


def count(page: Page) -> int:
    """How many operators the page says that there are."""
    return int(page.inner_text("#count").split()[0].replace(",", ""))


@pytest.mark.parametrize(("name", "says"), [("good", "Refines"), ("broken", "Does not refine")])
def test_the_verdict_comes_first(name: str, says: str, pages: Pages, opened: Open) -> None:
    with opened(pages(name)) as page:
        assert says in page.inner_text("h1")
        order = page.locator("h1, h2").evaluate_all("all => all.map(one => one.id)")
        known = ["verdict", "outputs", "findings", "operators", "coverage", "about"]
        assert [i for i in order if i in known] == [
            i for i in known if i != "findings" or name == "broken"
        ]
        if name == "good":
            assert "r0.add_3" in page.inner_text(".outputs")


def test_a_finding_shows_both_lines_of_code(pages: Pages, opened: Open) -> None:
    with opened(pages("broken")) as page:
        seq, dist = page.locator(".finding .source").all_inner_texts()
        assert "model.py:69" in seq and "x = x + self.proj(context)" in seq
        assert "model.py:87" in dist and "y = F.linear(x, self.weight)" in dist


def test_operators_are_searched_and_filtered(pages: Pages, opened: Open) -> None:
    with opened(pages("broken")) as page:
        everything = count(page)
        page.fill("#search", "Softmax")
        assert set(names(page)) == {"_softmax"} and count(page) == 2 < everything
        page.select_option("#side", "0")
        assert names(page) == ["_softmax"]
        page.fill("#search", "model.py:87")
        assert names(page) == []
        page.select_option("#side", "1")
        assert "mm" in names(page)
        page.fill("#search", "")
        page.select_option("#status", "partial")
        assert names(page)[0] == "mm"
        assert set(page.locator("#rows .badge").all_inner_texts()) == {"◐ in part"}
        assert "a part of a reduction of addmm_1" in page.inner_text("#rows tbody")
        page.click("button[type=reset]")
        page.wait_for_function(
            "all => document.querySelector('#count').textContent.startsWith(all)",
            arg=str(everything),
        )
        page.select_option("#rank", "1")
        assert names(page) and "sequential" not in page.inner_text("#rows tbody")


def test_a_module_of_the_picture_lists_its_operators(pages: Pages, opened: Open) -> None:
    with opened(pages("large")) as page:
        box = page.locator('.modules a[data-module="decoder.layers.3.mlp"]')
        assert "of 8 mapped" in (box.get_attribute("aria-label") or "")
        box.click()
        page.wait_for_function("() => document.querySelector('#module').value !== ''")
        modules = page.locator("#rows tbody td:last-child .sub:last-child").all_inner_texts()
        assert modules and set(modules) == {"decoder.layers.3.mlp"}
        page.locator(".numbers summary").click()
        assert "decoder.layers.3.mlp" in page.inner_text(".numbers table")


def test_an_explanation_expands(pages: Pages, opened: Open) -> None:
    with opened(pages("explained")) as page:
        tree = page.locator(".finding .why").first
        inner = tree.get_by_text("an operand of addmm_1").first
        deepest = tree.get_by_text("as the input relations say").first
        assert not inner.is_visible()
        tree.locator("summary").first.click()
        assert inner.is_visible() and not deepest.is_visible()
        inner.click()
        assert deepest.is_visible()
        assert tree.get_by_text("1 more premise left out").first.is_visible()


def test_why_it_is_so(pages: Pages, opened: Open) -> None:
    with opened(pages("broken")) as page:
        assert (
            page.locator(".why summary").all_inner_texts()[0].startswith("Why add_1 is not mapped")
        )
        seq, dist = page.locator(".finding .why").all()
        seq.locator("summary").first.click()
        assert seq.get_by_text("addmm_1 (aten.addmm.default) cannot be rebuilt").is_visible()
        dist.locator("summary").first.click()
        assert dist.get_by_text("r0.bmm_1 = bmm_1[:, 0:2, :, :]").first.is_visible()
    with opened(pages("good")) as page:
        page.locator(".outputs .why summary").first.click()
        assert page.locator(".outputs .fact").first.inner_text() == "r0.add_3 = add_1"


def lit(page: Page) -> set[str]:
    """What is highlighted: side and name."""
    return set(
        page.locator(".node.lit").evaluate_all(
            "all => all.map(n => n.dataset.side + n.dataset.node)"
        )
    )


def test_hovering_shows_what_maps_to_what(pages: Pages, opened: Open) -> None:
    with opened(pages("broken")) as page:
        assert lit(page) == set()
        page.locator('.node[data-side="1"][data-node="bmm_1"]').hover()
        assert lit(page) == {"1bmm_1", "0bmm_1"}
        assert "holds a piece of bmm_1" in page.inner_text(".told")
        rows = page.locator("#rows tr.lit").all_inner_texts()
        assert len(rows) >= 2 and all("bmm_1" in row for row in rows)
        page.locator("h1").hover()
        assert lit(page) == set() and page.locator("#rows tr.lit").count() == 0


def test_the_break_is_marked_on_both_sides(pages: Pages, opened: Open) -> None:
    with opened(pages("broken")) as page:
        broken = page.locator(".node.broken").evaluate_all(
            "all => all.map(n => n.dataset.side + n.dataset.node)"
        )
        assert sorted(broken) == ["0add", "1add"]
        assert page.locator(".node.broken .node-status").all_text_contents() == [
            "✗ breaks here",
            "✗ breaks here · ranks 0-1",
        ]
        assert page.locator(".link-apart").count() == 1


def test_everything_is_reached_by_keyboard(pages: Pages, opened: Open) -> None:
    with opened(pages("explained")) as page:
        at = "() => document.activeElement.id || document.activeElement.className.baseVal || document.activeElement.tagName"
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "Skip to the report"
        page.keyboard.press("Enter")
        assert page.evaluate(at) == "main"
        seen = []
        for _ in range(30):
            page.keyboard.press("Tab")
            seen.append(page.evaluate(at))
            if "node" in seen[-1]:
                break
        assert "broken" in seen[-1] and "SUMMARY" in seen
        assert lit(page) == {"0add", "1add"}
        page.keyboard.press("ArrowRight")
        assert page.evaluate("() => document.activeElement.dataset.side") == "1"
        page.keyboard.press("ArrowUp")
        assert page.evaluate("() => document.activeElement.dataset.node") in ("mm", "proj_bias")
        assert page.evaluate("() => document.activeElement.dataset.side") == "1"
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.activeElement.id === 'search'")
        assert names(page)[0] == page.input_value("#search")
        page.keyboard.press("Escape")
        assert page.input_value("#search") == ""
        page.locator(".finding .why summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator(".finding .why").first.get_attribute("open") is not None
        page.keyboard.press("/")
        assert page.evaluate(at) == "search" and page.input_value("#search") == ""


@pytest.mark.parametrize("name", ["explained", "good", "large", "hostile"])
def test_a_phone_needs_no_scrolling_sideways(name: str, pages: Pages, opened: Open) -> None:
    with opened(pages(name), viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
        assert page.locator("#rows thead").is_hidden() and names(page)


def test_a_tap_lists_an_operator(pages: Pages, opened: Open) -> None:
    with opened(pages("broken"), viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.locator('.node[data-side="1"][data-node="mm"]').tap()
        assert "holds a part of a reduction of addmm_1" in page.inner_text(".told")
        page.locator(".told button").tap()
        page.wait_for_function("() => document.activeElement.id === 'search'")
        assert names(page)[0] == "mm"


def test_more_rows_on_demand(pages: Pages, opened: Open) -> None:
    with opened(pages("broken"), viewport=PHONE) as page:
        listed = len(names(page))
        assert listed < count(page)
        page.locator("#more").focus()
        page.keyboard.press("Enter")
        assert len(names(page)) == 2 * listed
        assert page.evaluate("() => document.activeElement.rowIndex") == listed + 1


def test_the_page_is_read_without_scripts_and_on_paper(pages: Pages, opened: Open) -> None:
    with opened(pages("broken"), java_script_enabled=False) as page:
        assert page.locator(".node.broken").count() == 2
        assert "needs JavaScript" in page.inner_text("#count")
        page.emulate_media(media="print")
        assert (
            page.locator(".finding").is_visible()
            and page.locator(".node.broken").first.is_visible()
        )
        assert not page.locator("nav").is_visible() and not page.locator(".filters").is_visible()


def test_the_dark_is_dark(pages: Pages, opened: Open) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        with opened(pages("good"), color_scheme=scheme) as page:
            colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
            grounds.append(sum(map(int, re.findall(r"\d+", colour)[:3])))
    assert grounds[0] > 600 and grounds[1] < 150


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["explained", "large"])
def test_it_is_accessible(name: str, scheme: str, pages: Pages, opened: Open) -> None:
    """What axe-core can find without a person, contrast included."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    )
    with opened(pages(name), color_scheme=scheme) as page:
        page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
        found = axe.Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def test_names_of_others_stay_text(pages: Pages, opened: Open) -> None:
    with opened(pages("hostile")) as page:
        assert page.locator("img").count() == 0
        assert page.title().startswith("Does not refine")
        page.fill("#search", "add_1<")
        page.fill("#search", "</script>")
        assert count(page) > 100
        assert all(HOSTILE in name for name in names(page))
        assert HOSTILE in page.inner_text(".outputs")
        assert page.locator(".node.broken").count() == 2


def test_nothing_can_leave_the_page(pages: Pages, browser: object, opened: Open) -> None:
    """Even a script that got into the page could load and send nothing."""
    with (
        pytest.raises(AssertionError, match="Content Security Policy"),
        opened(pages("good")) as page,
    ):
        page.evaluate("() => { new Image().src = 'http://192.0.2.1/pixel'; }")
        refused = page.evaluate("() => fetch('http://192.0.2.1/').catch(error => error.name)")
        assert refused == "TypeError"


def test_the_large_size_stays_small_and_answers(pages: Pages, opened: Open) -> None:
    path = pages("large")
    assert path.stat().st_size < 5_000_000
    with opened(path) as page:
        everything = count(page)
        assert everything > 1500 and len(names(page)) < 200
        listed = len(names(page))
        page.locator(".rows").evaluate("box => { box.scrollTop = box.scrollHeight; }")
        page.wait_for_function(f"() => document.querySelectorAll('{NAMES}').length > {listed}")
        page.locator("#search").press_sequentially("layers.7 aten._softmax", delay=0)
        assert names(page) == ["_softmax_7", "_softmax_7"] and count(page) == 2
        assert "ranks 0-7" in page.inner_text("#rows tbody")


@pytest.mark.parametrize(
    ("picture", "context", "at"),
    [
        ("report-light", {"color_scheme": "light"}, "h1"),
        ("report-graph-dark", {"color_scheme": "dark"}, ".sources"),
        ("report-phone", {"viewport": PHONE}, "#findings"),
    ],
)
def test_screenshots(
    picture: str,
    context: dict[str, object],
    at: str,
    pages: Pages,
    opened: Open,
    pictures: Path | None,
) -> None:
    """They show what they are to show, and are renewed with ``GG_SCREENSHOTS=1``."""
    with opened(pages("broken"), reduced_motion="reduce", **context) as page:
        page.locator(at).first.evaluate("one => scrollTo(0, one.getBoundingClientRect().top - 80)")
        if "graph" in picture:
            page.locator('.node[data-side="1"][data-node="mm"]').focus()
        assert page.locator(at).first.is_visible()
        shot = page.screenshot()
        assert len(shot) < 200_000
        if pictures is not None:
            (pictures / f"{picture}.png").write_bytes(shot)
