"""docs/views.md is written from the views."""

from __future__ import annotations

from pathlib import Path

from gg_datalog.reference.views import reference

PAGE = Path(__file__).parents[2] / "docs" / "views.md"


def test_the_page_is_the_one_that_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make docs`"
