"""docs/reports.md: its commands run, and its tables name the fields that there are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gg_datalog.reporting import FORMATS
from gg_datalog.reporting.document import schema

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")


def _fields(after: str) -> list[str]:
    """The fields in the first table after this text."""
    table = PAGE.split(after, 1)[1].split("| --- |", 1)[1].split("\n\n", 1)[0]
    return [
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]


@pytest.mark.parametrize(
    "after, kind",
    [
        ("## json", None),
        ("An output:", "output"),
        ("A finding;", "finding"),
        ("A repair:", "repair"),
    ],
)
def test_tables_name_every_field(after: str, kind: str | None) -> None:
    about = json.loads(schema())
    known = about["properties"] if kind is None else about["$defs"][kind]["properties"]
    assert sorted(_fields(after)) == sorted(known)


def test_every_format_is_described() -> None:
    assert _fields("$ gg-datalog report facts/result\n") == list(FORMATS)


def test_the_commands_run(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = re.findall(r"^\$ (gg-datalog .*)", PAGE, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *command.replace("gg-datalog", "gg_datalog", 1).split()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_STEP_SUMMARY": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (int(" run " in command), ""), command
    assert sorted(os.listdir(tmp_path / "out")) == ["gg.md", "gg.sarif", "gg.xml"]
