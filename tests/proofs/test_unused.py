"""A related input that a rank does not use: `explain` and the page know it all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gg_datalog.proofs.explaining import explain
from gg_datalog.reporting import render
from gg_datalog.result.folder import open_result, read_result

from ..cli.build import call, documents, graph, placeholder, returns, write_case
from .conftest import run

ADD = "aten.add.Tensor"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """relu(x @ w) + b, where the ranks are given b and forget it."""
    folder = tmp_path_factory.mktemp("unused")
    found: dict[str, Any] = documents()
    first, *others, _ = found["seq"]["nodes"]
    bias, total = placeholder("b", [1, 5]), call("z", ADD, ["%y", "%b"], [4, 5])
    found["seq"] = graph(bias, first, *others, total, returns("z"))
    found["outputs"] = [{"seq": "z", "dist": "y"}]
    for rank in (0, 1):
        found[f"dist.r{rank}"]["nodes"].insert(0, bias)
        found["relations"].append({"seq": "b", "rank": rank, "dist": "b"})
    write_case(folder / "case", found)
    return run(folder / "case", folder / "facts") / "result"


def test_it_is_explained(result: Path) -> None:
    told = explain(result, "b")
    assert told.mapped
    assert [tree.text for tree in told.explanations] == ["r0.b = b", "r1.b = b"]
    assert explain(result, "b", rank=1).mapped
    missing = explain(result, "z")
    assert not missing.mapped
    assert "r0.b = b" in [node.text for node in missing.explanations[0].premises]


def test_it_is_in_the_page_and_in_the_view(result: Path) -> None:
    report, _ = read_result(result)
    assert "r0.b = b" in render("html", report, result)
    with open_result(result) as database:
        rows = database.sql("SELECT text FROM relation WHERE seq = 'b' ORDER BY ALL").fetchall()
    assert rows == [("r0.b = b",), ("r1.b = b",)]
