"""``rule``: the pages of the codes."""

from __future__ import annotations

from gg_datalog.diagnosis.findings import PAGES

from ..command import Cli


def test_a_page(cli: Cli) -> None:
    found = cli("rule", "gg108")
    assert found.status == 0
    page = PAGES["GG108"]
    text = " ".join(found.out.split())
    assert found.out.startswith(f"GG108 error: {page.title}\n")
    assert page.note in text and page.remedy in text
    assert page.example is not None and " ".join(page.example.says.split()) in text


def test_every_page_fits_a_terminal(cli: Cli) -> None:
    for code in PAGES:
        found = cli("rule", code)
        assert found.status == 0
        assert max(map(len, found.out.splitlines())) <= 100


def test_the_list(cli: Cli) -> None:
    found = cli("rule", "--list")
    assert found.status == 0
    assert [line.split()[0] for line in found.out.splitlines()] == list(PAGES)


def test_an_unknown_code(cli: Cli) -> None:
    found = cli("rule", "GG1O8")
    assert (found.status, found.out) == (2, "")
    assert "there is no code `GG1O8`" in found.err and "GG108" in found.err


def test_neither_and_both(cli: Cli) -> None:
    for options in ((), ("GG108", "--list")):
        found = cli("rule", *options)
        assert (found.status, found.out) == (2, "")
        assert "--list" in found.err
