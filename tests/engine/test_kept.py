"""Rules are read and translated once, and again as soon as anything about them has changed."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from gg_datalog.engine import kept as keeping
from gg_datalog.engine.kept import kept
from gg_datalog.engine.translate import translated
from gg_datalog.engine.translation import Translated

RULES = """.decl a(x: number)
.input a
.decl b(x: number, word: symbol)
.output b
.include "more.dl"
"""
MORE = 'b(x, "a word") :- a(x), x > 1.\n'


class Counting:
    """Translates programs, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, path: Path) -> Translated:
        self.times += 1
        return translated(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program, and a folder of its own to keep what is made of it."""
    monkeypatch.setenv("GG_DATALOG_CACHE", str(tmp_path / "cache"))
    return program_in(tmp_path)


def program_in(folder: Path) -> Path:
    """A program of two files."""
    folder.mkdir(exist_ok=True)
    (folder / "main.dl").write_text(RULES)
    (folder / "more.dl").write_text(MORE)
    return folder


def asked(folder: Path, maker: Counting) -> Translated:
    """The program, in a process that does not have it in memory."""
    keeping._memory.clear()
    return kept("clingo", folder / "main.dl", maker)


def entry(folder: Path) -> Path:
    """The file that is kept."""
    (found,) = (folder / "cache").iterdir()
    return found


def test_it_is_made_once(folder: Path) -> None:
    maker = Counting()
    first = asked(folder, maker)
    assert asked(folder, maker) == first == translated(folder / "main.dl")
    assert maker.times == 1
    entry(folder).unlink()
    assert kept("clingo", folder / "main.dl", maker) == first
    assert maker.times == 1  # from memory


@pytest.mark.parametrize("name", ["main.dl", "more.dl"])
@pytest.mark.parametrize("cleared", [True, False])
def test_a_rule_that_has_changed(folder: Path, name: str, cleared: bool) -> None:
    maker = Counting()
    before = asked(folder, maker)
    text = (folder / name).read_text()
    (folder / name).write_text(text + 'b(x, "") :- a(x), x < 0.\n')
    if cleared:
        keeping._memory.clear()
    found = kept("clingo", folder / "main.dl", maker)
    assert maker.times == 2
    assert len(found.translation.lines) == len(before.translation.lines) + 1
    (folder / name).write_text(text)
    assert asked(folder, maker) == before
    assert maker.times == 2  # both are kept


def test_the_same_texts_in_another_folder(folder: Path) -> None:
    maker = Counting()
    asked(folder, maker)
    other = program_in(folder / "other")
    assert asked(other, maker) == translated(other / "main.dl")
    assert maker.times == 1


def test_a_file_that_is_gone(folder: Path) -> None:
    maker = Counting()
    asked(folder, maker)
    (folder / "more.dl").unlink()
    with pytest.raises(Exception, match=r"more\.dl"):
        asked(folder, maker)


def test_an_include_that_is_written_oddly(folder: Path) -> None:
    (folder / "main.dl").write_text(RULES.replace(".include", ".include /* or not */"))
    maker = Counting()
    assert asked(folder, maker) == asked(folder, maker)
    assert maker.times == 2


def test_another_engine_or_clingo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Counting()
    asked(folder, maker)
    monkeypatch.setattr(keeping, "_stamp", lambda: "0" * 64)
    asked(folder, maker)
    assert maker.times == 2


def cut_off(content: bytes) -> bytes:
    return content[:-9]


def nothing(content: bytes) -> bytes:
    return b""


def changed(content: bytes) -> bytes:
    """A rule of it says something else."""
    assert b"Vx>1" in content or b"Vx > 1" in content
    return content.replace(b"Vx > 1", b"Vx > 9").replace(b"Vx>1", b"Vx>9")


def of_another_form(content: bytes) -> bytes:
    text = json.dumps({"files": 3}).encode()
    return sha256(text).hexdigest().encode() + b"\n" + text


@pytest.mark.parametrize("spoil", [cut_off, nothing, changed, of_another_form])
def test_a_damaged_entry(folder: Path, spoil: object) -> None:
    maker = Counting()
    asked(folder, maker)
    file = entry(folder)
    file.write_bytes(spoil(file.read_bytes()))  # type: ignore[operator]
    assert asked(folder, maker) == translated(folder / "main.dl")
    assert maker.times == 2
    asked(folder, maker)
    assert maker.times == 2  # it was written anew


def test_an_entry_that_others_may_write(folder: Path) -> None:
    maker = Counting()
    asked(folder, maker)
    entry(folder).chmod(0o666)
    asked(folder, maker)
    assert maker.times == 2


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    (folder / "cache").write_text("a file")
    maker = Counting()
    assert asked(folder, maker) == asked(folder, maker)
    assert maker.times == 2


def test_nothing_is_kept_of_a_program_that_is_wrong(folder: Path) -> None:
    (folder / "more.dl").write_text("b(x) :- a(x\n")
    with pytest.raises(Exception, match="inside a clause"):
        asked(folder, Counting())
    assert not (folder / "cache").exists()


def test_a_relative_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Counting()
    monkeypatch.chdir(folder)
    assert asked(Path(), maker) == asked(Path(), maker) == translated(Path("main.dl"))
    assert maker.times == 1


def test_the_folder_is_private(folder: Path) -> None:
    asked(folder, Counting())
    assert (folder / "cache").stat().st_mode & 0o777 == 0o700
    assert entry(folder).stat().st_mode & 0o777 == 0o644
    assert os.listdir(folder / "cache") == [entry(folder).name]


def test_only_a_few_are_kept(folder: Path) -> None:
    for number in range(keeping.ENTRIES + 3):
        (folder / "more.dl").write_text(f'b(x, "") :- a(x), x > {number}.\n')
        asked(folder, Counting())
    assert len(os.listdir(folder / "cache")) == keeping.ENTRIES


def test_many_at_once(folder: Path) -> None:
    def one(_: int) -> Translated:
        return asked(folder, Counting())

    with ThreadPoolExecutor(8) as pool:
        assert set(map(str, pool.map(one, range(24)))) == {str(translated(folder / "main.dl"))}
    assert entry(folder).suffix == ".json"


# ---- where no folder is named ---------------------------------------------------------------------
@pytest.fixture
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user's own files of this kind lie."""
    monkeypatch.delenv("GG_DATALOG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "home"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return folder / "home" / "gg-datalog"


def test_it_lies_beside_the_rules(folder: Path, home: Path) -> None:
    maker = Counting()
    assert asked(folder, maker) == asked(folder, maker)
    assert maker.times == 1
    assert len(os.listdir(folder / "__pycache__")) == 1
    assert not home.exists()


def test_rules_that_lie_where_nothing_can_be_written(folder: Path, home: Path) -> None:
    (folder / "__pycache__").write_text("as if it were on a disk that is only read")
    maker = Counting()
    assert asked(folder, maker) == asked(folder, maker)
    assert maker.times == 1
    assert len(os.listdir(home)) == 1
