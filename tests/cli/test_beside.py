"""Commands beside each other on one folder: each sees one extraction, and all of them end."""

from __future__ import annotations

import os
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from gg_datalog.foundation.folders import in_use, replaced_folder
from gg_datalog.result.store import open_facts

from ..command import Cli
from .processes import run
from .test_killed import whole

FAST = ("--engine", "clingo", "--no-repairs")


def test_two_runs_beside_an_extract(cli: Cli, good: Path, bad: Path, tmp_path: Path) -> None:
    facts = tmp_path / "home" / "facts"
    assert cli("extract", good, "-o", facts).status == 0

    def running(place: int) -> list[CompletedProcess[bytes]]:
        report = ("--report", f"html={tmp_path}/{place}.html")
        return [run("run", facts, *FAST, *report) for _ in range(3)]

    def extracting() -> list[CompletedProcess[bytes]]:
        return [run("extract", case, "-o", facts) for case in (bad, good, bad)]

    with ThreadPoolExecutor(3) as beside:
        extracts = beside.submit(extracting)
        ran = [beside.submit(running, place) for place in (1, 2)]
    runs = [done for each in ran for done in each.result()]
    waited = b"waiting for another gg-datalog, which uses"
    lines = [line for done in (*runs, *extracts.result()) for line in done.stderr.splitlines()]
    assert {done.returncode for done in extracts.result()} == {0}, lines
    assert {done.returncode for done in runs} <= {0, 1}, lines
    assert all(line.startswith(waited) for line in lines)
    assert [path.name for path in facts.parent.iterdir()] == ["facts"]
    assert cli("run", facts, *FAST).status == 1
    whole(facts / "result")


def test_readers_see_one_generation(tmp_path: Path, cli: Cli, good: Path, bad: Path) -> None:
    """Facts that are read while they are replaced, over and over, are those of either case."""
    facts, hashes = tmp_path / "facts", set()
    for case in (good, bad):
        assert cli("extract", case, "-o", facts).status == 0
        hashes.add(open_facts(facts).joint_hash)
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(lambda: [run("extract", c, "-o", facts) for c in (good, bad) * 3])
        seen = set()
        while not writing.done():
            seen.add(open_facts(facts).joint_hash)
    assert {done.returncode for done in writing.result()} == {0}
    assert seen == hashes


@contextmanager
def _reading(folder: Path) -> Iterator[Callable[[], None]]:
    """Somebody who uses the folder until he is told to stop."""
    ready, stop = threading.Event(), threading.Event()

    def use() -> None:
        with in_use(folder):
            ready.set()
            stop.wait(60)

    reader = threading.Thread(target=use)
    reader.start()
    ready.wait(60)
    try:
        yield stop.set
    finally:
        stop.set()
        reader.join()


def test_who_writes_waits_for_who_reads(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "facts"
    for text in ("old", "new"):
        with _reading(folder) as stop, replaced_folder(folder, "facts") as fresh:
            (fresh / "a").write_text(text)
            waiting = threading.Timer(0.5, stop)
            waiting.start()
        waiting.join()
        assert (folder / "a").read_text() == text
    err = capfd.readouterr().err
    assert err == f"waiting for another gg-datalog, which uses {folder}\n"


def test_who_reads_inside_is_waited_for_too(tmp_path: Path) -> None:
    """A result inside of facts, facts inside of a check."""
    folder = tmp_path / "check"
    with replaced_folder(folder, "check") as fresh, replaced_folder(fresh / "facts", "facts") as f:
        (f / "a").write_text("old")
    replaced = threading.Event()

    def replace() -> None:
        with replaced_folder(folder, "check") as fresh:
            (fresh / "b").write_text("new")
        replaced.set()

    with _reading(folder / "facts") as stop:
        writer = threading.Thread(target=replace)
        writer.start()
        assert not replaced.wait(0.5) and (folder / "facts" / "a").exists()
        stop()
        writer.join()
    assert replaced.is_set() and (folder / "b").exists()


def test_other_locks_of_the_folder_stop_nobody(cli: Cli, good: Path, tmp_path: Path) -> None:
    """`flock FOLDER gg-datalog ...` is how others keep commands apart."""
    import fcntl

    facts = tmp_path / "facts"
    assert cli("extract", good, "-o", facts).status == 0
    for folder in (facts, tmp_path):
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert run("run", facts, *FAST).returncode == 0
        assert run("extract", good, "-o", facts).returncode == 0
        os.close(handle)


@pytest.fixture
def anywhere() -> Iterator[Path]:
    """A folder that everybody can get to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def test_folders_that_may_only_be_read(cli: Cli, good: Path, anywhere: Path) -> None:
    """Who may write nothing reads all the same: as nobody, where these tests are run by root."""
    facts = anywhere / "facts"
    assert cli("extract", good, "-o", facts).status == 0
    for path in (*anywhere.rglob("*"), anywhere):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        child = os.fork()
        if not child:
            os._exit(_reads(facts))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        anywhere.chmod(0o755)
        facts.chmod(0o755)


def _reads(facts: Path) -> int:
    try:
        if os.geteuid() == 0:
            os.setuid(65534)
        assert not os.access(facts, os.W_OK)
        with in_use(facts):
            return 0 if open_facts(facts).joint_hash else 1
    except BaseException:
        traceback.print_exc()
        return 1
