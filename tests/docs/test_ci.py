"""docs/ci.md and docs/configuration.md: snippets are what they say they are, commands run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gg_datalog.cli import cli
from gg_datalog.settings.configuration import load
from gg_datalog.settings.configured import KEYS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


WORKFLOW, REMOTE, LOCAL = (yaml.safe_load(text) for text in _blocks("yaml"))


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Runs a shell command in the folder of the test, as a workflow's step is run."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    shim = bin_folder / "gg-datalog"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m gg_datalog "$@"\n')
    shim.chmod(0o755)
    summary = tmp_path / "summary.md"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_STEP_SUMMARY": str(summary)}
    env["PATH"] = f"{bin_folder}:{env['PATH']}"

    def run(command: str) -> subprocess.CompletedProcess[str]:
        shell = ["bash", "-e", "-c", command]
        return subprocess.run(
            shell, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    return run


@pytest.fixture(params=[True, False], ids=["right", "broken"])
def right(request: pytest.FixtureRequest, tmp_path: Path) -> bool:
    """The first example is in the folder of the test, as it is or without its all-reduce."""
    pytest.importorskip("torch", reason="the example is captured with torch")
    shutil.copy(ROOT / "examples" / "first" / "model.py", tmp_path)
    model = tmp_path / "model.py"
    if not request.param:
        lines = model.read_text(encoding="utf-8").splitlines(keepends=True)
        model.write_text("".join(line for line in lines if "dist.all_reduce(y)" not in line))
    return bool(request.param)


def test_the_workflow(run: Any, right: bool, tmp_path: Path) -> None:
    (job,) = WORKFLOW["jobs"].values()
    assert all(step.keys() & {"uses", "run"} for step in job["steps"])
    (verify,) = (step for step in job["steps"] if step.get("name") == "verify")
    done = run(verify["run"])
    assert done.returncode == (0 if right else 1), done.stderr
    assert ("::error file=model.py,line=15" in done.stdout) is not right
    assert "refine" in (tmp_path / "summary.md").read_text()
    uploads = [step["with"] for step in job["steps"] if "with" in step]
    (sarif,) = (given["sarif_file"] for given in uploads if "sarif_file" in given)
    (page,) = (given["path"] for given in uploads if "path" in given)
    assert (tmp_path / page).is_file() and (tmp_path / "gg" / "result").is_dir()
    results = json.loads((tmp_path / sarif).read_text())["runs"][0]["results"]
    assert (results == []) is right


@pytest.mark.exhaustive("right")
def test_the_tests_of_a_model(run: Any, right: bool, tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(_blocks("python")[0])
    done = run(f"{sys.executable} -m pytest -p no:cacheprovider test_model.py")
    assert done.returncode == (0 if right else 1), done.stdout
    assert ("2 passed" if right else "2 failed") in done.stdout
    if not right:
        shown = [re.escape(line).replace(r"\.\.\.", ".*") for line in _lines("text")]
        assert all(re.search(line, done.stdout) for line in shown)


def _lines(language: str) -> list[str]:
    return [line for line in _blocks(language)[0].splitlines() if line != "E"]


@pytest.mark.exhaustive
def test_the_hooks(run: Any, right: bool) -> None:
    (hook,) = HOOKS
    assert hook["entry"].split()[1] in cli.commands
    (remote,) = REMOTE["repos"][0]["hooks"]
    (local,) = LOCAL["repos"][0]["hooks"]
    assert remote["id"] == hook["id"] and re.match(remote["files"], "model.py")
    assert run(local["entry"]).returncode == (0 if right else 1)
    pinned = re.search(r"(?m)^torch = \[(.*)\]", (ROOT / "pyproject.toml").read_text())
    assert pinned and [pinned[1].strip('"')] == remote["additional_dependencies"]
    command = " ".join([hook["entry"], *remote["args"]])
    assert run(command).returncode == (0 if right else 1)


def test_the_baseline(run: Any, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    write, read = re.findall(r"^\$ (gg-datalog .*)", PAGE, re.MULTILINE)
    assert run(write).returncode == 0
    done = run(read)
    assert (done.returncode, done.stderr) == (0, "")
    shown = _blocks("console")[0].split(f"$ {read}\n")[1].removesuffix("...\n")
    assert done.stdout.startswith(shown)
    without, _, _ = read.partition(" --baseline")
    assert run(without).returncode == 1
    entry = json.loads(_blocks("json")[0])["entries"][0]
    assert json.loads((tmp_path / "known.json").read_text())["entries"][0].keys() == entry.keys()


def test_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(CONFIGURATION.split("```toml\n")[1].split("```")[0])
    assert load(path).values["severity"] == {"GG133": "error", "GG131": "off"}
    table = CONFIGURATION.split("| key | value |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == list(KEYS)
