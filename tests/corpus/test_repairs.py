"""What is suggested for broken pairs: the thing that is missing."""

from __future__ import annotations

import random

import pytest

from ..numeric.mutations import mutate
from ..numeric.pairs import CORPUS, corpus, pair
from .trial import Bench


def repair(bench: Bench, name: str) -> dict[str, object]:
    """The suggestion of the first finding for a case of the corpus."""
    program = corpus(name)
    if program is None:
        pytest.skip(f"the corpus is not at {CORPUS}")
    found = bench.program(program).report["findings"][0]["repair"]
    assert isinstance(found, dict)
    return found


def test_a_gradient_that_is_not_reduced(bench: Bench) -> None:
    found = repair(bench, "bug-wrong-config-allreduce")
    assert (found["action"], found["nodes"]) == ("all_reduce", ["r0.mm_5", "r1.mm_5"])
    assert found["tried"]
    assert {"add_8", "add_9", "add_10", "add_11", "add_27"} <= set(found["outputs"])  # type: ignore[arg-type]


def test_micro_batches_whose_means_are_added_up(bench: Bench) -> None:
    found = repair(bench, "bug-grad-accumulation")
    assert (found["action"], found["factor"], found["tried"]) == ("scale", "1/2", True)
    assert found["outputs"] == ["add_1"]


@pytest.mark.parametrize("name", ["gpt-2x3", "llama-1x4-one-kv-head", "qwen2-2x2"])
def test_a_generated_pair_without_one_of_its_reductions(name: str, bench: Bench) -> None:
    broken = mutate(pair(name), random.Random(name), "remove_all_reduce")
    report = bench.program(broken.program).report
    missing = [row["seq"] for row in report["outputs"] if row["status"] == "unmapped"]
    repair = report["findings"][0]["repair"]
    assert repair is not None, broken.text
    assert (repair["action"], repair["outputs"]) == ("all_reduce", missing), broken.text


def test_a_group_that_lacks_a_rank(bench: Bench) -> None:
    """All collectives of the group are repaired together, since one alone would not do."""
    broken = mutate(pair("qwen2-2x2"), random.Random(0), "group_of_one")
    repair = bench.program(broken.program).report["findings"][0]["repair"]
    assert repair["text"].startswith("let the group of `all_reduce`, ")
    assert len(repair["nodes"]) == 2 * 5


def test_a_line_that_lacks_a_reduction_lacks_it_in_every_layer(bench: Bench) -> None:
    program = pair("qwen2-2x2").copy()
    for graph in program.dist.values():
        reduced = [n for n in graph["nodes"] if "all_reduce" in n["target"]]
        for node in (n for n in reduced if n["args"][0]["node"] in ("mm", "mm_3")):
            node.update(target="aten.clone.default", args=node["args"][:1], kwargs={})
    repair = bench.program(program).report["findings"][0]["repair"]
    assert repair["action"] == "all_reduce"
    assert repair["nodes"] == ["r0.mm", "r0.mm_3", "r1.mm", "r1.mm_3"]
    assert repair["text"].count("bench/qwen2.py:") == 1
