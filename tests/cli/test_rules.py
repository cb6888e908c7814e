"""``rules``: the whole program as one text, which is the program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gg_datalog.datalog import program_path
from gg_datalog.engine.demand import with_demand
from gg_datalog.engine.one_text import one_text
from gg_datalog.engine.parser import parse_program
from gg_datalog.engine.program import Program
from gg_datalog.foundation.errors import EngineError

from ..command import Cli

EXAMPLE = Path(__file__).parents[2] / "examples" / "tp_block" / "case"


def content(program: Program) -> list[str]:
    """What a program says, without where it says it."""
    heads = [(d.name, d.columns, d.doc) for d in program.declarations.values()]
    rules = [(c.head.relation, c.head.args, len(c.body)) for c in program.clauses]
    return sorted([*map(str, heads), *map(str, rules), *program.inputs, *program.outputs])


def test_it_is_the_program(cli: Cli, tmp_path: Path) -> None:
    found = cli("rules")
    assert found.status == 0
    assert ".include" not in found.out
    written = tmp_path / "rules.dl"
    written.write_text(found.out, encoding="utf-8")
    assert content(parse_program(written)) == content(with_demand(parse_program(program_path())))


@pytest.mark.skipif(shutil.which("souffle") is None, reason="souffle is not on the PATH")
def test_souffle_runs_it(cli: Cli, tmp_path: Path) -> None:
    program, facts = tmp_path / "rules.dl", tmp_path / "facts"
    program.write_text(cli("rules").out, encoding="utf-8")
    assert cli("extract", EXAMPLE, "-o", facts, "--facts-format", "tsv").status == 0
    subprocess.run(["souffle", "-F", facts, "-D", tmp_path, program], check=True)
    assert (tmp_path / "output_mapped.csv").read_text("utf-8").split() == ["0"]


def test_a_file_that_includes_itself(tmp_path: Path) -> None:
    path = tmp_path / "main.dl"
    path.write_text('.include "main.dl"\n', encoding="utf-8")
    with pytest.raises(EngineError, match="includes itself"):
        one_text(path)
