"""Both forms of facts: `run` takes either, and the souffle binary reads the one in text."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from pyarrow import parquet

from gg_datalog.datalog import program_path
from gg_datalog.engine.parser import parse_program

from ..command import Cli


def test_run_takes_both_forms(cli: Cli, bad: Path, tmp_path: Path) -> None:
    reports = []
    for form in ("parquet", "tsv"):
        facts = tmp_path / form
        assert cli("extract", bad, "-o", facts, "--facts-format", form).status == 0
        found = cli("run", facts, "--engine", "clingo", "--format", "json")
        assert found.status == 1
        reports.append({k: v for k, v in found.report.items() if k != "stats"})
        suffix = ".parquet" if form == "parquet" else ".facts"
        assert {p.suffix for p in facts.iterdir() if p.is_file()} == {suffix, ".json"}
    assert reports[0] == reports[1]


@pytest.mark.skipif(shutil.which("souffle") is None, reason="souffle is not on the PATH")
def test_souffle_by_hand(cli: Cli, good: Path, tmp_path: Path) -> None:
    facts, out = tmp_path / "facts", tmp_path / "out"
    out.mkdir()
    assert cli("extract", good, "-o", facts, "--facts-format", "tsv").status == 0
    command = ["souffle", "-F", facts, "-D", out, program_path()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert cli("run", facts, "--engine", "souffle").status == 0
    for name in parse_program(program_path()).outputs:
        rows = (out / f"{name}.csv").read_text().splitlines()
        assert len(rows) == parquet.read_metadata(facts / "result" / f"{name}.parquet").num_rows
