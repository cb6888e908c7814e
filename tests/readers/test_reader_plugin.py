"""A reader that another package brings, as docs/readers.md shows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "readers.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## A reader of your own\n")[2]
(CODE,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
(TABLE,) = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
(COMMAND,) = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
SEQ = "x = input() [4, 8]\ny = aten.relu.default(x) [4, 8]\n"
RANK = "x = input() [2, 8]\ny = aten.relu.default(x) [2, 8]\n"
Run = Callable[..., subprocess.CompletedProcess[str]]


def distribution(folder: Path, name: str, code: str | None, points: str) -> Path:
    """What installing a package of one module leaves behind."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[gg_datalog.readers]\n{points}\n")
    if code is not None:
        (folder / f"{name.replace('-', '_')}.py").write_text(code)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs ``gg-datalog`` where these folders of packages are installed."""
    for name, text in {"seq.txt": SEQ, "rank0.txt": RANK, "rank1.txt": RANK}.items():
        (tmp_path / name).write_text(text)

    def started(
        *arguments: str, packages: tuple[Path, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        paths = [str(path) for path in (*packages, ROOT)]
        return subprocess.run(
            [sys.executable, "-m", "gg_datalog", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            check=False,
        )

    return started


def test_the_example_of_the_page(run: Run, tmp_path: Path) -> None:
    point = next(line for line in TABLE.splitlines() if line.startswith("mine"))
    packages = distribution(tmp_path / "site", "my-reader", CODE, point.replace('"', ""))
    program, *command = COMMAND.split()
    assert program == "gg-datalog"
    done = run(*command, packages=(packages,))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    about = json.loads((tmp_path / "facts" / "case" / "capture.json").read_text())
    assert about == {"route": "mine"}
    verdict = run("run", "facts", "--format", "json", packages=(packages,))
    report = json.loads(verdict.stdout)
    assert (verdict.returncode, report["verdict"]) == (0, "refines")
    assert report["outputs"][0]["relation"] == "concat(dim=0, [r0.y, r1.y])"


EXTRACT = ("extract", "--from", "mine", "seq.txt", "rank0.txt", "rank1.txt", "-o", "facts")


def refused(run: Run, tmp_path: Path, *packages: Path, arguments: tuple[str, ...] = EXTRACT) -> str:
    """The one message of a command that fails."""
    done = run(*arguments, packages=packages)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr and done.stderr.startswith("error: ")
    assert not (tmp_path / "facts").exists()
    assert [p for p in tmp_path.iterdir() if p.name.startswith(".facts")] == []
    return done.stderr


def test_an_error_in_a_text(run: Run, tmp_path: Path) -> None:
    packages = distribution(tmp_path / "site", "my-reader", CODE, "mine = my_reader:read")
    (tmp_path / "rank1.txt").write_text(RANK + "return y\n")
    text = refused(run, tmp_path, packages)
    assert text.splitlines()[0] == "error: rank1.txt:3: `return y` is no operator"


def test_a_text_that_makes_no_graph(run: Run, tmp_path: Path) -> None:
    """What a reader returns is checked like any case; messages name the text."""
    packages = distribution(tmp_path / "site", "my-reader", CODE, "mine = my_reader:read")
    (tmp_path / "rank1.txt").write_text("y = aten.relu.default(x) [2, 8]\n")
    text = refused(run, tmp_path, packages)
    assert text.startswith("error: rank1.txt") and "`x`" in text


def test_no_such_reader(run: Run, tmp_path: Path) -> None:
    text = refused(run, tmp_path)
    assert "there is no reader `mine`" in text and "installed: fx-text, hlo" in text


BROKEN = {
    "no module": (None, "mine = my_reader:read", "No module named 'my_reader'"),
    "a module that raises": ("raise RuntimeError('here')", "mine = my_reader:read", "here"),
    "a syntax error": ("def read(:", "mine = my_reader:read", "invalid syntax"),
    "no function of that name": ("", "mine = my_reader:read", "has no attribute 'read'"),
    "no function": ("read = 3", "mine = my_reader:read", "is no function"),
    "a module that ends": ("import sys; sys.exit(0)", "mine = my_reader:read", "cannot be loaded"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_reader_that_cannot_be_loaded(name: str, run: Run, tmp_path: Path) -> None:
    code, point, text = BROKEN[name]
    packages = distribution(tmp_path / "site", "my-reader", code, point)
    message = refused(run, tmp_path, packages)
    assert "the reader `mine` (my_reader:read)" in message and text in message


def test_two_readers_of_one_name(run: Run, tmp_path: Path) -> None:
    packages = [
        distribution(tmp_path / name, name, CODE, f"mine = {name}:read") for name in ("one", "two")
    ]
    text = refused(run, tmp_path, *packages)
    assert "two readers are called `mine`: one:read, two:read" in text


RAISING = {
    "raises": "def read(given): return {}['x']",
    "returns nothing": "def read(given): pass",
}


@pytest.mark.parametrize("name", RAISING)
def test_a_reader_that_is_wrong(name: str, run: Run, tmp_path: Path) -> None:
    packages = distribution(tmp_path / "site", "my-reader", RAISING[name], "mine = my_reader:read")
    assert "the reader `mine`" in refused(run, tmp_path, packages)
