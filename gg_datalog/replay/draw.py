"""Inputs: drawn for the sequential program, cut for the ranks as the input relations say."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from copy import deepcopy
from math import copysign, isfinite, log10, prod
from typing import Any

import torch

from gg_datalog.replay.documents import Documents, Json, padding
from gg_datalog.replay.dtypes import as_dtype, dtype_of, is_integer
from gg_datalog.replay.kernels import constant, has_value
from gg_datalog.replay.shrink import Shrunk
from gg_datalog.replay.tensor import Tensor

Given = dict[str, Tensor]


def draw(
    fitted: Shrunk, case: Documents, seed: int, magnitude: float, positive: bool = False
) -> tuple[Given, dict[int, Given]]:
    """Inputs of the sequential graph, and per rank what is cut from them; what the relations leave
    open is NaN, but for padding. Integer inputs go through every row of the table that they look
    up, or at least through those that some program treats differently; others lie around 0, or
    above it."""
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
        for name in held:
            _pad(dist[rank][name], [row for row in mine if row["dist"] == name], seq)
        # inputs that have a value are the sequential ones where they are related: but for rounding
        known = {n["name"] for n in graph["nodes"] if has_value(n) and n["op"] == "get_attr"}
        for row in mine:
            if row["dist"] in known:
                continue
            into = tuple(slice(*b) for b in row["dist_box"])
            of = tuple(slice(*b) for b in row["seq_box"])
            part = seq[row["seq"]][of]
            part = part.permute(row["permute"]) if "permute" in row else part
            dist[rank][row["dist"]][into] = as_dtype(part, dist[rank][row["dist"]].dtype)
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
    if is_integer(dtype):
        return _integers(node, fitted, generator, dtype).to(dtype)
    made = torch.randn(shape, generator=generator, dtype=torch.float64) * magnitude
    if dtype == torch.complex128:
        return torch.complex(made, torch.randn(shape, generator=generator, dtype=torch.float64))
    return made.abs() + magnitude / 8 if positive else made


NARROW = 2  # bytes: integers of such a width are drawn from all of it, if they look nothing up


def _integers(node: Json, fitted: Shrunk, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Positions of what they look up. ``generator`` was seeded with the number of the draw."""
    seed = generator.initial_seed()
    shape, name = node["shape"], node["name"]
    info, rows = torch.iinfo(dtype), fitted.rows.get(node["name"])
    if rows is None and dtype.itemsize <= NARROW:
        return torch.randint(info.min, info.max + 1, shape, generator=generator)
    bound = min(rows or max([4, *shape]), info.max + 1)
    count = prod(shape)
    if count < bound:  # other rows with every draw, until all were looked up
        edges = [v for v in fitted.edges.get(name, ()) if 0 <= v < bound]
        chosen = torch.tensor(edges, dtype=torch.int64)
        chosen = chosen[torch.randperm(len(edges), generator=generator)][: count // 2 + 1]
        order = torch.randperm(bound, generator=torch.Generator().manual_seed(bound))
        others = count - len(chosen)
        each = torch.cat([chosen, order[(seed * others + torch.arange(others)) % bound]])
    else:
        each = torch.arange(count) % bound
    shuffled = each[torch.randperm(count, generator=generator)]
    if name in fitted.skipped:  # targets that do not count
        shuffled[torch.randperm(count, generator=generator)[: count // 4]] = fitted.skipped[name]
    return shuffled.reshape(shape)


def _open(node: Json, ours: Tensor | None, generator: torch.Generator) -> Tensor:
    """What nothing is said of: no number; of a type without one, something else than the sequential
    program has under that name."""
    if has_value(node):
        return constant(node)
    shape, dtype = node["shape"], dtype_of(node.get("dtype")) or torch.float64
    if dtype == torch.bool or is_integer(dtype):
        if ours is not None and list(ours.shape) == shape and ours.numel() and ours.dtype == dtype:
            whole = ours.to(torch.int64)
            low, high = int(whole.min()), int(whole.max())
            return ~ours if dtype == torch.bool else _turned(whole, low, high).to(dtype)
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    return torch.full(shape, float("nan"), dtype=dtype)


def _pad(x: Tensor, rows: list[Json], seq: Given) -> None:
    """Padding is 0, as programs have it. (It may be any number: those that agree prove nothing.)"""
    found = padding(x.shape, seq[rows[0]["seq"]].shape, rows)
    if found is not None and (x.is_floating_point() or x.is_complex()):
        dim, first = found
        x.narrow(dim, first, x.shape[dim] - first).zero_()


def _turned(x: Tensor, low: int, high: int) -> Tensor:
    """Every number replaced by the next one of the range."""
    low = min(low, 0)
    return (x - low + 1) % max(high - low + 1, 2) + low


FILLS = ("masked_fill", "full", "full_like", "new_full", "where", "mul", "scalar_tensor", "fill",
         "broadcast")  # fmt: skip
LARGE = 1000
ENDLESS = 1e30  # what is larger is the least number of some type, whichever that is


def with_small_fills(case: Documents) -> Documents | None:
    """The case with large constants (the -10000 that hides a score) brought to a magnitude at which
    what they hide shows: different ones stay different, on both sides alike. None where only one
    side has such constants, or only one infinite ones: two that hide alike would be told apart."""
    case = deepcopy(case)
    found: dict[str, set[bool]] = {"seq": set(), "dist": set()}
    for side, _, graph in case.graphs():
        for holder, key, factor in _fills(graph):
            value = holder[key]
            if not _is_large(value, factor):
                continue
            found[side].add(isfinite(value))
            if isfinite(value):
                holder[key] = copysign(1 + log10(min(abs(value), ENDLESS)) / 4, value)
    return case if found["seq"] == found["dist"] else None


def _fills(graph: Json) -> Iterator[tuple[Any, Any, bool]]:
    """Where constants stand (holder and key) that fill something, and whether as a factor."""
    for node in graph["nodes"]:
        if node["op"] == "get_attr" and isinstance(node.get("value"), float):
            yield node, "value", False
        short = node.get("target", "").split(".")[1:2]
        kernel = short[0].rstrip("_") if short else ""
        if kernel in FILLS and _is_float(node):
            for holder in (node["args"], node.setdefault("kwargs", {})):
                keys = range(len(holder)) if isinstance(holder, list) else list(holder)
                yield from ((holder, key, kernel == "mul") for key in keys)


def _is_float(node: Json) -> bool:
    return bool(dtype_of(node.get("dtype")) == torch.float64)


def _is_large(value: Any, factor: bool) -> bool:
    """A factor above 0 scales, and is taken back elsewhere: it is none."""
    if type(value) not in (int, float) or value != value or abs(value) < LARGE:
        return False
    return not (factor and value > 0)
