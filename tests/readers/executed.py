"""Executes HLO texts: what the reader makes of them, run by the interpreter of replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gg_datalog.extract.documents import CaseDocuments
from gg_datalog.extract.table import load_table
from gg_datalog.replay.execute import run_ranks

Json = dict[str, Any]


def no_masks(*_: Any) -> Any:
    """Nothing here is random."""
    raise AssertionError


def inputs(graph: Json, values: list[Any]) -> dict[str, Any]:
    """Values for the placeholders, in the order of their numbers."""
    names = [n["name"] for n in graph["nodes"] if n["op"] == "placeholder"]
    order = graph.get("order", names)
    wide = {torch.float32: torch.float64, torch.int32: torch.int64}
    found = {}
    for name, value in zip(order, values, strict=True):
        tensor = torch.as_tensor(value)
        found[name] = tensor.to(wide.get(tensor.dtype, tensor.dtype)).clone()
    return found


def returned(graph: Json, values: Json) -> list[Any]:
    """What a graph returns."""
    (output,) = (n for n in graph["nodes"] if n["op"] == "output")
    return [values[ref["node"]] for ref in output["args"][0]]


def run_dist(case: CaseDocuments, given: dict[int, list[Any]]) -> dict[int, list[Any]]:
    """What every device returns."""
    feeds = {rank: inputs(graph, given[rank]) for rank, graph in case.dist.items()}
    assert case.groups is not None
    done = run_ranks(case.dist, case.groups["dist"], load_table(), feeds, no_masks)
    return {rank: returned(case.dist[rank], values) for rank, values in done.items()}


def run_seq(case: CaseDocuments, given: list[Any]) -> list[Any]:
    """What the sequential program returns."""
    feeds = {0: inputs(case.seq, given)}
    done = run_ranks({0: case.seq}, [], load_table(), feeds, no_masks)
    return returned(case.seq, done[0])


def write(folder: Path, name: str, text: str) -> Path:
    """A text in a file."""
    path = folder / f"{name}.hlo"
    path.write_text(text)
    return path
