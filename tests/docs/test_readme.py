"""What the README says is so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gg_datalog import __version__

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TRY, TESTS, *_ = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
MODEL, *_ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
RIGHT, BROKEN, TRANSCRIPT = re.findall(r"```console\n(.*?)```", README, re.DOTALL)


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = command.split()
    assert program == "gg-datalog"
    return subprocess.run(
        [sys.executable, "-m", "gg_datalog", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "GG_DATALOG_CONFIRM": "120"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that has the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def test_the_first_example(tmp_path: Path) -> None:
    """The model of the README, captured as it says, and once more without the all-reduce."""
    pytest.importorskip("torch", reason="the first example is captured with torch")
    shutil.copytree(ROOT / "examples" / "first", tmp_path / "first")
    model = tmp_path / "first" / "model.py"
    assert MODEL in model.read_text(encoding="utf-8")
    cd, capture, extract, run = (line[2:] for line in RIGHT.splitlines() if line.startswith("$ "))
    assert cd == "cd examples/first"
    for text, code in ((RIGHT, 0), (BROKEN, 1)):
        for command in (capture, extract):
            assert _run(command, model.parent).returncode == 0
        done = _run(run, model.parent)
        shown = text[text.index(f"$ {run}\n") + len(f"$ {run}\n") :].removesuffix("...\n")
        assert (done.returncode, done.stdout[: len(shown)]) == (code, shown)
        lines = model.read_text(encoding="utf-8").splitlines(keepends=True)
        model.write_text("".join(line for line in lines if "dist.all_reduce(y)" not in line))


def test_the_first_command(folder: Path) -> None:
    commands = [c.strip() for c in TRY.split("&&") if c.strip().startswith("gg-datalog")]
    assert [c.split()[1] for c in commands] == ["extract", "run", "query"]
    for command in commands:
        done = _run(command, folder)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_second_command_is_what_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    install, test = (c.strip() for c in TESTS.split("&&")[-2:])
    assert install == "python -m pip install --quiet '.[dev,torch,models]'"
    assert install.replace("--quiet", "--quiet --disable-pip-version-check") in ci
    assert f"&& {test}\n" in ci


def test_the_transcript(folder: Path) -> None:
    """But for the last line of a run: engine and seconds."""
    _, *blocks = re.split(r"^\$ ", TRANSCRIPT, flags=re.MULTILINE)
    for block in blocks:
        command, _, expected = block.partition("\n")
        done = _run(command, folder)
        assert done.returncode == (1 if command.startswith("gg-datalog run") else 0)
        found, told = (re.sub(r"(?m)^\d+ facts, .*", "", text) for text in (done.stdout, expected))
        assert found == told


def test_links_and_folders_exist() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    folders = re.findall(r"^\| `([a-z_]+/)` \|", README, re.MULTILINE)
    assert links and folders
    assert [path for path in (*links, *folders) if not (ROOT / path).exists()] == []


def test_the_changelog_begins_with_this_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ([\d.]+)", changes, re.MULTILINE)[0] == __version__
