"""The captured pairs, through the command line."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ..numeric.pairs import CORPUS
from .trial import Bench

GOOD = ("gpt-tp2-l1", "gpt-tp2-l2", "llama-tp2-l1", "qwen2-tp2-l1")


def case(name: str) -> Path:
    """A captured pair; the test is skipped where the corpus is absent."""
    if not (CORPUS / name).is_dir():
        pytest.skip(f"the corpus is not at {CORPUS}")
    return CORPUS / name


def expected(name: str) -> dict[str, Any]:
    """What a correct checker says."""
    return json.loads((case(name) / "expect.json").read_text())


def expression(text: str) -> Any:
    """A relation as a tree."""
    quoted = re.sub(r"\br\d+\.[\w.]+", lambda m: repr(m[0]), text.replace("dim=", ""))
    return ast.dump(ast.parse(quoted, mode="eval"))


def meant(row: dict[str, Any], ranks: int) -> list[str]:
    """The relations that say what a row of ``expect.json`` says."""
    names = [f"r{rank}.{row['dist']}" for rank in range(ranks)]
    if row["form"] == "equal":
        return names
    dim = int(row["form"].removeprefix("concat dim "))
    return [f"concat(dim={dim}, [{', '.join(names)}])"]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_pair_refines(name: str, bench: Bench) -> None:
    found = bench.run(case(name))
    assert found.status == 0, found.error
    assert {row["status"] for row in found.report["outputs"]} == {"mapped"}
    ranks = len(list(case(name).glob("dist.r*.json")))
    for row in expected(name)["check"]:
        forms = [expression(text) for text in meant(row, ranks)]
        assert expression(found.relations[row["seq"]]) in forms


def test_an_accumulated_mean_counts_twice(bench: Bench) -> None:
    found = bench.run(case("bug-grad-accumulation"))
    assert found.status == 1
    assert [(row["seq"], row["status"]) for row in found.report["outputs"]] == [
        ("add_1", "unmapped")
    ]
    (error,) = [f for f in found.report["findings"] if f["level"] == "error"]
    assert "counts `sum_1` 2 times (once each is right)" in error["message"]
    assert error["seq"] == "add_1"


def test_a_partial_gradient_does_not_refine(bench: Bench) -> None:
    found = bench.run(case("bug-wrong-config-allreduce"))
    assert found.status == 1
    first = found.report["findings"][0]
    assert (first["code"], first["seq"], first["dist"]) == ("GG108", "mm_5", ["r0.mm_5", "r1.mm_5"])
    status = {row["seq"]: row["status"] for row in found.report["outputs"]}
    assert status["div_2"] == "mapped"
    wrong = {"add_17", "add_18", "add_19", "add_20"}
    assert not [seq for seq in wrong if status[seq] == "mapped"]


@pytest.mark.parametrize("of", ["dot.52", "slice.53"])
def test_keys_that_are_cut_from_the_queries(of: str, bench: Bench, tmp_path: Path) -> None:
    """One finding, at the slice, and not at what uses it."""
    for path in case("llama-tp2-l1").glob("*.json"):
        document = json.loads(path.read_text())
        if path.name.startswith("dist"):
            (keys,) = (node for node in document["nodes"] if node["name"] == "slice.54")
            keys["args"] = [{"node": of}, 1, 0, 256, 1]
        (tmp_path / path.name).write_text(json.dumps(document))
    (tmp_path / "expect.json").unlink()
    (one,) = bench.run(tmp_path).report["findings"]
    assert (one["code"], one["dist"]) == ("GG112", ["r0.slice.54", "r1.slice.54"])
    assert "nothing of what the sequential `slice.54` takes" in one["message"]
