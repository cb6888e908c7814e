"""Runs the sequential graph, and all ranks of the distributed one in step, collectives included."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gg_datalog.extract.lower import RANDOM
from gg_datalog.extract.table import Table
from gg_datalog.replay.documents import Json
from gg_datalog.replay.kernels import (
    NotExecuted,
    Shapes,
    compute,
    constant,
    dtype_of,
    literal,
    name_of,
)
from gg_datalog.replay.tensor import Tensor
from gg_datalog.replay.transfers import KINDS, Mailbox, Post

Values = dict[str, Any]
# (rank, name of the node, ordinal of the random operator, shape, probability) -> mask
Masks = Callable[[int, str, int, Sequence[int], float], Tensor]
SPACES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d")
DROPOUT = ("aten.native_dropout", "aten.dropout", "aten.bernoulli")


class OutOfRange(NotExecuted):
    """A lookup beyond the end of a table."""


class Mismatch(Exception):
    """Collectives that do not line up: the program hangs or mixes data."""


@dataclass(repr=False)
class Call:
    """A rank that waits at a collective."""

    kind: str
    group: str
    reduction: str
    value: Tensor
    numbers: tuple[Any, ...]
    node: str
    args: tuple[Any, ...] = ()
    dtype: str = ""


def collective(table: Table, node: Json) -> str | None:
    """Which collective a node is."""
    if node["op"] != "call_function":
        return None
    name = name_of(node["target"])
    space, _, kind = table.aliases.get(name, name).partition(".")
    return kind.removesuffix("_") if space in SPACES and kind != "wait_tensor" else None


def resolve(argument: Any, values: Values) -> Any:
    """An argument with references replaced by values."""
    if isinstance(argument, dict):
        if set(argument) == {"node"}:
            value = values[argument["node"]]
            if isinstance(value, Unknown):
                raise NotExecuted(f"the size of placeholder `{value.name}` is not known")
            return value
        return literal(argument)
    if isinstance(argument, str):  # the name of a size that depends on data
        return values.get(f"${argument}", argument)
    return [resolve(a, values) for a in argument] if isinstance(argument, list) else argument


def run_graph(
    graph: Json, rank: int, table: Table, given: Mapping[str, Tensor], masks: Masks, seed: int = 0
) -> Generator[Call, Any, Values]:
    """Runs one graph; yields at collectives, is sent their result, and returns all values."""
    values: Values = {}
    randoms = others = 0
    types = {node["name"]: node.get("dtype") or "" for node in graph["nodes"]}
    shapes = _result_shapes(graph)
    for node in graph["nodes"]:
        name = node["name"]
        if node["op"] == "output":
            continue
        if name in given:
            values[name] = given[name]
        elif node["op"] == "placeholder":
            values[name] = Unknown(name)
            continue
        elif node["op"] == "get_attr":
            values[name] = constant(node)
        elif kind := collective(table, node):
            values[name] = yield _call(node, kind, values, types)
            if name_of(node["target"]).endswith("_"):
                _write(node, values)
        elif name_of(node["target"]) in DROPOUT:
            values[name], drawn = _dropout(node, rank, randoms, values, masks)
            randoms += drawn
        elif random(node):
            with torch.random.fork_rng(devices=[]):  # what is drawn alike on both sides is the same
                torch.manual_seed(seed + 104729 * others)
                values[name] = _value(node, values, table, shapes.get(name))
            others += 1
        else:
            values[name] = _value(node, values, table, shapes.get(name))
        _check(node, values[name])
        _bind(node, values[name], values)
    return values


@dataclass(frozen=True)
class Unknown:
    """An input without a known size."""

    name: str


def _bind(node: Json, value: Any, values: Values) -> None:
    """Remembers the sizes that depend on data by their names."""
    if not isinstance(value, torch.Tensor):
        return
    for symbol, extent in zip(node.get("shape") or (), value.shape, strict=False):
        if isinstance(symbol, str):
            known = values.setdefault(f"${symbol}", extent)
            if known != extent:
                raise NotExecuted(f"node `{node['name']}`: size {symbol} is {known} and {extent}")


def _result_shapes(graph: Json) -> dict[str, list[Sequence[int] | None]]:
    """Of nodes with several results, their shapes as far as items taken from them tell."""
    found: dict[str, dict[int, Any]] = {}
    for node in graph["nodes"]:
        args = node.get("args", [])
        if "getitem" in node.get("target", "") and len(args) == 2 and isinstance(args[0], dict):
            place, shape = args[1], node.get("shape") or []
            if any(isinstance(e, str) for e in shape) or node.get("shape") is None:
                continue
            if isinstance(place, int) and place >= 0 and "node" in args[0]:
                found.setdefault(args[0]["node"], {})[place] = shape
    return {n: [s.get(i) for i in range(max(s) + 1)] for n, s in found.items()}


def random(node: Json) -> bool:
    """Does the operator draw random numbers?"""
    words = {w for part in str(node["target"]).split(".")[1:2] for w in part.split("_")}
    return bool(words & RANDOM)


def _call(node: Json, kind: str, values: Values, types: Mapping[str, str]) -> Call:
    args = [resolve(a, values) for a in node["args"]]
    words = [a for a in args if isinstance(a, str)]
    kwargs = node.get("kwargs", {})
    words += [kwargs[k] for k in ("group_name", "group") if isinstance(kwargs.get(k), str)]
    if not args or not words:
        raise NotExecuted(f"collective `{node['name']}` names no group, or has no operand")
    reduction = kwargs.get("reduce_op") or (words[0] if len(words) > 1 else "sum")
    numbers = tuple(
        a if isinstance(a, int) else tuple(a) for a in args[1:] if isinstance(a, (int, list))
    )
    first = node["args"][0]
    given = first if isinstance(first, list) else [first]
    dtype = ",".join(types.get(g.get("node", ""), "") for g in given if isinstance(g, dict))
    return Call(
        kind, words[-1], str(reduction).lower(), args[0], numbers, node["name"], tuple(args), dtype
    )


def _write(node: Json, values: Values) -> None:
    """A collective in place: its operands are its results."""
    first, made = node["args"][0], values[node["name"]]
    pairs = zip(first, made, strict=True) if isinstance(first, list) else [(first, made)]
    for place, value in pairs:
        into = values[place["node"]]
        if isinstance(into, torch.Tensor) and into.shape == value.shape:
            into.copy_(value)


def _dropout(node: Json, rank: int, ordinal: int, values: Values, masks: Masks) -> tuple[Any, int]:
    args = [resolve(a, values) for a in node["args"]]
    kwargs = {k: resolve(v, values) for k, v in node.get("kwargs", {}).items()}
    x, p = (*args, kwargs.get("p"))[:2] if args else (None, None)
    if not isinstance(x, torch.Tensor) or not isinstance(p, (int, float)):
        raise NotExecuted(f"node `{node['name']}`: dropout of no tensor, or by no probability")
    if name_of(node["target"]) == "aten.bernoulli":  # p is the probability to stay
        return masks(rank, node["name"], ordinal, tuple(x.shape), 1 - p).to(x.dtype), 1
    train = args[2] if len(args) > 2 else kwargs.get("train")
    single = name_of(node["target"]) == "aten.dropout"
    if train is False or p == 0:
        return (x if single else (x, torch.ones(x.shape, dtype=torch.bool))), 0
    mask = masks(rank, node["name"], ordinal, tuple(x.shape), p)
    made = x * mask / (1 - p) if p < 1 else x * 0
    return (made if single else (made, mask)), 1


def _value(node: Json, values: Values, table: Table, shapes: Shapes) -> Any:
    if any(isinstance(e, str) for e in node.get("shape") or []):
        node = node | {"shape": [resolve(e, values) for e in node["shape"]]}
    args = [resolve(a, values) for a in node["args"]]
    kwargs = {k: resolve(v, values) for k, v in node.get("kwargs", {}).items()}
    try:
        if "getitem" in node["target"]:
            return args[0][args[1]]
        value = compute(table, node["target"], args, kwargs, node, shapes)
    except FAILURES as error:
        raise _failed(f"node `{node['name']}` ({node['target']})", error, node["target"]) from error
    wanted = dtype_of(node.get("dtype"))
    if isinstance(value, torch.Tensor) and wanted is not None and value.dtype != wanted:
        floats = value.dtype.is_floating_point and wanted == torch.int64
        value = value.nan_to_num().trunc().to(wanted) if floats else value.to(wanted)
    return value


FAILURES = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError,
            ValueError)  # fmt: skip


LOOKUPS = ("embedding", "index", "take", "gather", "scatter")


def _failed(where: str, error: Exception, target: str = "") -> NotExecuted:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    outside = "out of bounds" in text or "out of range" in text
    outside = outside and not text.startswith(("list", "tuple"))  # too few arguments
    looks_up = any(word in target.partition(".")[2] for word in LOOKUPS)
    return (OutOfRange if outside and looks_up else NotExecuted)(f"{where}: {text}")


def _check(node: Json, value: Any) -> None:
    shape = node.get("shape")
    if shape is None or any(isinstance(e, str) for e in shape):
        return
    if not isinstance(value, torch.Tensor):
        raise NotExecuted(f"node `{node['name']}` gives no tensor, its graph says {shape}")
    if list(value.shape) == shape:
        return
    raise NotExecuted(
        f"node `{node['name']}` has shape {list(value.shape)}, its graph says {shape}"
    )


# ---- all ranks
def run_ranks(
    graphs: Mapping[int, Json],
    groups: Sequence[Json],
    table: Table,
    given: Mapping[int, Mapping[str, Tensor]],
    masks: Masks,
    seed: int = 0,
) -> dict[int, Values]:
    """Runs all ranks in step; :class:`Mismatch` where they hang or their collectives differ."""
    members = {
        (int(rank), name): (number, tuple(group["ranks"]))
        for number, group in enumerate(groups)
        for rank, name in group["names"].items()
    }
    running = {r: run_graph(g, r, table, given[r], masks, seed) for r, g in graphs.items()}
    done: dict[int, Values] = {}
    waiting: dict[int, Call] = {}
    sent: dict[int, Tensor | None] = dict.fromkeys(running)
    posts: dict[int, Post] = {}
    mailbox = Mailbox()
    while len(done) < len(graphs):
        for rank in [r for r in graphs if r not in done and r not in waiting]:
            try:
                waiting[rank] = running[rank].send(sent[rank])
            except StopIteration as stop:
                done[rank] = stop.value
            except NotExecuted as error:
                where = f"rank {rank}: " if len(graphs) > 1 else ""
                raise type(error)(f"{where}{error}") from error
        for rank, call in waiting.items():
            if (rank, call.group) not in members:
                raise NotExecuted(f"group `{call.group}` of rank {rank} is not known")
            if call.kind in KINDS and rank not in posts:
                group = members[rank, call.group]
                posts[rank] = mailbox.post(call.kind, rank, call.args, group)
        taken = {rank: mailbox.take(post) for rank, post in posts.items()}
        for rank, (there, value) in taken.items():
            if there:
                sent[rank] = _own(value)
                del posts[rank], waiting[rank]
        if len(done) < len(graphs) and not any(there for there, _ in taken.values()):
            ranks = _ready({r: c for r, c in waiting.items() if r not in posts}, waiting, members)
            calls = [waiting.pop(r) for r in ranks]
            try:
                sent.update(zip(ranks, map(_own, perform(calls)), strict=True))
            except FAILURES as error:
                raise _failed(f"collective `{calls[0].node}`", error) from error
    if rest := mailbox.rest():
        told = ", ".join(f"rank {k[1]} to rank {k[2]} (tag {k[3]})" for k in rest)
        raise Mismatch(f"what is sent from {told} is never received")
    return done


def _ready(
    waiting: Mapping[int, Call], every: Mapping[int, Call], members: Mapping[Any, Any]
) -> tuple[int, ...]:
    for rank, call in waiting.items():
        group = members[rank, call.group]
        others = [waiting.get(r) for r in group[1]]
        if all(
            c is not None and members.get((r, c.group)) == group
            for r, c in zip(group[1], others, strict=True)
        ):
            return tuple(group[1])
    at = ", ".join(f"rank {r} at `{c.node}`" for r, c in sorted(every.items()))
    raise Mismatch(f"the program hangs: {at}")


def _own(value: Any) -> Any:
    """The memory of one rank: another one may write into its own."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    return [_own(v) for v in value] if isinstance(value, (list, tuple)) else value


