"""Reports as pages of a real browser, which must neither complain nor ask for anything else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .pages import Pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
Open = Callable[..., AbstractContextManager["Page"]]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Reports by name, each written when it is first asked for."""
    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium; without one these tests are skipped. It ends with the module: what
    drives it would run on beside the tests that the same process does next."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser on the PATH (looked for {', '.join(BROWSERS)})")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Browser) -> Open:
    """Opens a page; at the end nothing may have been complained of, asked for or sent."""

    @contextmanager
    def opens(path: Path, **context: Any) -> Iterator[Page]:
        asked: list[str] = []
        said: list[str] = []
        surroundings = browser.new_context(**{"viewport": DESKTOP, **context})
        page = surroundings.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())
        yield page
        surroundings.close()
        assert said == []
        assert asked == [path.as_uri()]

    return opens


DESKTOP = {"width": 1280, "height": 900}


@pytest.fixture(scope="session")
def pictures() -> Path | None:
    """Where screenshots go: ``GG_SCREENSHOTS=1`` renews those in ``docs/``."""
    return ROOT / "docs" if os.environ.get("GG_SCREENSHOTS") else None
