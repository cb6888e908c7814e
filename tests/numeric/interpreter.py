"""Executes a case: the sequential graph, and all ranks together in step.

Inputs of the sequential graph are random; those of the ranks are cut from them as the input
relations say, and what they leave open is NaN (integers: an arbitrary number). Uninitialised memory
is NaN.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernels_np import OPS, Array, Invalid, NotExecuted, cast, dropped
from program import Json, Program, nodes_by_name, references

Values = dict[str, Any]
KEPT = (
    "aten.view", "aten._unsafe_view", "aten.clone", "aten._to_copy", "aten.transpose", "aten.copy",
    "aten.permute", "aten.detach", "aten.unsqueeze", "aten.expand", "aten.sub", "aten.index_put",
    "aten.masked_fill", "aten.mul",
)  # fmt: skip


@dataclass(repr=False)
class Execution:
    """Values of every node: of the sequential graph, and per rank."""

    seq: Values
    dist: dict[int, Values]


def name_of(node: Json) -> str:
    """The target without its overload."""
    target: str = node["target"]
    return target.rpartition(".")[0] if target.count(".") > 1 else target


KINDS = (
    "all_gather_into_tensor", "all_reduce", "reduce_scatter_tensor", "broadcast",
    "all_to_all_single", "all_gather",
)  # fmt: skip


def collective(node: Json) -> str | None:
    """Which collective a node is."""
    name = name_of(node)
    if node["op"] != "call_function" or name.endswith("wait_tensor"):
        return None
    return name.split(".")[1] if name.startswith(("_c10d_functional.", "vllm.all_")) else None


# ---- one graph -------------------------------------------------------------------------------------
def resolve(argument: Any, values: Values) -> Any:
    """An argument with references replaced by values."""
    if isinstance(argument, dict):
        if "node" in argument:
            return values[argument["node"]]
        return float(argument["float"]) if "float" in argument else argument
    return [resolve(a, values) for a in argument] if isinstance(argument, list) else argument


@dataclass(repr=False)
class Call:
    """A rank that waits at a collective."""

    kind: str
    group: str
    reduction: str
    value: Array
    numbers: tuple[Any, ...]
    splits: tuple[Any, ...]  # lists of sizes, None for equal parts
    dtype: str


def run_graph(graph: Json, given: Mapping[str, Array]) -> Generator[Call, Array, Values]:
    """Runs one graph; yields at collectives and is sent their result; returns all values."""
    values: Values = {}
    randoms = 0
    for node in graph["nodes"]:
        name = node["name"]
        if node["op"] == "output":
            continue
        if name in given:
            values[name] = given[name]
        elif node["op"] == "get_attr":
            if "value" not in node:
                raise NotExecuted("a constant whose value is not known")
            values[name] = np.broadcast_to(node["value"], node["shape"])
        elif kind := collective(node):
            values[name] = yield _call(node, kind, values)
        elif name_of(node) == "aten.native_dropout":
            x, rate, *train = resolve(node["args"], values)
            active = rate > 0 and train != [False]
            values[name] = dropped(x, randoms) if active else (x, np.ones(x.shape, bool))
            randoms += active
        else:
            values[name] = _result(node, values)
        _check_shape(node, values[name])
    return values


def _call(node: Json, kind: str, values: Values) -> Call:
    args = resolve(node["args"], values)
    words = [a for a in args if isinstance(a, str)]
    if not words or kind not in KINDS or node["kwargs"] or isinstance(args[0], list):
        raise NotExecuted(f"{node['target']} of this form")
    reduction = words[0] if len(words) > 1 else "sum"
    numbers = tuple(a for a in args[1:] if isinstance(a, int))
    splits = tuple(a for a in args[1:] if a is None or isinstance(a, list))
    return Call(
        kind, words[-1], reduction, np.asarray(args[0]), numbers, splits, node.get("dtype") or ""
    )


def _result(node: Json, values: Values) -> Any:
    args = resolve(node["args"], values)
    kwargs = {k: resolve(v, values) for k, v in node["kwargs"].items()}
    if "getitem" in node["target"]:
        return args[0][args[1]]
    if name_of(node) not in OPS:
        raise NotExecuted(node["target"])
    try:
        with np.errstate(all="ignore"):
            value = OPS[name_of(node)](*args, **kwargs)
            if node.get("shape") is not None:
                value = cast(np.asarray(value), node.get("dtype"))
    except (ValueError, IndexError) as error:
        raise Invalid(f"{node['name']}: {error}") from error
    except (TypeError, AttributeError, AssertionError, KeyError) as error:
        raise NotExecuted(f"{node['target']}: {error}") from error
    return value


def _check_shape(node: Json, value: Any) -> None:
    shape = node.get("shape")
    if shape is not None and list(value.shape) != shape:
        raise Invalid(f"{node['name']}: its shape is {list(value.shape)}, not {shape}")


# ---- all ranks -------------------------------------------------------------------------------------
def run_ranks(
    graphs: Mapping[int, Json], groups: list[Json], given: Mapping[int, Mapping[str, Array]]
) -> dict[int, Values]:
    """Runs all ranks in step; :class:`Invalid` where they hang or their collectives differ."""
    members = {
        (int(rank), name): (number, tuple(group["ranks"]))
        for number, group in enumerate(groups)
        for rank, name in group["names"].items()
    }
    running = {rank: run_graph(graph, given[rank]) for rank, graph in graphs.items()}
    done: dict[int, Values] = {}
    waiting: dict[int, Call] = {}
    sent: dict[int, Array | None] = dict.fromkeys(running)
    while len(done) < len(graphs):
        for rank in [r for r in graphs if r not in done and r not in waiting]:
            try:
                waiting[rank] = running[rank].send(sent[rank])  # type: ignore[arg-type]
            except StopIteration as stop:
                done[rank] = stop.value
        if len(done) < len(graphs):
            ranks = _ready(waiting, members)
            sent.update(zip(ranks, _perform([waiting.pop(r) for r in ranks]), strict=True))
    return done


def _ready(waiting: Mapping[int, Call], members: Mapping[Any, Any]) -> tuple[int, ...]:
    for rank, call in waiting.items():
        group = members[rank, call.group]
        others = [waiting.get(r) for r in group[1]]
        if all(
            c is not None and members.get((r, c.group)) == group
            for r, c in zip(group[1], others, strict=True)
        ):
            return tuple(group[1])
    raise Invalid("the program hangs")


def _perform(calls: list[Call]) -> list[Array]:
    first = calls[0]
    if first.kind == "all_to_all_single":
        return _exchanged(calls)
    if len({(c.kind, c.reduction, c.numbers, c.value.shape, c.dtype) for c in calls}) > 1:
        raise Invalid("collectives that do not line up")
    values = [c.value for c in calls]
    if first.kind == "all_gather_into_tensor":
        _expect(first, len(calls))
        return [np.concatenate(values, 0)] * len(calls)
    if first.kind == "all_reduce":
        return [_reduce(first.reduction, values)] * len(calls)
    if first.kind == "reduce_scatter_tensor":
        _expect(first, len(calls))
        if len(first.value) % len(calls):
            raise Invalid("a reduce-scatter of rows that do not divide")
        return np.split(_reduce(first.reduction, values), len(calls), 0)
    if first.kind == "broadcast":
        return [values[first.numbers[0]]] * len(calls)
    raise NotExecuted(first.kind)


def _exchanged(calls: list[Call]) -> list[Array]:
    """Member i gives its part j to member j."""
    given = []
    for call in calls:
        rows, size = len(call.value), len(calls)
        sizes = call.splits[1] if len(call.splits) > 1 else None
        if not sizes and rows % size:
            raise Invalid("rows that do not divide")
        sizes = sizes or [rows // size] * size
        if sum(sizes) != rows or len({(c.kind, c.value.shape[1:]) for c in calls}) > 1:
            raise Invalid("collectives that do not line up")
        given.append(np.split(call.value, np.cumsum(sizes)[:-1], 0))
    found = []
    for i, call in enumerate(calls):
        parts = [row[i] for row in given]
        asked = call.splits[0] if call.splits else None
        if asked and list(asked) != [len(p) for p in parts]:
            raise Invalid("a member expects other sizes")
        found.append(np.concatenate(parts, 0))
    return found


def _expect(call: Call, size: int) -> None:
    if call.numbers and call.numbers[-1] != size:
        raise Invalid(f"it says {call.numbers[-1]} members of {size}")


def _reduce(reduction: str, values: list[Array]) -> Array:
    stacked = np.stack(values)
    known = {"sum": stacked.sum, "avg": stacked.mean, "max": stacked.max, "min": stacked.min}
    if reduction not in known:
        raise NotExecuted(f"reduction {reduction}")
    return known[reduction](0)


# ---- inputs ----------------------------------------------------------------------------------------
INDEXING = (
    "aten.embedding", "aten.index", "hlo.gather", "aten.embedding_dense_backward", "aten.gather",
    "aten.index_put", "aten.index_select", "aten.scatter", "aten.scatter_add", "aten.index_add",
    "aten.nll_loss_forward", "aten.nll_loss_backward", "aten.nll_loss2d_forward",
    "aten.nll_loss2d_backward",
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
    looked_up = [n for n in nodes.values() if name_of(n) in INDEXING]
    given = {name: n["shape"] for name, n in nodes.items() if "shape" in n}
    if all(name in given for n in looked_up for name in references(n["args"])):
        return given
    inputs = {n: np.zeros(_form(v)[0], int) for n, v in nodes.items() if v["op"] == "placeholder"}
    values = run_ranks({0: graph}, [], {0: inputs})[0]
    return {n: list(v.shape) for n, v in values.items() if isinstance(v, np.ndarray)}


def id_bounds(graph: Json) -> dict[str, int]:
    """Per integer input, the rows of the smallest table that it looks up."""
    shapes = shapes_of(graph)
    origin: dict[str, str] = {}
    bounds: dict[str, int] = {}
    for node in graph["nodes"]:
        name = name_of(node)
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


LOSSES = INDEXING[-4:]
MOVED = ("aten.view", "aten.transpose")


def left_out(graph: Json) -> dict[str, int]:
    """Per input that holds nothing but the targets of losses, the class that they ignore."""
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


def _draw(node: Json, bounds: Mapping[str, int], rng: np.random.Generator) -> Array:
    shape, dtype = _form(node)
    if dtype == "bool":
        return rng.random(shape) < 0.4
    if not dtype.startswith("int"):
        return rng.normal(0, 0.7, shape)
    bound = bounds.get(node["name"], max([4, *shape]))
    count = int(np.prod(shape))
    each = rng.permutation(np.resize(np.arange(bound), max(count, bound)))[:count]
    return each.reshape(shape)


def _unknown(node: Json, rng: np.random.Generator) -> Array:
    shape, dtype = _form(node)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    return rng.integers(0, 2, shape) if dtype.startswith("int") else np.full(shape, np.nan)


LARGE = 1e6


def degenerate(execution: Execution) -> bool:
    """Did a number grow so large that equal expressions need not give equal numbers?"""
    values = [v for side in (execution.seq, *execution.dist.values()) for v in side.values()]
    floats = [v for v in values if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    return any(bool((abs(v) > LARGE).any()) for v in floats)


def execute(program: Program, rng: np.random.Generator) -> Execution:
    """Both sides on fresh inputs; :class:`Invalid` where the distributed program cannot run."""
    ours, theirs = draw_inputs(program, rng)
    seq = run_ranks({0: program.seq}, program.groups.get("seq", []), {0: ours})[0]
    return Execution(seq, run_ranks(program.dist, program.groups.get("dist", []), theirs))