def perform(calls: Sequence[Call]) -> list[Tensor]:
    """The results of one collective, per member."""
    first = calls[0]
    size = len(calls)
    kind = first.kind
    split = kind.startswith("all_to_all")
    forms = {
        (c.kind, c.reduction, () if split else c.numbers, "" if kind == "scatter" else c.dtype)
        for c in calls
    }
    if len(forms) > 1:
        raise Mismatch(f"`{first.node}` and its counterparts differ: {sorted(map(str, forms))}")
    if kind.endswith("_coalesced"):
        columns = [_column(calls, i) for i in range(len(first.value))]
        if len({len(c.value) for c in calls}) > 1:
            raise Mismatch(f"`{first.node}` and its counterparts have lists of different lengths")
        return [list(row) for row in zip(*map(perform, columns), strict=True)]
    if kind == "scatter":
        given = list(calls[_root(first, size)].value)
        if len(given) != size:
            raise Mismatch(f"the root of `{first.node}` gives {len(given)} tensors to {size} ranks")
        return given
    values = [c.value for c in calls]
    if not all(isinstance(v, torch.Tensor) for v in values):
        raise NotExecuted(f"collective `{first.node}` takes what is no tensor")
    shapes = {tuple(v.shape[1:] if split else v.shape) for v in values}
    if len(shapes) > 1:
        raise Mismatch(f"`{first.node}` and its counterparts differ: {sorted(map(str, shapes))}")
    if kind == "gather":
        root = _root(first, size)
        return [values if i == root else [] for i in range(size)]
    if kind == "reduce":
        root, whole = _root(first, size), reduce(first.reduction, values)
        nothing = float("nan") if whole.is_floating_point() else 0
        return [whole if i == root else torch.full_like(whole, nothing) for i in range(size)]
    counts = [n for n in first.numbers if isinstance(n, int)]
    if first.kind in ("all_gather_into_tensor", "reduce_scatter_tensor") and counts[-1:] not in (
        [],
        [size],
    ):
        raise Mismatch(f"`{first.node}` says {counts[-1]} members of {size}")
    if first.kind == "all_gather_into_tensor":
        return [torch.cat(values, counts[0] if len(counts) > 1 else 0)] * size
    if first.kind == "all_reduce":
        return [reduce(first.reduction, values)] * size
    if first.kind == "reduce_scatter_tensor":
        if len(values[0]) % size:
            raise Mismatch(f"`{first.node}`: {len(values[0])} rows do not divide by {size}")
        return list(reduce(first.reduction, values).chunk(size))
    if first.kind == "broadcast":
        return [values[_root(first, size)]] * size
    if split:
        return exchange(calls)
    raise NotExecuted(f"collective `{first.kind}` cannot be executed")


