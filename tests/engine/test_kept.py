"""Rules are read and translated once, and again as soon as anything about them has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gg_datalog.engine import kept as keeping
from gg_datalog.engine.kept import kept
from gg_datalog.engine.parser import parse_program
from gg_datalog.engine.program import Program

RULES = """.decl a(x: number)
.input a
.decl b(x: number)
.output b
.include "more.dl"
"""
MORE = "b(x) :- a(x), x > 1.\n"


class Counting:
    """Reads programs, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, path: Path) -> Program:
        self.times += 1
        return parse_program(path)


Ask = Callable[[], Program]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program, and a folder of its own to keep what is made of it."""
    monkeypatch.setenv("GG_DATALOG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "main.dl").write_text(RULES)
    (tmp_path / "more.dl").write_text(MORE)
    return tmp_path


def asked(folder: Path, reader: Counting) -> Program:
    """The program, in a process that does not have it in memory."""
    keeping._memory.clear()
    return kept("parsed", folder / "main.dl", reader, lambda made: made)


def entry(folder: Path) -> Path:
    """The file that is kept."""
    (found,) = (folder / "cache").iterdir()
    return found


def test_it_is_made_once(folder: Path) -> None:
    reader = Counting()
    first = asked(folder, reader)
    assert asked(folder, reader) == first == parse_program(folder / "main.dl")
    assert reader.times == 1
    entry(folder).unlink()
    assert kept("parsed", folder / "main.dl", reader, lambda made: made) == first
    assert reader.times == 1  # from memory


@pytest.mark.parametrize("name", ["main.dl", "more.dl"])
@pytest.mark.parametrize("cleared", [True, False])
def test_a_rule_that_has_changed(folder: Path, name: str, cleared: bool) -> None:
    reader = Counting()
    asked(folder, reader)
    text = (folder / name).read_text()
    (folder / name).write_text(text + "b(x) :- a(x), x < 0.\n")
    if cleared:
        keeping._memory.clear()
    found = kept("parsed", folder / "main.dl", reader, lambda made: made)
    assert (reader.times, len(found.clauses)) == (2, 2)


def test_a_file_that_is_gone(folder: Path) -> None:
    reader = Counting()
    asked(folder, reader)
    (folder / "more.dl").unlink()
    with pytest.raises(Exception, match=r"more\.dl"):
        asked(folder, reader)


def test_another_engine_or_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Counting()
    asked(folder, reader)
    monkeypatch.setattr(keeping, "_stamp", lambda: "0" * 64)
    asked(folder, reader)
    assert reader.times == 2


@pytest.mark.parametrize("spoilt", [b"", b"nothing of ours", None])
def test_an_entry_that_cannot_be_read(folder: Path, spoilt: bytes | None) -> None:
    reader = Counting()
    asked(folder, reader)
    file = entry(folder)
    file.write_bytes(file.read_bytes()[:-9] if spoilt is None else spoilt)
    assert asked(folder, reader) == parse_program(folder / "main.dl")
    assert reader.times == 2
    asked(folder, reader)
    assert reader.times == 2  # it was written anew


def test_an_entry_that_others_may_write(folder: Path) -> None:
    reader = Counting()
    asked(folder, reader)
    entry(folder).chmod(0o666)
    asked(folder, reader)
    assert reader.times == 2


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    (folder / "cache").write_text("a file")
    reader = Counting()
    assert asked(folder, reader) == asked(folder, reader)
    assert reader.times == 2


def test_nothing_is_kept_of_a_program_that_is_wrong(folder: Path) -> None:
    (folder / "more.dl").write_text("b(x) :- a(x\n")
    with pytest.raises(Exception, match="inside a clause"):
        asked(folder, Counting())
    assert not (folder / "cache").exists()


def test_nothing_is_kept_of_a_relative_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    kept("parsed", Path("main.dl"), parse_program, lambda made: made)
    assert not (folder / "cache").exists()


def test_the_folder_is_private(folder: Path) -> None:
    asked(folder, Counting())
    assert (folder / "cache").stat().st_mode & 0o777 == 0o700
    assert entry(folder).stat().st_mode & 0o777 == 0o600
    assert os.listdir(folder / "cache") == [entry(folder).name]
