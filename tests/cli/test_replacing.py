"""What is replaced: only what gg-datalog wrote, all of it, and through links."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gg_datalog.cli import cli as commands
from gg_datalog.foundation.folders import replaced_folder

from ..command import Cli, Outcome
from .build import documents, write_case
from .test_killed import whole

MINE = "irreplaceable"


Kinds = dict[str, tuple[Path, list[object]]]
FAST = ["--engine", "clingo", "--no-repairs"]


def _commands(good: Path, home: Path) -> Kinds:
    """Folders of each kind, and the command that writes them."""
    facts, result, check = (home / name for name in ("facts", "result", "check"))
    return {
        "facts": (facts, ["extract", good, "-o", facts]),
        "result": (result, ["run", facts, "-o", result, *FAST]),
        "check": (check, ["verify", good, "-o", check, *FAST]),
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds one of each kind."""
    home = tmp_path_factory.mktemp("written")
    for _, command in _commands(write_case(home / "good", documents()), home).values():
        assert CliRunner().invoke(commands, list(map(str, command))).exit_code == 0
    return home


@pytest.fixture
def kinds(written: Path, good: Path, tmp_path: Path) -> Kinds:
    """Folders of each kind, as they were written, and the command that would write them again."""
    found = _commands(good, tmp_path)
    for kind, (folder, _) in found.items():
        shutil.copytree(written / kind, folder)
    return found


def _kept(found: Outcome, folder: Path, before: dict[str, bytes], *words: str) -> None:
    assert (found.status, found.out) == (2, "")
    for word in words:
        assert word in found.err
    assert _content(folder) == before
    assert not [p.name for p in folder.parent.iterdir() if p.name.startswith(".")]


def _content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


PLACES = {
    "facts": ["notes.txt", "case/notes.txt", "result/notes.txt", "mine/a.parquet", ".notes"],
    "result": ["notes.txt", "facts/notes.txt", "wanted.parquet.bak"],
    "check": ["notes.txt", "facts/notes.txt", "facts/case/a.json", "result/deep/er/notes.txt"],
}


@pytest.mark.parametrize(("kind", "place"), [(k, p) for k, named in PLACES.items() for p in named])
def test_files_of_the_user(cli: Cli, kinds: Kinds, kind: str, place: str) -> None:
    folder, command = kinds[kind]
    mine = folder / place
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text(MINE)
    _kept(cli(*command), folder, _content(folder), f"`{place}`", "manifest does not list")
    mine.unlink()
    assert cli(*command).status == 0
    whole(folder)


def test_copies_and_links_of_the_user(cli: Cli, kinds: Kinds, tmp_path: Path) -> None:
    """A result that was copied to be kept, and a link, are nothing that we put there."""
    folder, command = kinds["facts"]
    assert cli("run", folder, "--engine", "clingo").status == 0
    copy = shutil.copytree(folder / "result", folder / "before")
    _kept(cli(*command), folder, _content(folder), "`before/")
    shutil.rmtree(copy)
    (tmp_path / "thesis.txt").write_text(MINE)
    for target in ("thesis.txt", "result", "gone"):
        (folder / "link").symlink_to(tmp_path / target)
        _kept(cli(*command), folder, _content(folder), "`link`")
        (folder / "link").unlink()
    assert cli(*command).status == 0
    assert not (folder / "result").exists() and (tmp_path / "thesis.txt").exists()


