"""Input that is no regular file: one clear message at once, whatever file it is."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ..command import Cli, Outcome
from .processes import run

Make = Callable[[Path], object]


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket may not be long
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, tuple[Make, str]] = {
    "fifo": (os.mkfifo, "a named pipe (FIFO), no regular file"),
    "socket": (_socket, "a socket, no regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "a device, no regular file"),
    "folder": (Path.mkdir, "a folder, no regular file"),
}


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


CASE = ["seq", "dist.r1", "groups", "relations", "outputs", "capture"]


def _refused(found: Outcome, path: Path, word: str) -> None:
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"error: {path}: this is {word}\n"), found.err


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a pipe would wait for ever: that is an error here."""
    kept = os.open

    def opening(path: object, flags: int, *rest: object, **named: object) -> int:
        fifo = isinstance(path, (str, Path)) and Path(path).is_fifo()
        assert not fifo or flags & os.O_NONBLOCK, f"{path} is opened"
        return kept(path, flags, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", opening)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASE)
def test_files_of_a_case(cli: Cli, good: Path, tmp_path: Path, name: str, kind: str) -> None:
    make, word = KINDS[kind]
    path = good / f"{name}.json"
    path.unlink(missing_ok=True)
    make(path)
    _refused(cli("extract", good, "-o", tmp_path / "facts"), path, word)
    _refused(cli("verify", good), path, word)
    assert not (tmp_path / "facts").exists()


@pytest.mark.parametrize("name", CASE)
def test_links_to_themselves(cli: Cli, good: Path, tmp_path: Path, name: str) -> None:
    path = good / f"{name}.json"
    path.unlink(missing_ok=True)
    _loop(path)
    for command in (
        ["extract", good, "-o", tmp_path / "facts"],
        ["verify", good],
        ["replay", good],
    ):
        found = cli(*command)
        assert (found.status, found.out) == (2, "")
        assert found.err.startswith(f"error: {path}: this link leads round in a circle\n")
    assert not (tmp_path / "facts").exists()
    found = cli("audit", "run", good, "-o", tmp_path / "audit")
    assert found.status == 1 and "malformed" in found.out and "round in a circle" in found.out


@pytest.mark.parametrize("name", ["manifest.json", "result/manifest.json", "result/result.duckdb"])
def test_links_to_themselves_in_folders_of_ours(
    cli: Cli, judged: Callable[[bool], Path], name: str
) -> None:
    facts = judged(True)
    result, path = facts / "result", facts / name
    path.unlink()
    _loop(path)
    commands = [["explain", result, "y"], ["query", result, "frontier"]]
    if path.parent == facts:
        commands = [["run", facts], ["replay", facts]]
    for command in commands:
        found = cli(*command)
        assert (found.status, found.out) == (2, "")
        assert found.err.startswith(f"error: {path}: this link leads round in a circle\n")


def test_a_link_that_leads_nowhere_is_not_left_out(cli: Cli, good: Path, tmp_path: Path) -> None:
    (good / "groups.json").unlink()
    (good / "groups.json").symlink_to("gone.json")
    found = cli("extract", good, "-o", tmp_path / "facts")
    assert found.status == 2 and "groups not found" in found.err


def test_a_link_to_a_file_is_one(cli: Cli, good: Path, tmp_path: Path) -> None:
    (good / "groups.json").rename(tmp_path / "elsewhere")
    (good / "groups.json").symlink_to(tmp_path / "elsewhere")
    assert cli("extract", good, "-o", tmp_path / "facts").status == 0


OPTIONS = ["--seq", "--dist", "--groups", "--relations", "--outputs", "--operators", "--config"]


@pytest.mark.parametrize("option", OPTIONS)
def test_files_given_by_options(cli: Cli, good: Path, tmp_path: Path, option: str) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    given: list[object] = [good]
    if option in ("--seq", "--dist"):
        other = {"--seq": "--dist", "--dist": "--seq"}[option]
        given = [other, good / {"--seq": "seq.json", "--dist": "dist.r0.json"}[other]]
    found = cli("extract", *given, "-o", tmp_path / "facts", option, path)
    _refused(found, path, "a named pipe (FIFO), no regular file")


def test_files_of_other_commands(
    cli: Cli, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts, pipe = tmp_path / "facts", tmp_path / "pipe"
    result = facts / "result"
    fast = ("--engine", "clingo", "--no-repairs")
    word = "a named pipe (FIFO), no regular file"
    assert cli("extract", good, "-o", facts).status == 0
    assert cli("run", facts, *fast).status == 0
    os.mkfifo(pipe)
    _refused(cli("check", pipe, facts), pipe, word)
    _refused(cli("run", facts, *fast, "--baseline", pipe), pipe, word)
    _refused(cli("run", facts, *fast, "--baseline", pipe, "--write-baseline"), pipe, word)
    _refused(cli("extract", "--from", "fx-text", pipe, pipe, "-o", tmp_path / "x"), pipe, word)
    _refused(cli("extract", "--from", "hlo", pipe, pipe, "-o", tmp_path / "x"), pipe, word)
    for home, name, command in (
        (result, "report.json", ["report", result]),
        (result, "result.duckdb", ["query", result, "frontier"]),
        (result, "manifest.json", ["explain", result, "y"]),
        (facts, "manifest.json", ["run", facts, *fast]),
        (facts, "manifest.json", ["replay", facts]),
    ):
        kept = (home / name).rename(tmp_path / "kept")
        os.mkfifo(home / name)
        _refused(cli(*command), home / name, word)
        (home / name).unlink()
        kept.rename(home / name)
    os.mkfifo(tmp_path / "gg-datalog.toml")
    monkeypatch.chdir(tmp_path)
    _refused(cli("run", facts, *fast), tmp_path / "gg-datalog.toml", word)


def test_facts_that_are_no_files(cli: Cli, good: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    assert cli("extract", good, "-o", facts).status == 0
    (facts / "wanted.parquet").unlink()
    os.mkfifo(facts / "wanted.parquet")
    found = cli("run", facts, "--engine", "clingo")
    assert found.status == 2 and "relation wanted is missing" in found.err


def test_a_folder_with_a_pipe_as_manifest_is_not_ours(cli: Cli, good: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    os.mkfifo(facts / "manifest.json")
    found = cli("extract", good, "-o", facts)
    assert found.status == 2 and "holds no facts written by gg-datalog" in found.err


def test_nothing_waits(good: Path, tmp_path: Path) -> None:
    """The same in a process of its own, which may open files in other ways, too."""
    (good / "groups.json").unlink()
    os.mkfifo(good / "groups.json")
    done = run("extract", good, "-o", tmp_path / "facts")
    assert done.returncode == 2 and b"named pipe" in done.stderr