def _root(call: Call, size: int) -> int:
    numbers = [n for n in call.numbers if isinstance(n, int)]
    if not numbers or not 0 <= numbers[0] < size:
        raise Mismatch(f"the root of `{call.node}` is no member of its group")
    return numbers[0]


def _column(calls: Sequence[Call], place: int) -> list[Call]:
    """One tensor of a coalesced collective."""
    return [
        replace(c, kind=c.kind.removesuffix("_coalesced"), value=c.value[place])
        for c in calls
        if place < len(c.value)
    ]


def exchange(calls: Sequence[Call]) -> list[Tensor]:
    """all_to_all: member i gives its part j to member j."""
    size = len(calls)
    parts, asked = [], []
    for call in calls:
        lists = [a for a in call.args[1:] if a is None or isinstance(a, (list, tuple))]
        output, given = [*lists, None, None][:2]  # split sizes of the result come first
        sizes = list(given or [len(call.value) // size] * size)
        if sum(sizes) != len(call.value) or len(sizes) != size:
            raise Mismatch(f"`{call.node}`: {sizes} do not make up {len(call.value)} rows")
        parts.append(call.value.split(sizes))
        asked.append(output)
    for member, output in enumerate(asked):
        sizes = [len(row[member]) for row in parts]
        if output and list(output) != sizes:
            raise Mismatch(f"`{calls[member].node}` expects {list(output)} rows, is sent {sizes}")
    return [torch.cat([row[member] for row in parts]) for member in range(size)]


def reduce(reduction: str, values: Sequence[Tensor]) -> Tensor:
    """Members' tensors together."""
    stacked = torch.stack(list(values))
    if reduction == "sum":
        return stacked.sum(0)
    if reduction == "avg":
        return stacked.mean(0)
    if reduction in ("max", "min"):
        return stacked.amax(0) if reduction == "max" else stacked.amin(0)
    raise NotExecuted(f"reduction `{reduction}` cannot be executed")