MANIFESTS: dict[str, Any] = {
    "kind alone": {"kind": "facts"},
    "of an earlier release": {"kind": "facts", "schema_version": 2, "relations": {"wanted": 1}},
    "files of no list": {"kind": "facts", "files": "notes.txt"},
    "other files": {"kind": "facts", "files": ["wanted.parquet"]},
    "files above": {"kind": "facts", "files": ["../facts/notes.txt", "./notes.txt"]},
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_makes_no_folder_ours(cli: Cli, good: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "facts"
    folder.mkdir()
    (folder / "notes.txt").write_text(MINE)
    (folder / "manifest.json").write_text(json.dumps(MANIFESTS[name]))
    _kept(cli("extract", good, "-o", folder), folder, _content(folder), "does not list")


def test_what_we_put_there_is_replaced(cli: Cli, good: Path, tmp_path: Path) -> None:
    """Results in facts, reports and certificates in either, and what a killed one left."""
    facts = tmp_path / "facts"
    for _ in range(2):
        assert cli("extract", good, "-o", facts).status == 0
        reports = ("--report", f"json={facts}/reports/a.json", "--report", f"html={facts}/result/b")
        assert cli("run", facts, "--engine", "clingo", *reports).status == 0
        assert cli("report", facts / "result", "--report", f"sarif={facts}/c").status == 0
        assert cli("certificate", facts / "result", "-o", facts / "result" / "d").status == 0
        (facts / ".result.gg-datalog-k3j2h1ab").mkdir()
        (facts / ".result.gg-datalog-k3j2h1ab" / "x").write_text("half")
    files = json.loads((facts / "manifest.json").read_text())["files"]
    assert {"reports/a.json", "c"} < set(files)
    files = json.loads((facts / "result" / "manifest.json").read_text())["files"]
    assert {"b", "d"} < set(files)
    check = tmp_path / "check"
    for _ in range(2):
        asked = ("--report", f"markdown={check}/report.md", "--engine", "clingo")
        assert cli("verify", good, "-o", check, *asked).status == 0
        assert cli("run", check / "facts", "--engine", "clingo").status == 0
    assert cli("verify", good, "-o", check, *asked).status == 0
    whole(check)


def test_files_that_others_own_are_not_adopted(cli: Cli, good: Path, tmp_path: Path) -> None:
    """A baseline is the user's, wherever it lies; so is a manifest of something else."""
    facts = tmp_path / "facts"
    assert cli("extract", good, "-o", facts).status == 0
    baseline = ("--baseline", facts / "known.json", "--write-baseline")
    assert cli("run", facts, "--engine", "clingo", *baseline).status == 0
    _kept(cli("extract", good, "-o", facts), facts, _content(facts), "`known.json`")
    page = tmp_path / "page"
    page.mkdir()
    (page / "manifest.json").write_text('{"name": "app", "files": ["a"]}')
    assert cli("report", facts / "result", "--report", f"html={page}/index.html").status == 0
    assert (page / "manifest.json").read_text() == '{"name": "app", "files": ["a"]}'


def test_what_is_read_is_not_replaced(cli: Cli, good: Path, tmp_path: Path) -> None:
    check = tmp_path / "check"
    with replaced_folder(check, "check") as fresh:
        write_case(fresh / "case", documents())
    before = _content(check)
    for case in (check / "case", check / "facts" / ".." / "case"):
        _kept(cli("verify", case, "-o", check), check, before, "would be replaced")
    facts = tmp_path / "facts"
    with replaced_folder(facts, "facts") as fresh:
        write_case(fresh / "case", documents())
    before = _content(facts)
    _kept(cli("extract", facts / "case", "-o", facts), facts, before, "would be replaced")
    parts = ["--seq", good / "seq.json", "--dist", facts / "case" / "dist.r0.json"]
    _kept(cli("extract", *parts, "-o", facts), facts, before, "would be replaced")


# ---- links ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("kind", ["facts", "result", "check"])
def test_a_link_stays_one(
    cli: Cli,
    kinds: Kinds,
    tmp_path: Path,
    kind: str,
    there: bool,
) -> None:
    folder, command = kinds[kind]
    (tmp_path / "disk").mkdir()
    target = folder.rename(tmp_path / "disk" / "target")
    if not there:
        shutil.rmtree(target)
    folder.symlink_to(Path("disk", "target"))
    inode = os.stat(target).st_ino if target.exists() else None
    assert cli(*command).status == 0
    assert folder.is_symlink() and os.readlink(folder) == "disk/target"
    whole(target)
    assert os.stat(target).st_ino != inode
    assert sorted(p.name for p in (tmp_path / "disk").iterdir()) == ["target"]


def test_links_that_lead_to_nothing_of_ours(cli: Cli, good: Path, tmp_path: Path) -> None:
    out, loop = tmp_path / "out", tmp_path / "loop"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text(MINE)
    out.symlink_to(tmp_path / "mine")
    _kept(cli("extract", good, "-o", out), tmp_path / "mine", {"thesis.txt": MINE.encode()}, "out")
    out.unlink()
    out.symlink_to(tmp_path / "mine" / "thesis.txt")
    assert "there is a file of this name" in cli("extract", good, "-o", out).err
    loop.symlink_to(loop)
    found = cli("extract", good, "-o", loop)
    assert found.status == 2 and str(loop) in found.err and loop.is_symlink()


def test_paths_in_manifests_are_those_in_the_end(cli: Cli, good: Path, tmp_path: Path) -> None:
    check = tmp_path / "deep" / "check"
    with replaced_folder(check, "check"):
        pass
    assert cli("verify", good, "-o", check, "--engine", "clingo").status == 0
    manifest = json.loads((check / "result" / "manifest.json").read_text())
    assert manifest["facts"] == str(check / "facts")
    assert ".gg-datalog-" not in "".join(p.read_text() for p in check.rglob("*.json"))
