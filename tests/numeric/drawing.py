"""Random inputs of the sequential graph, and those of the ranks, cut from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from .execution import in_place, name_of
from .kernels_np import NotExecuted
from .program import Json, Program, nodes_by_name, references
from .promotion import INTEGERS, WIDTHS, Array, Invalid, numpy_type
from .running import run_ranks
from .signatures import canonical

KEPT = (
    "aten.view", "aten._unsafe_view", "aten.clone", "aten._to_copy", "aten.transpose", "aten.copy",
    "aten.permute", "aten.detach", "aten.unsqueeze", "aten.expand", "aten.sub", "aten.index_put",
    "aten.masked_fill", "aten.mul",
)  # fmt: skip
INDEXING = (
    "aten.embedding", "aten.index", "hlo.gather", "aten.embedding_dense_backward", "aten.gather",
    "aten.index_put", "aten.index_select", "aten.scatter", "aten.scatter_add", "aten.index_add",
    "aten.nll_loss_forward", "aten.nll_loss_backward", "aten.nll_loss2d_forward",
    "aten.nll_loss2d_backward", "aten.index_copy", "aten.index_fill",
)  # fmt: skip


def indexed(node: Json, name: str, shapes: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The ids of an operator that looks up positions of its first operand, each with its bound."""
    args = node["args"]
    if name == "aten.embedding_dense_backward":
        return [(args[1]["node"], args[2])]
    if name.startswith("aten.nll_loss"):
        first = int(name.endswith("backward"))
        return [(args[first + 1]["node"], shapes[args[first]["node"]][1])]
    table = shapes[args[0]["node"]]
    if name not in ("aten.embedding", "aten.index", "aten.index_put", "hlo.gather"):
        return [(args[2]["node"], table[args[1]])]
    listed = args[1] if isinstance(args[1], list) else [args[1]]
    found = [(a["node"], table[d]) for d, a in enumerate(listed) if a is not None]
    return [(ids, rows) for ids, rows in found if ids is not None]


def shapes_of(graph: Json) -> dict[str, Any]:
    """The shapes of all nodes; where some are not given, by a run on zeros."""
    nodes = nodes_by_name(graph)
    looked_up = [n for n in nodes.values() if (in_place(name_of(n)) or name_of(n)) in INDEXING]
    given = {name: n["shape"] for name, n in nodes.items() if "shape" in n}
    if all(name in given for n in looked_up for name in references(n["args"])):
        return given
    inputs = {n: np.zeros(_form(v)[0], int) for n, v in nodes.items() if v["op"] == "placeholder"}
    values = run_ranks({0: graph}, [], {0: inputs})[0].values
    return {n: list(v.shape) for n, v in values.items() if isinstance(v, np.ndarray)}


def id_bounds(graph: Json) -> dict[str, int]:
    """Per integer input, the rows of the smallest table that it looks up."""
    graph = graph | {"nodes": [canonical(n) for n in graph["nodes"]]}
    shapes = shapes_of(graph)
    origin: dict[str, str] = {}
    bounds: dict[str, int] = {}
    for node in graph["nodes"]:
        name = in_place(name_of(node)) or name_of(node)
        used = references(node["args"])
        if node["op"] == "placeholder" and str(node.get("dtype", "")).startswith("int"):
            origin[node["name"]] = node["name"]
        elif name in KEPT and used and (of := used[-(name == "aten.copy")]) in origin:
            origin[node["name"]] = origin[of]
        elif name in INDEXING:
            for ids, rows in indexed(node, name, shapes):
                if ids in origin:
                    bounds[origin[ids]] = min(bounds.get(origin[ids], rows), rows)
        elif name == "auto_functionalized" and "positions" in node["kwargs"]:
            ids, cache = (node["kwargs"][k]["node"] for k in ("positions", "cos_sin_cache"))
            if ids in origin:
                bounds[origin[ids]] = shapes[cache][0]
    return bounds


def looked_up(graph: Json) -> dict[str, int]:
    """Per input that is used as ids as it is, the rows of the smallest table."""
    shapes = {n["name"]: n.get("shape") for n in graph["nodes"]}
    found: dict[str, int] = {}
    for node in map(canonical, graph["nodes"]):
        name = in_place(name_of(node)) or name_of(node)
        if name in INDEXING and all(shapes[n] for n in references(node["args"])):
            for ids, rows in indexed(node, name, shapes):
                found[ids] = min(found.get(ids, rows), rows)
    return found


LOSSES = tuple(name for name in INDEXING if "nll_loss" in name)
MOVED = ("aten.view", "aten.transpose")


def left_out(graph: Json) -> dict[str, int]:
    """Per input that holds nothing but the targets of losses, the class that they ignore."""
    graph = graph | {"nodes": [canonical(n) for n in graph["nodes"]]}
    nodes, users = nodes_by_name(graph), defaultdict(set)
    for node in graph["nodes"]:
        for name in references(node["args"]):
            users[name].add(name_of(node))
    found: dict[str, int] = {}
    for node in (n for n in nodes.values() if name_of(n) in LOSSES):
        first = int(name_of(node).endswith("backward"))
        if len(node["args"]) < first + 5:
            continue
        ids = node["args"][first + 1]["node"]
        while users[ids] <= {*LOSSES, *MOVED} and name_of(nodes[ids]) in MOVED:
            ids = nodes[ids]["args"][0]["node"]
        if users[ids] <= {*LOSSES, *MOVED}:
            found[ids] = node["args"][first + 4]
    return found


