"""`gg-datalog verify`: from a case, or a program, to the verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ..command import Cli


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_case(cli: Cli, good: Path, bad: Path, tmp_path: Path) -> None:
    assert cli("verify", good).out.startswith("REFINES")
    kept = tmp_path / "deep" / "kept"
    found = cli("verify", bad, "-o", kept, "--format", "json", "--report", f"json={tmp_path}/r")
    assert (found.status, found.report["verdict"]) == (1, "does-not-refine")
    assert json.loads((tmp_path / "r").read_text()) == found.report
    assert _names(kept) == ["facts", "manifest.json", "result"]
    assert cli("query", kept / "result", "unmapped_outputs").status == 0
    assert _names(tmp_path) == ["bad", "deep", "good", "r"]


def test_what_was_kept_comes_back_after_an_error(cli: Cli, good: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert cli("verify", good, "-o", kept).status == 0
    before = (kept / "result" / "report.json").read_bytes()
    (good / "seq.json").write_text("{")
    assert cli("verify", good, "-o", kept).status == 2
    assert (kept / "result" / "report.json").read_bytes() == before
    assert _names(tmp_path) == ["good", "kept"]


def test_a_folder_of_somebody_else(cli: Cli, good: Path, tmp_path: Path) -> None:
    found = cli("verify", good, "-o", good)
    assert found.status == 2 and "is not empty and holds no check" in found.err
    assert (good / "seq.json").is_file()


def test_options_of_a_capture_need_a_program(cli: Cli, good: Path) -> None:
    found = cli("verify", good, "--world-size", 2)
    assert found.status == 2 and "--world-size goes with MODULE:FUNCTION" in found.err


def test_a_program(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="programs are captured with torch")
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root / "examples" / "first")
    monkeypatch.syspath_prepend(str(root / "examples" / "first"))
    monkeypatch.delitem(sys.modules, "model", raising=False)  # that of another test
    missing = cli("verify", "model:tensor_parallel")
    assert missing.status == 2 and "does not say how many ranks" in missing.err
    found = cli("verify", "model:tensor_parallel", "--world-size", 2, "-o", tmp_path / "kept")
    assert (found.status, found.out.split(":")[0]) == (0, "REFINES")
    assert "rank 1: " in found.err
    assert _names(tmp_path / "kept") == ["case", "facts", "manifest.json", "result"]
