"""The book: it builds, its examples are so, and its generated pages are up to date."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gg_datalog.cli import cli
from gg_datalog.reference import commands

from .transcript import ROOT, agrees, printed, steps

DOCS = ROOT / "docs"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
# Commands of the others are run by test_ci.py and test_reports.py, which look at more than is shown.
SHOWN = [name for name, text in PAGES.items() if steps(text) and name not in ("ci", "reports")]
WITHOUT_TORCH = {"asking", "blocks", "certificates", "first-verdict"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that has the examples, to write into."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize("page", SHOWN)
def test_what_a_page_shows_is_what_is_printed(page: str, folder: Path) -> None:
    if page not in WITHOUT_TORCH:
        pytest.importorskip("torch", reason="the page captures or executes programs")
    shown = steps(PAGES[page])
    for step, text in zip(shown, printed([s.command for s in shown], folder), strict=True):
        assert agrees(step.shown, text), f"$ {step.command}\n{text}"


def test_a_page_that_shows_something_else_is_found() -> None:
    assert agrees(("one", "...", "off by 418.1 here"), "one\ntwo\noff by 418.12 here\n")
    assert not agrees(("one", "off by 418.1 here"), "one\noff by 419.1 here\n")
    assert not agrees(("one", "two"), "one\n")
    assert not agrees((), "error: something\n")


def test_the_site_builds_and_no_link_is_dead(tmp_path: Path) -> None:
    """Pages, anchors and files that a page names are there, and every page is in the navigation."""
    if find_spec("mkdocs") is None or find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed (pip install '.[docs]')")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    built = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.html")}
    assert sorted(PAGES) == sorted(built.keys() - {"404"})
    loaded = r"<(?:script|img|link|iframe)[^>]*\b(?:src|href)=\"?(https?:[^\s\">]*)"
    assert {name: found for name in built if (found := re.findall(loaded, built[name]))} == {}


def test_commands_are_up_to_date() -> None:
    # In a process of its own: click remembers the help option of a command that was run alone.
    written = "from gg_datalog.cli import cli; from gg_datalog.reference.commands import reference"
    program = [sys.executable, "-c", f"{written}; print(reference(cli), end='')"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    assert PAGES["commands"] == done.stdout, "run `make docs`"
    assert commands.PAGES.keys() <= cli.commands.keys()


def test_the_tree_names_every_folder() -> None:
    named = re.findall(r"^\| `([\w/]+/)` \|", PAGES["developing"], re.MULTILINE)
    assert [name for name in named if not (ROOT / name).is_dir()] == []
    tracked = subprocess.run(
        ["git", "ls-tree", "-d", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    top = {name.partition("/")[0] for name in named}
    assert {name for name in tracked if not name.startswith(".")} <= top


def test_pictures_have_a_light_and_a_dark_form() -> None:
    for path in DOCS.glob("pictures/*.svg"):
        text = path.read_text(encoding="utf-8")
        assert "prefers-color-scheme: dark" in text and "<title>" in text, path
        assert any(f"pictures/{path.name}" in page for page in PAGES.values()), path
