"""`--operators FILE`, with the worked example of docs/operators.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ..command import Cli
from .build import call, graph, placeholder, returns, write_case

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
REDUCE = "_c10d_functional.all_reduce.default"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The table of the page's worked example."""
    _, _, example = PAGE.read_text(encoding="utf-8").partition("## A worked example")
    found = re.findall(r"```toml\n(.*?)```", example, re.DOTALL)
    assert len(found) == 1
    path = tmp_path / "mylib.toml"
    path.write_text(found[0])
    return path


def _kernel(*shape: int, alpha: float = 0.5, x: str = "x", gate: str = "gate") -> dict[str, Any]:
    return call("y", "mylib.scaled_silu.default", [f"%{x}", f"%{gate}", alpha], shape)


def _sharded(tmp_path: Path, alpha: float = 0.5) -> Path:
    """Both operands cut along `ffn`."""
    names = ("x", "gate")
    rank = graph(*(placeholder(n, [4, 3]) for n in names), _kernel(4, 3, alpha=alpha), returns("y"))
    whole = graph(*(placeholder(n, [4, 6]) for n in names), _kernel(4, 6), returns("y"))
    return write_case(tmp_path / "case", {"seq": whole, "dist.r0": rank, "dist.r1": rank})


def _summed(tmp_path: Path, operand: str) -> Path:
    """One operand is a matrix product of which each rank has a part, reduced after the kernel."""
    other = "gate" if operand == "x" else "x"
    kernel = {operand: "mm", other: other}

    def nodes(inner: int, reduce: bool) -> dict[str, Any]:
        given = [placeholder("a", [4, inner]), placeholder("b", [inner, 6])]
        given += [placeholder(other, [4, 6]), call("mm", "aten.mm.default", ["%a", "%b"], [4, 6])]
        made = [_kernel(4, 6, **kernel)]  # type: ignore[arg-type]
        made += [call("out", REDUCE, ["%y", "sum", "0"], [4, 6])] if reduce else []
        return graph(*given, *made, returns("out" if reduce else "y"))

    rank = nodes(2, True)
    return write_case(tmp_path / "case", {"seq": nodes(4, False), "dist.r0": rank, "dist.r1": rank})


def _status(cli: Cli, case: Path, tmp_path: Path, *options: object) -> int:
    facts = tmp_path / "facts"
    assert cli("extract", case, "-o", facts, *options).status == 0
    return cli("run", facts, "--engine", "clingo").status


def test_the_worked_example(cli: Cli, tmp_path: Path, table: Path) -> None:
    case = _sharded(tmp_path)
    assert _status(cli, case, tmp_path) == 3
    assert _status(cli, case, tmp_path, "--operators", table) == 0


def test_run_takes_the_table_too(cli: Cli, tmp_path: Path, table: Path) -> None:
    case = _sharded(tmp_path)
    run = ("run", tmp_path / "facts", "--engine", "clingo", "--format", "json")
    assert _status(cli, case, tmp_path) == 3
    found = cli(*run, "--operators", table)
    assert found.status == 0
    assert "mylib.scaled_silu works element by element" in [
        row["text"] for row in found.report["assumptions"]
    ]
    assert cli(*run).status == 3


def test_attributes_have_to_agree(cli: Cli, tmp_path: Path, table: Path) -> None:
    """Another attribute is no proof of a mistake by itself: nothing is executed here."""
    case = _sharded(tmp_path, alpha=0.25)
    assert _status(cli, case, tmp_path, "--operators", table) == 3


@pytest.mark.parametrize(("operand", "status"), [("x", 0), ("gate", 1)])
def test_an_open_sum_passes_linear_operands_only(
    cli: Cli, tmp_path: Path, table: Path, operand: str, status: int
) -> None:
    case = _summed(tmp_path, operand)
    assert _status(cli, case, tmp_path, "--operators", table) == status


def test_a_row_replaces_the_one_that_is_there(cli: Cli, tmp_path: Path, table: Path) -> None:
    stricter = tmp_path / "stricter.toml"
    stricter.write_text(table.read_text().replace("linear = [0]", 'whole = ["f"]'))
    options = ("--operators", table, "--operators", stricter)
    assert _status(cli, _sharded(tmp_path), tmp_path, *options) == 3


def test_several_results_are_not_element_by_element(cli: Cli, tmp_path: Path) -> None:
    table = tmp_path / "frexp.toml"
    table.write_text('[elementwise]\n"aten.frexp" = []\n')
    both = call("both", "aten.frexp.Tensor", ["%x"], None)
    first = call("y", "<built-in function getitem>", ["%both", 0], [4])
    program = graph(placeholder("x", [4]), both, first, returns("y"))
    case = write_case(tmp_path / "case", {"seq": program, "dist.r0": program})
    found = cli("verify", case, "--operators", table)
    assert "it has several results: [elementwise] is for one" in found.out