def draw_inputs(
    program: Program, rng: np.random.Generator
) -> tuple[dict[str, Array], dict[int, dict[str, Array]]]:
    """Random inputs of the sequential graph, and the ranks' inputs cut from them."""
    bounds = id_bounds(program.seq)
    more = {rank: looked_up(graph) for rank, graph in program.dist.items()}
    for row in program.relations:  # what only the ranks look up
        if row["dist"] in more.get(row["rank"], {}):
            bounds.setdefault(row["seq"], more[row["rank"]][row["dist"]])
    named, skipped = {row["seq"] for row in program.relations}, left_out(program.seq)
    seq = {
        node["name"]: _draw(node, bounds, rng)
        for node in program.seq["nodes"]
        if node["op"] == "placeholder" or node["name"] in named
    }
    for name in skipped.keys() & seq.keys():
        seq[name] = np.where(rng.random(seq[name].shape) < 0.2, skipped[name], seq[name])
    dist: dict[int, dict[str, Array]] = {}
    for rank, graph in program.dist.items():
        rows = [row for row in program.relations if row["rank"] == rank]
        held = {row["dist"] for row in rows}
        dist[rank] = {
            node["name"]: _unknown(node, rng)
            for node in graph["nodes"]
            if node["op"] == "placeholder" or node["name"] in held
        }
        for row in (row for row in rows if ends_early(program, row)):
            given = dist[rank][row["dist"]]
            if given.dtype.kind == "f":
                given[...] = rng.normal(0, 0.7, given.shape)
        for row in rows:
            into, of = _box(row.get("dist_box")), _box(row.get("seq_box"))
            piece = seq[row["seq"]][of]
            if dist[rank][row["dist"]][into].shape != piece.shape:
                raise Invalid("an input relation that is out of range")
            dist[rank][row["dist"]][into] = piece
    return seq, dist


def _box(box: Any) -> Any:
    return ... if box is None else tuple(slice(lo, hi) for lo, hi in box)


def _form(node: Json) -> tuple[list[int], str]:
    shape, dtype = node.get("shape"), node.get("dtype") or "float32"
    if shape is None or not all(isinstance(e, int) for e in shape) or dtype.startswith("complex"):
        raise NotExecuted(f"an input of shape {shape} and type {dtype}")
    return shape, dtype


def _whole(shape: list[int], dtype: str, rng: np.random.Generator) -> Array:
    """Integers over the whole width, the ends and what is near 0 among them."""
    kind = numpy_type(dtype)
    limits = np.iinfo(kind)
    drawn = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    near = rng.integers(0, 3, shape).astype(kind)
    ends = np.where(rng.random(shape) < 0.5, limits.min, limits.max).astype(kind)
    which = rng.random(shape)
    return np.where(which < 0.15, near, np.where(which < 0.3, ends, drawn)).astype(kind)


def _draw(node: Json, bounds: Mapping[str, int], rng: np.random.Generator) -> Array:
    shape, dtype = _form(node)
    if dtype == "bool":
        return rng.random(shape) < 0.4
    if dtype not in INTEGERS:
        return rng.normal(0, 0.7, shape)
    if node["name"].startswith(WIDE):
        return _whole(shape, dtype, rng)
    bound = min(bounds.get(node["name"], max([4, *shape])), 2 ** (WIDTHS[dtype] - 1))
    if node["name"].startswith(BELOW):
        bound = int(node["name"].removeprefix(BELOW).partition("_")[0])
    count = int(np.prod(shape))
    each = rng.permutation(np.resize(np.arange(bound), max(count, bound)))[:count]
    return each.reshape(shape).astype(numpy_type(dtype))


# Inputs whose names begin so hold integers of the whole width, and below a number that follows.
WIDE, BELOW = "wide", "below"


def ends_early(program: Program, row: Json) -> bool:
    """Has a rank's input padding behind the end of the sequential one? It is finite."""
    whole, mine = (
        next((n.get("shape") for n in graph["nodes"] if n["name"] == row[side]), None)
        for side, graph in (("seq", program.seq), ("dist", program.dist[row["rank"]]))
    )
    same = [r for r in program.relations if all(r[k] == row[k] for k in ("rank", "dist"))]
    if len(same) > 1 or None in (row.get("seq_box"), row.get("dist_box"), whole, mine):
        return False
    ends = [[hi for _, hi in row[box]] for box in ("seq_box", "dist_box")]
    return ends[0] == whole and ends[1] != mine and not any(lo for lo, _ in row["dist_box"])


def _unknown(node: Json, rng: np.random.Generator) -> Array:
    shape, dtype = _form(node)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in INTEGERS:
        return rng.integers(0, 2, shape).astype(numpy_type(dtype))
    return np.full(shape, np.nan)
