"""DDP, FSDP2 and torch's pipelines, captured as they are: the graphs compute what gloo's processes
computed, and verdicts on right and wrong programs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch

from gg_datalog import capture, verify
from gg_datalog.extract.table import load_table
from gg_datalog.replay.execute import run_ranks
from gg_datalog.tracing import Pair

from . import frameworks
from .frameworks import CASES, Case

Told = dict[str, list[dict[str, Any]]]


def processes(world: int) -> list[dict[str, Any]]:
    """What each rank tells of every program."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, frameworks.__file__, str(world), str(rank), port],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    return [json.loads(process.communicate(timeout=300)[0]) for process in ranks]


@pytest.fixture(scope="module")
def told() -> Told:
    """By program: what each rank was given and had in the end."""
    found: Told = {}
    for world in {case.world for case in CASES.values()}:
        ranks = processes(world)
        found |= {name: [rank[name] for rank in ranks] for name in ranks[0]}
    return found


def captured(case: Case, **changed: Any) -> Pair:
    given: dict[str, Any] = {"loss": None if case.trains else frameworks.mean_loss} | changed
    return capture(
        case.build,
        case.inputs,
        world_size=case.world,
        mode=given.pop("mode", "eager"),
        backward=True,
        **given,
    )


@cache
def pair_of(name: str) -> Pair:
    """A program, captured once."""
    return captured(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_graphs_compute_what_gloo_computed(name: str, told: Told) -> None:
    documents = pair_of(name).documents
    inputs = {
        rank: {
            node: torch.tensor(told[name][rank]["given"][key], dtype=torch.float64)
            for node, key in known.items()
        }
        for rank, known in placeholders(documents.dist).items()
    }
    groups = documents.groups["dist"]
    every = run_ranks(documents.dist, groups, load_table(), inputs, lambda *_: torch.ones(1))
    for rank, values in every.items():
        results = told[name][rank]["results"]
        got = {
            row["name"]: values[row["dist"][str(rank)]]
            for row in documents.outputs
            if str(rank) in row["dist"]
        }
        assert set(results) <= set(got)
        for key, right in results.items():
            close = 2e-2 if "mixed" in name else 1e-5
            torch.testing.assert_close(
                got[key].double(), torch.tensor(right).double(), rtol=close, atol=close
            )


def placeholders(graphs: Any) -> dict[int, dict[str, str]]:
    """By rank: the placeholders, and what they are called in the program."""
    return {
        int(rank): {
            node["name"]: node.get("parameter") or node.get("buffer") or node["input"]
            for node in graph["nodes"]
            if node["op"] == "placeholder"
        }
        for rank, graph in graphs.items()
    }


LESS_PRECISE = {"fsdp_mixed"}  # in another type: never the same numbers


@pytest.mark.parametrize("name", [name for name in CASES if name not in LESS_PRECISE])
def test_right_programs_refine(name: str) -> None:
    result = verify(pair_of(name), confirm=0, repairs=False)
    assert result.refines, str(result)


@pytest.mark.parametrize("divided_by", [0.0, 4.0])
def test_shards_of_few_rows_over_many_ranks(divided_by: float) -> None:
    """Some ranks have nothing of a weight; gradients of eight ranks are divided by eight."""
    build = frameworks.sharded(inner=5, mesh=(8,), divided_by=divided_by)
    result = verify(captured(Case(build, world=8)), confirm=0, repairs=False)
    assert result.refines is not bool(divided_by), str(result)


def test_gradients_of_micro_batches_that_are_added_up_but_not_averaged() -> None:
    build = frameworks.pipelined(frameworks.ScheduleGPipe, scale_grads=False)
    wrong = captured(Case(build, frameworks.whole, trains=True))
    result = verify(wrong, confirm=0, repairs=False)
    assert result.verdict == "does-not-refine"
    assert {f.code for f in result.findings if f.certain} == {"GG103"}


WRONG = {
    "gradients that are added up, not averaged": Case(frameworks.sharded(divided_by=1.0)),
    "gradients that are divided twice": Case(frameworks.sharded(divided_by=4.0)),
    "a hook that does not divide": Case(frameworks.hooked(frameworks.not_divided)),
    "a hook that does not wait": Case(frameworks.hooked(frameworks.not_waited_for)),
    "each rank the whole batch, of a sum": Case(frameworks.replicated(), frameworks.whole),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_do_not_refine(name: str) -> None:
    loss = frameworks.summed_loss if "of a sum" in name else frameworks.mean_loss
    result = verify(captured(WRONG[name], loss=loss), confirm=0, repairs=False)
    assert result.verdict != "refines"
    assert any(output.status != "mapped" for output in result.report.outputs)


def test_dynamo_leaves_hooks_to_the_eager_route() -> None:
    pair = captured(CASES["ddp"], mode="dynamo")
    said = [row["text"] for row in pair.documents.about["assumptions"]]
    assert any('mode="eager"' in text and "DistributedDataParallel" in text for text in said)
    assert verify(pair, confirm=0, repairs=False).refines
