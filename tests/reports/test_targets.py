"""``--report FORMAT=PATH``: refused before any work is done, written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gg_datalog.foundation.errors import InputError
from gg_datalog.reporting import FORMATS
from gg_datalog.reporting.targets import Target, check, parsed, write

from ..command import Cli
from .samples import REFINES, report

ALONE = [form for form in FORMATS if form != "html"]  # need nothing but the report


def _refused(cli: Cli, facts: Path, *words: str, report: object) -> None:
    """Exit code 2 and one message, before there is a result."""
    found = cli("run", facts, "-o", facts.parent / "never", "--report", report)
    assert (found.status, found.out) == (2, "")
    assert "Traceback" not in found.err
    for word in words:
        assert word in found.err
    assert not (facts.parent / "never").exists()


def test_usage(cli: Cli, facts: dict[str, Path]) -> None:
    for text in ("sarif", "sarif=", "=x", "pdf=x", "JSON=x", ""):
        _refused(cli, facts["missing"], "--report", ", ".join(FORMATS), report=text)
    _refused(cli, facts["missing"], "gg-datalog report", report="json=-")


def test_a_path_may_hold_what_it_likes() -> None:
    assert parsed("json=a=b c") == Target("json", "a=b c")
    assert parsed("json=~/x") == Target("json", str(Path.home() / "x"))


def test_places_that_cannot_be_written(cli: Cli, facts: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    where = facts["missing"]
    _refused(cli, where, "folder of this name", report=f"json={tmp_path}")
    _refused(cli, where, str(tmp_path / "file"), report=f"json={tmp_path}/file/x.json")
    _refused(cli, where, "cannot be written", report=f"json={tmp_path}/{'x' * 300}")
    _refused(cli, where, "folder of this name will be made", report=f"json={where.parent}/never")
    assert (tmp_path / "file").read_text() == "kept"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="everything may be written")
def test_folders_without_permission(cli: Cli, facts: dict[str, Path], tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    _refused(cli, facts["missing"], "no file may be made", report=f"json={tmp_path}/x/y.json")


def test_one_place_is_not_written_twice(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a")
    places = [Target("json", str(tmp_path / "a")), Target("junit", str(tmp_path / "link"))]
    with pytest.raises(InputError, match="both json and junit"):
        check(places)
    with pytest.raises(InputError, match="both"):
        check([Target("json", "-"), Target("json", "-")])


def test_folders_are_made(cli: Cli, facts: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    asked = [arg for form in FORMATS for arg in ("--report", f"{form}={out}/{form}")]
    found = cli("run", facts["missing"], "-o", tmp_path / "r", "--format", "json", *asked)
    assert found.status == 1
    assert json.loads(found.out) == json.loads((out / "json").read_text())
    assert sorted(os.listdir(out)) == sorted(FORMATS)
    again = cli("report", tmp_path / "r", *[arg.replace("/b/", "/c/") for arg in asked])
    assert (again.status, again.out, again.err) == (0, "", "")
    for form in FORMATS:
        assert (out / form).read_bytes() == (tmp_path / "a" / "c" / form).read_bytes()


def test_a_report_may_lie_in_the_result(cli: Cli, facts: dict[str, Path], tmp_path: Path) -> None:
    for _ in range(2):
        target = f"junit={tmp_path}/r/reports/junit.xml"
        assert cli("run", facts["missing"], "-o", tmp_path / "r", "--report", target).status == 1
        assert (tmp_path / "r" / "reports" / "junit.xml").exists()
        assert (tmp_path / "r" / "manifest.json").exists()


def test_all_or_nothing(tmp_path: Path) -> None:
    """Where one format cannot be made, no other is written."""
    targets = [Target("json", str(tmp_path / "a")), Target("none", str(tmp_path / "b"))]
    with pytest.raises(KeyError):
        write(targets, REFINES, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_text("x" * 100_000)
    path.chmod(0o640)
    link.symlink_to(path)
    write([Target("json", str(link))], REFINES, tmp_path)
    assert json.loads(path.read_text())["verdict"] == "refines"
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a", "link"]


def test_devices_and_pipes_are_written_to(tmp_path: Path) -> None:
    read, end = os.pipe()
    target = Target("github", f"/dev/fd/{end}")
    check([target])
    write([target], REFINES, tmp_path)
    os.close(end)
    with os.fdopen(read) as pipe:
        assert "gg-datalog: refines" in pipe.read()


@pytest.mark.parametrize("form", ALONE)
def test_what_utf8_cannot_hold_is_written_as_an_escape(form: str, tmp_path: Path) -> None:
    odd = report("refines", "mapped")
    odd.outputs[0].__dict__["name"] = "a\ud800b"
    write([Target(form, str(tmp_path / "x"))], odd, tmp_path)
    text = (tmp_path / "x").read_text(encoding="utf-8")
    assert form == "github" or "\\ud800" in text.replace("\\\\", "\\")


def test_a_person_reads_it_once_more(cli: Cli, facts: dict[str, Path], tmp_path: Path) -> None:
    shown = cli("run", facts["missing"], "-o", tmp_path / "r")
    again = cli("report", tmp_path / "r")
    assert (shown.status, again.status) == (1, 0)
    assert again.out == shown.out


def test_no_result_is_one_message(cli: Cli, facts: dict[str, Path], tmp_path: Path) -> None:
    for folder in (tmp_path, facts["missing"], tmp_path / "no"):
        found = cli("report", folder, "--report", f"json={tmp_path}/x")
        assert (found.status, found.out) == (2, "")
        assert "result" in found.err
    assert os.listdir(tmp_path) == []


def test_the_help_names_every_format(cli: Cli) -> None:
    told = " ".join(cli("run", "--help").out.split())
    assert ", ".join(FORMATS) in told
