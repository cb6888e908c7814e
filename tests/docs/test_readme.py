"""What the README says is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gg_datalog import __version__

from .transcript import ROOT, steps

README = (ROOT / "README.md").read_text(encoding="utf-8")
LESSON = (ROOT / "docs" / "first-bug.md").read_text(encoding="utf-8")
TRY, TESTS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
(MODEL,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that has the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def test_the_first_example_is_that_of_the_lesson() -> None:
    """What the lesson shows is run (test_book.py): the README shows some of it."""
    model = (ROOT / "examples" / "first" / "model.py").read_text(encoding="utf-8")
    assert MODEL in model and MODEL in LESSON
    shown = [line for step in steps(README) for line in step.shown]
    told = {line for step in steps(LESSON) for line in step.shown}
    assert len(shown) > 10 and [line for line in shown if line not in told] == []
    commands = [re.sub(" -o .*", "", step.command) for step in steps(LESSON)]
    assert [step.command for step in steps(README) if step.command not in commands] == []


def test_the_first_command(folder: Path) -> None:
    commands = [c.strip() for c in TRY.split("&&") if c.strip().startswith("gg-datalog")]
    assert [c.split()[1] for c in commands] == ["extract", "run", "query"]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "gg_datalog", *command.split()[1:]],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_the_second_command_is_what_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    install, test = (c.strip() for c in TESTS.split("&&")[-2:])
    assert install == "python -m pip install --quiet '.[dev,torch,models]'"
    assert install.replace("--quiet", "--quiet --disable-pip-version-check") in ci
    assert f"&& {test}\n" in ci


def test_it_is_short_and_its_links_exist() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README) + re.findall(r'src="([^"]+)"', README)
    assert [path for path in links if not (ROOT / path).exists()] == []
    assert len(links) > 20 and len(README.splitlines()) <= 120


def test_the_changelog_begins_with_this_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ([\d.]+)", changes, re.MULTILINE)[0] == __version__
