"""Inputs: drawn for the sequential program, cut for the ranks as the input relations say."""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from math import copysign, isfinite, log10, prod
from typing import Any

import torch

from gg_datalog.replay.documents import Documents, Json
from gg_datalog.replay.kernels import constant, dtype_of, has_value
from gg_datalog.replay.shrink import Shrunk
from gg_datalog.replay.tensor import Tensor

Given = dict[str, Tensor]


def draw(
    fitted: Shrunk, case: Documents, seed: int, magnitude: float, positive: bool = False
) -> tuple[Given, dict[int, Given]]:
    """Inputs of the sequential graph, and per rank what is cut from them; what the relations leave
    open is NaN. Integer inputs go through every row of the table that they look up, or at least
    through those that some program treats differently; others lie around 0, or above it."""
    generator = torch.Generator().manual_seed(seed)
    named = {row["seq"] for row in case.relations}
    seq = {
        node["name"]: _drawn(node, fitted, generator, magnitude, positive)
        for node in case.seq["nodes"]
        if _is_given(node, named)
    }
    dist: dict[int, Given] = {}
    for rank, graph in case.dist.items():
        mine = [row for row in case.relations if row["rank"] == rank]
        held = {row["dist"] for row in mine}
        dist[rank] = {
            node["name"]: _open(node, seq.get(node["name"]), generator)
            for node in graph["nodes"]
            if _is_given(node, held)
        }
        known = {node["name"] for node in graph["nodes"] if has_value(node)}
        for row in mine:
            if row["dist"] in known:
                continue
            into = tuple(slice(*b) for b in row["dist_box"])
            of = tuple(slice(*b) for b in row["seq_box"])
            part = seq[row["seq"]][of]
            part = part.permute(row["permute"]) if "permute" in row else part
            dist[rank][row["dist"]][into] = part.to(dist[rank][row["dist"]].dtype)
    return seq, dist


def _is_given(node: Json, named: Collection[str]) -> bool:
    """Is it an input: a placeholder, a constant that the graph lost, what a relation names?"""
    shape = node.get("shape")
    if shape is None or any(isinstance(e, str) for e in shape):
        return False
    return node["op"] in ("placeholder", "get_attr") or node["name"] in named


def _drawn(
    node: Json, fitted: Shrunk, generator: torch.Generator, magnitude: float, positive: bool
) -> Tensor:
    if has_value(node):
        return constant(node)
    shape, dtype = node["shape"], dtype_of(node.get("dtype")) or torch.float64
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.4
    if dtype == torch.int64:
        bound = fitted.rows.get(node["name"]) or max([4, *shape])
        count = prod(shape)
        each = torch.arange(max(count, bound)) % bound
        shuffled = each[torch.randperm(len(each), generator=generator)]
        if count < bound:
            edges = [v for v in fitted.edges.get(node["name"], ()) if 0 <= v < bound]
            chosen = torch.tensor(edges, dtype=torch.int64)
            chosen = chosen[torch.randperm(len(edges), generator=generator)][: count // 2 + 1]
            shuffled = torch.cat([chosen, shuffled])[:count]
            shuffled = shuffled[torch.randperm(count, generator=generator)]
        shuffled = shuffled[:count].clone()
        if node["name"] in fitted.skipped:  # targets that do not count
            shuffled[torch.randperm(count, generator=generator)[: count // 4]] = fitted.skipped[
                node["name"]
            ]
        return shuffled.reshape(shape)
    made = torch.randn(shape, generator=generator, dtype=torch.float64) * magnitude
    if dtype == torch.complex128:
        return torch.complex(made, torch.randn(shape, generator=generator, dtype=torch.float64))
    return made.abs() + magnitude / 8 if positive else made


def _open(node: Json, ours: Tensor | None, generator: torch.Generator) -> Tensor:
    """What nothing is said of: no number; of a type without one, something else than the sequential
    program has under that name."""
    if has_value(node):
        return constant(node)
    shape, dtype = node["shape"], dtype_of(node.get("dtype")) or torch.float64
    if dtype in (torch.bool, torch.int64):
        if ours is not None and list(ours.shape) == shape and ours.numel() and ours.dtype == dtype:
            return ~ours if dtype == torch.bool else (ours + 1) % (int(ours.max()) + 1)
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    return torch.full(shape, float("nan"), dtype=dtype)


FILLS = ("masked_fill", "full", "full_like", "new_full", "where", "mul", "scalar_tensor", "fill",
         "broadcast")  # fmt: skip
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
            kernel = short[0].rstrip("_") if short else ""
            if kernel in FILLS and _is_float(node):
                factor = kernel == "mul"  # above 0 it scales, and is taken back elsewhere
                node["args"] = [_small(a, factor) for a in node["args"]]
                node["kwargs"] = {k: _small(v, factor) for k, v in node.get("kwargs", {}).items()}
    return case


def _is_float(node: Json) -> bool:
    return bool(dtype_of(node.get("dtype")) == torch.float64)


def _small(value: Any, factor: bool = False) -> Any:
    if type(value) not in (int, float) or not isfinite(value) or abs(value) < LARGE:
        return value
    if factor and value > 0:
        return value
    return copysign(1 + log10(abs(value)) / 4, value)
