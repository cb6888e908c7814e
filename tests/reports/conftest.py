"""Results of small cases with every verdict, and the command line in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gg_datalog.cli import cli as commands

from ..cli.build import call, documents, write_case

STATUS = {"refines": 0, "missing": 1, "mismatch": 1, "inconclusive": 3}


@pytest.fixture(autouse=True)
def no_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests themselves may run in a workflow of GitHub: they must not write into its summary."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Facts folders with a result inside, by the name of what is the matter."""
    root = tmp_path_factory.mktemp("reports")
    return {name: _verified(root / name, files) for name, files in _cases()}


def _cases() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "refines", documents()
    yield "missing", documents(reduced=False)
    files = documents()
    files["dist.r1"] = documents(reduced=False)["dist.r1"]
    yield "mismatch", files
    files = documents()
    for name in ("seq", "dist.r0", "dist.r1"):
        nodes = files[name]["nodes"]
        nodes[-2] = call("y", "mine.kernel.default", [f"%{nodes[-3]['name']}"], [4, 5])
    files["dist.r1"]["nodes"][-2]["args"].append(7)
    yield "inconclusive", files


def _verified(folder: Path, files: dict[str, Any]) -> Path:
    case, facts = write_case(folder / "case", files), folder / "facts"
    run = CliRunner().invoke
    assert run(commands, ["extract", str(case), "-o", str(facts)]).exit_code == 0
    done = run(commands, ["run", str(facts), "--engine", "clingo"])
    assert done.exit_code == STATUS[folder.name], done.output
    return facts
