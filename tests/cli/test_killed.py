"""However a command ends, what was there before is there afterwards, or the new one is, whole."""

from __future__ import annotations

import json
import random
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from gg_datalog.foundation.aside import made_aside
from gg_datalog.foundation.folders import replaced_folder

from ..command import Cli
from .processes import ROOT, killed_after, killed_at

TERM, KILL = int(signal.SIGTERM), int(signal.SIGKILL)


def whole(folder: Path) -> dict[str, object]:
    """The manifest of a folder that holds all that it lists, and nothing else."""
    manifest: dict[str, object] = json.loads((folder / "manifest.json").read_text())
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert isinstance(manifest["files"], list) and files == set(manifest["files"])
    return manifest


def verdict(folder: Path) -> str:
    """The verdict in a folder that is whole."""
    whole(folder)
    found: str = json.loads((folder / "report.json").read_text())["verdict"]
    return found


class World:
    """A case that refines, and one that does not, to be written to ``out`` one after the other."""

    def __init__(self, cli: Cli, good: Path, bad: Path, folder: Path) -> None:
        self.cli, self.good, self.bad = cli, good, bad
        self.folder, self.home = folder, folder / "home"
        self.out = self.home / "out"

    def command(self, name: str, case: Path) -> list[object]:
        """The command that writes ``out``."""
        if name == "extract":
            return [name, case, "-o", self.out]
        options = ["-o", self.out, "--engine", "clingo", "--no-repairs"]
        if name == "verify":
            return [name, case, *options]
        facts = self.folder / f"facts-{case.name}"
        if not facts.exists():
            assert self.cli("extract", case, "-o", facts).status == 0
        return [name, facts, *options]

    def make(self, name: str, case: Path) -> None:
        """Writes ``out``, and leaves nothing beside it."""
        assert self.cli(*self.command(name, case)).status in (0, 1)
        assert self.is_of(name) == case and self.left() == []

    def is_of(self, name: str) -> Path:
        """The case that ``out``, which is whole, is of."""
        manifest = whole(self.out)
        if name == "extract":
            case = manifest["case"]
            assert isinstance(case, dict)
            return Path(case["seq"]).parent
        result = self.out if name == "run" else self.out / "result"
        return {"refines": self.good, "does-not-refine": self.bad}[verdict(result)]

    def left(self) -> list[str]:
        """What is hidden beside ``out``."""
        return sorted(path.name for path in self.home.iterdir() if path.name.startswith("."))


@pytest.fixture
def world(
    cli: Cli, good: Path, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    """See there; what is temporary has a folder of its own."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return World(cli, good, bad, tmp_path)


FILLED = ("before", "gg_datalog.foundation.folders:_complete")
READY = ("before", "gg_datalog.foundation.folders:swapped")
DONE = ("after", "gg_datalog.foundation.folders:swapped")


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("verify", [("after", "gg_datalog.foundation.aside:_locked"), FILLED, READY, DONE]),
        ("extract", [READY, DONE]),
        ("run", [READY, DONE]),
    ],
)
def test_killed_at_any_point(world: World, name: str, places: list[tuple[str, str]]) -> None:
    """Nothing can be cleaned up by who is killed: the next command does it."""
    world.make(name, world.bad)
    for place in places:
        assert killed_at(*place, KILL, *world.command(name, world.good)) == -KILL
        assert world.is_of(name) == (world.good if place == DONE else world.bad)
        assert len(world.left()) == 1
        world.make(name, world.bad)


def test_killed_where_there_was_nothing(world: World) -> None:
    assert killed_at(*READY, KILL, *world.command("extract", world.good)) in (0, -KILL)
    world.home.mkdir(exist_ok=True)
    assert killed_at(*FILLED, KILL, *world.command("extract", world.good)) == -KILL
    world.make("extract", world.bad)


@pytest.mark.parametrize("name", ["verify", "extract", "run"])
def test_stopped(world: World, name: str) -> None:
    """SIGTERM: everything is as before, and the process is one that was ended by it."""
    world.make(name, world.bad)
    for place in (FILLED, READY):
        assert killed_at(*place, TERM, *world.command(name, world.good)) == -TERM
        assert (world.is_of(name), world.left()) == (world.bad, [])
    assert list((world.folder / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [TERM, KILL])
def test_random_moments(world: World, number: int) -> None:
    """Of what is stopped there is nothing left that runs on, or that is temporary."""
    world.make("verify", world.bad)
    for _ in range(3):
        before = world.is_of("verify")
        case = world.good if before == world.bad else world.bad
        moment = random.uniform(0.2, 3)
        status = killed_after(moment, number, *world.command("verify", case))
        assert status in (-number, 0, 1), moment
        # who is ended after the new folder took its place, but before the end, leaves the new one
        allowed = (before, case) if status == -number else (case,)
        assert world.is_of("verify") in allowed, moment
        if number == TERM:
            assert world.left() == [] and list((world.folder / "tmp").iterdir()) == []
            assert _running(str(world.folder / "tmp")) == []
    world.make("verify", world.good)


def _running(word: str) -> list[str]:
    """The commands of processes that name it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().decode("utf-8", "replace"))
    return [command for command in found if word in command]


def test_a_capture_that_is_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="programs are captured with torch")
    with replaced_folder(world.out, "case") as fresh:
        (fresh / "seq.json").write_text("{}")
    monkeypatch.chdir(ROOT / "examples" / "first")
    command = ["capture", "model:tensor_parallel", "--world-size", 2, "-o", world.out]
    for place in (("before", "gg_datalog.tracing.api:in_processes"), READY):
        for number in (TERM, KILL):
            assert killed_at(*place, number, *command) == -number
            assert (world.out / "seq.json").read_text() == "{}"
            whole(world.out)
    assert len(world.left()) == 1
    with replaced_folder(world.out, "case"):
        pass
    assert world.left() == []


# ---- where two folders cannot be swapped in one step ----------------------------------------------
def test_two_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gg_datalog.foundation.folders.swapped", lambda one, other: False)
    world.make("extract", world.bad)
    world.make("extract", world.good)


@pytest.mark.parametrize("command", ["extract", "run"])
def test_killed_between_two_steps(
    world: World, cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The next command puts the old one back, whether it reads or writes."""
    world.make("extract", world.bad)
    aside = world.home / ".out.gg-datalog-k3j2h1ab"
    (aside / "new").mkdir(parents=True)
    (world.out).rename(aside / "old")
    if command == "run":
        assert cli("run", world.out, "--engine", "clingo", "--no-repairs").status == 1
    else:
        (world.good / "seq.json").write_text("{")
        assert cli("extract", world.good, "-o", world.out).status == 2
        assert world.is_of("extract") == world.bad
    assert world.left() == []


def test_who_is_alive_is_left_alone(world: World, cli: Cli) -> None:
    world.make("extract", world.bad)
    with made_aside(world.out) as aside:
        (aside / "new").mkdir()
        mine = world.home / ".out.gg-datalog-mine"
        mine.mkdir()
        (mine / "thesis.txt").write_text("irreplaceable")
        assert cli(*world.command("extract", world.good)).status == 0
        assert (aside / "new").is_dir() and (mine / "thesis.txt").exists()
    assert world.left() == [mine.name]
