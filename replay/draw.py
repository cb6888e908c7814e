"""Inputs: drawn for the sequential program, cut for the ranks as the input relations say."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from math import copysign, isfinite, log10, prod
from typing import Any

import torch

from gg_datalog.replay.documents import Documents, Json
from gg_datalog.replay.kernels import dtype_of
from gg_datalog.replay.tensor import Tensor

Given = dict[str, Tensor]


def draw(
    case: Documents, rows: Mapping[str, int], seed: int, magnitude: float
) -> tuple[Given, dict[int, Given]]:
    """Inputs of the sequential graph, and per rank what is cut from them; what the relations leave
    open is NaN. Integer inputs go through every row of the table that they look up (``rows``)."""
    generator = torch.Generator().manual_seed(seed)
    named = {row["seq"] for row in case.relations}
    seq = {
        node["name"]: _drawn(node, rows.get(node["name"]), generator, magnitude)
        for node in case.seq["nodes"]
        if (node["op"] == "placeholder" or node["name"] in named) and _sized(node)
    }
    dist: dict[int, Given] = {}
    for rank, graph in case.dist.items():
        mine = [row for row in case.relations if row["rank"] == rank]
        held = {row["dist"] for row in mine}
        dist[rank] = {
            node["name"]: _open(node, generator)
            for node in graph["nodes"]
            if (node["op"] == "placeholder" or node["name"] in held) and _sized(node)
        }
        for row in mine:
            into = tuple(slice(*b) for b in row["dist_box"])
            of = tuple(slice(*b) for b in row["seq_box"])
            dist[rank][row["dist"]][into] = seq[row["seq"]][of].to(dist[rank][row["dist"]].dtype)
    return seq, dist


def _sized(node: Json) -> bool:
    shape = node.get("shape")
    return shape is not None and not any(isinstance(e, str) for e in shape)


def _drawn(node: Json, rows: int | None, generator: torch.Generator, magnitude: float) -> Tensor:
    shape, dtype = node["shape"], dtype_of(node.get("dtype")) or torch.float64
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.4
    if dtype == torch.int64:
        bound = rows or max([4, *shape])
        count = prod(shape)
        each = torch.arange(max(count, bound)) % bound
        shuffled = each[torch.randperm(len(each), generator=generator)]
        return shuffled[:count].reshape(shape).clone()
    made = torch.randn(shape, generator=generator, dtype=torch.float64) * magnitude
    return made if dtype == torch.float64 else torch.complex(made, made.flip(0))


def _open(node: Json, generator: torch.Generator) -> Tensor:
    shape, dtype = node["shape"], dtype_of(node.get("dtype")) or torch.float64
    if dtype in (torch.bool, torch.int64):
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    return torch.full(shape, float("nan"), dtype=dtype)


FILLS = ("masked_fill", "full", "full_like", "new_full", "where", "mul", "scalar_tensor", "fill")
LARGE = 1000


def with_small_fills(case: Documents) -> Documents:
    """The case with large constants (the -10000 that hides a score) brought to a magnitude at which
    what they hide shows: different ones stay different, on both sides alike."""
    case = deepcopy(case)
    for _, _, graph in case.graphs():
        for node in graph["nodes"]:
            if node["op"] == "get_attr" and isinstance(node.get("value"), float):
                node["value"] = _small(node["value"])
            short = node.get("target", "").split(".")[1:2]
            if short and short[0].rstrip("_") in FILLS and _is_float(node):
                node["args"] = [_small(a) for a in node["args"]]
                node["kwargs"] = {k: _small(v) for k, v in node.get("kwargs", {}).items()}
    return case


def _is_float(node: Json) -> bool:
    return bool(dtype_of(node.get("dtype")) == torch.float64)


def _small(value: Any) -> Any:
    if type(value) not in (int, float) or not isfinite(value) or abs(value) < LARGE:
        return value
    return copysign(1 + log10(abs(value)) / 4, value)
