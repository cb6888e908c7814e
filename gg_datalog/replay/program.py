"""Runs one graph, node by node: values, memory that they share, and what is drawn."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gg_datalog.extract.graph import HIGHER_ORDER
from gg_datalog.extract.lower import RANDOM
from gg_datalog.extract.signature import packet_of
from gg_datalog.extract.table import Table
from gg_datalog.replay.calls import (
    Called,
    NotExecuted,
    call_of,
    kernel_of,
    literal,
    tensors,
)
from gg_datalog.replay.collectives import Call, asked, collective
from gg_datalog.replay.documents import Json
from gg_datalog.replay.dtypes import as_dtype, dtype_of, unwritten
from gg_datalog.replay.kernels import CONVERSIONS, LAID_OUT, Shapes, compute, constant
from gg_datalog.replay.lookups import references
from gg_datalog.replay.tensor import Tensor

Values = dict[str, Any]
# (rank, name of the node, ordinal of the random operator, shape, probability) -> mask
Masks = Callable[[int, str, int, Sequence[int], float], Tensor]
DROPOUT = ("aten.native_dropout", "aten.dropout", "aten.dropout_")
DRAWN = ("aten.bernoulli", "aten.bernoulli_")


class OutOfRange(NotExecuted):
    """A lookup beyond the end of a table."""


@dataclass(frozen=True)
class Unknown:
    """An input without a known size."""

    name: str


def resolve(argument: Any, values: Mapping[str, Any]) -> Any:
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
    """Runs one graph; yields at collectives, is sent their result, and returns all values: tensors
    that share memory in the program do so here, and hold what was written last."""
    values: Values = {}
    run = _Run(graph, rank, table, masks, seed, values)
    for node in graph["nodes"]:
        name = node["name"]
        if node["op"] == "output":
            continue
        if name in given:
            values[name] = given[name].clone()  # programs write into what they are given
        elif node["op"] == "placeholder":
            values[name] = Unknown(name)
            continue
        elif node["op"] == "get_attr":
            values[name] = constant(node)
        elif kind := collective(table, node):
            call = run.call(node)
            run.may_write(node, call)
            begun = kind in ("isend", "irecv") and name in run.waited
            result = yield replace(asked(node, kind, call, run.types), started=begun)
            if begun:
                run.begun[name] = kind, call
                values[name] = call.tensors()[0]  # which holds what it held until it is waited for
            else:
                values[name] = _received(call, kind, result)
        elif of := run.transfer(node):
            kind, call = run.begun[of]
            result = yield Call(kind, "", "", None, {}, name, of=of)
            values[name] = _received(call, kind, result) if kind == "irecv" else values[of]
        else:
            values[name] = run.value(node)
        _check(node, values[name])
        _bind(node, values[name], values)
    return values


@dataclass(repr=False)
class _Run:
    """One graph while it runs."""

    graph: Json
    rank: int
    table: Table
    masks: Masks
    seed: int
    values: Values
    randoms: int = 0
    # by what is drawn, and how: the number of the random operator
    drawn: dict[tuple[str | None, float], int] = field(default_factory=dict)
    others: int = 0
    # memory that lies otherwise than it did when the program was captured
    loose: set[int] = field(default_factory=set)
    # transfers that were started and not yet waited for: kind and arguments
    begun: dict[str, tuple[str, Called]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.types = {node["name"]: node.get("dtype") or "" for node in self.graph["nodes"]}
        self.shapes = _result_shapes(self.graph)
        waits = [node for node in self.graph["nodes"] if ".wait_tensor" in node.get("target", "")]
        self.waited = {name for node in waits for name in _operands(node)}

    def transfer(self, node: Json) -> str:
        """The transfer that a node waits for, if it does."""
        if ".wait_tensor" not in str(node.get("target", "")):
            return ""
        return next((name for name in _operands(node) if name in self.begun), "")

    def call(self, node: Json) -> Called:
        """What a node calls, its arguments by name."""
        return call_of(self.table, node, lambda a: resolve(a, self.values))

    def value(self, node: Json) -> Any:
        """The value of a node that is no collective."""
        if any(isinstance(e, str) for e in node.get("shape") or []):
            node = node | {"shape": [resolve(e, self.values) for e in node["shape"]]}
        where = f"node `{node['name']}` ({node['target']})"
        try:
            return self._value(node | {"rank": self.rank})
        except FAILURES as error:
            raise failed(where, error, node["target"]) from error

    def _value(self, node: Json) -> Any:
        if "getitem" in node["target"]:
            of, at = (resolve(a, self.values) for a in node["args"])
            return of[at]
        call = self.call(node)
        self.may_write(node, call)
        if self._writes_somewhere(node, call):
            for i, x in enumerate(call.tensors()):
                unwritten(x, f"{i} of {node['name']}")
            return None
        name = packet_of(kernel_of(node))
        if name in DROPOUT:
            return self._dropout(node, call)
        if name in DRAWN and isinstance(call.get("p"), (int, float)):
            return self._drawn(node, call)
        if not random(node, call):
            return self._typed(node, call, self._computed(node, call))
        with torch.random.fork_rng(devices=[]):  # what is drawn alike on both sides is the same
            torch.manual_seed(self.seed + 104729 * self.others)
            self.others += 1
            return self._typed(node, call, self._computed(node, call))

    def _computed(self, node: Json, call: Called) -> Any:
        value = compute(self.table, call, node, self.shapes.get(node["name"]))
        if call.target.startswith(LAID_OUT) and isinstance(value, torch.Tensor):
            memory = {_memory(x) for x in (value, *call.tensors()) if x.numel()}
            self.loose |= memory if len(memory) > 1 else set()
        return value

    def may_write(self, node: Json, call: Called) -> None:
        """:class:`NotExecuted` where nobody knows what sees a write."""
        for x in (t for value in call.written().values() for t in tensors(value)):
            if _memory(x) in self.loose:
                raise NotExecuted(
                    f"node `{node['name']}` writes into memory that lies otherwise here than when "
                    "the program was captured"
                )

    def _writes_somewhere(self, node: Json, call: Called) -> bool:
        """Is it a kernel of which nothing is known but that it writes into its operands?"""
        if call.signature is not None or node["target"] in HIGHER_ORDER or not call.tensors():
            return False
        rows = self.table.rows.get(call.name)
        if rows is not None:
            return all(bool(row.results) and min(row.results) > 0 for row in rows)
        described = call.name in self.table.identity or call.name in self.table.elementwise
        known = described or call.name.partition(".")[0] in ("hlo", "_operator")
        gives = node.get("shape") is not None or node["name"] in self.shapes
        return "." in call.name and not known and not gives

    def _typed(self, node: Json, call: Called, value: Any) -> Any:
        """The value in the type that the graph says."""
        wanted = dtype_of(node.get("dtype"))
        if not isinstance(value, torch.Tensor) or wanted is None:
            return value
        if value.dtype != wanted:
            return as_dtype(value, wanted)
        if call.name in CONVERSIONS and not self._same_type(node):
            return _apart(value, call)
        return value

    def _same_type(self, node: Json) -> bool:
        """Is the result declared to be of the type of the first operand?"""
        first = [*node["args"], *(node.get("kwargs") or {}).values()][0]
        before = self.types.get(first.get("node", ""), "") if isinstance(first, dict) else ""
        return not before or before == node.get("dtype")

    # ---- what is drawn
    def _mask(self, node: Json, x: Tensor, p: float) -> Tensor:
        again = (node.get("draw"), p)  # what draws the same numbers once more is the same draw
        if not again[0] or again not in self.drawn:
            self.drawn[again] = self.randoms
            self.randoms += 1
        return self.masks(self.rank, node["name"], self.drawn[again], tuple(x.shape), p)

    def _drawn(self, node: Json, call: Called) -> Tensor:
        """Ones and zeros; p is the probability of a one."""
        x = call["self"]
        mask = self._mask(node, x, 1 - call["p"]).to(x.dtype)
        return x.copy_(mask) if packet_of(call.target).endswith("_") else mask

    def _dropout(self, node: Json, call: Called) -> Any:
        x, p, train = call["input" if "input" in call.given else "self"], call["p"], call["train"]
        name = packet_of(call.target)
        single, written = name != "aten.native_dropout", name.endswith("_")
        if train is False or p == 0:
            return x if single else (x.clone(), torch.ones(x.shape, dtype=torch.bool))
        mask = self._mask(node, x, p)
        made = x * mask / (1 - p) if p < 1 else x * 0
        made = x.copy_(made) if written else made
        return made if single else (made, mask)


def _operands(node: Json) -> list[str]:
    return references([node.get("args", []), node.get("kwargs", {})])


def _memory(x: Tensor) -> int:
    return int(x.untyped_storage().data_ptr())


def _apart(value: Tensor, call: Called) -> Tensor:
    """A copy: between two types of floats, which here are one, torch converts."""
    shared = _memory(value) in map(_memory, call.tensors())
    return value.clone() if shared else value


def _received(call: Called, kind: str, result: Any) -> Any:
    """What a collective gives: in place, or as an output that is given, it is that memory."""
    into = [t for value in call.written().values() for t in tensors(value)]
    if kind == "batch_p2p_ops":
        return [
            tensor.copy_(made) if one.endswith("recv") else made
            for one, tensor, made in zip(call["op_list"], call["tensors"], result, strict=True)
        ]
    if not into:
        return result
    for memory, made in zip(into, tensors(result), strict=True):
        memory.copy_(made)
    return into if isinstance(result, list) else into[0]


def _bind(node: Json, value: Any, values: Values) -> None:
    """Remembers the sizes that depend on data by their names."""
    if not isinstance(value, torch.Tensor):
        return
    for symbol, extent in zip(node.get("shape") or (), value.shape, strict=False):
        if isinstance(symbol, str):
            known = values.setdefault(f"${symbol}", extent)
            if known != extent:
                raise NotExecuted(f"node `{node['name']}`: size {symbol} is {known} and {extent}")


def _result_shapes(graph: Json) -> dict[str, Shapes]:
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


def random(node: Json, call: Called) -> bool:
    """Does the operator draw random numbers?"""
    if call.signature is not None and call.signature.random:
        return bool(call.get("dropout_p", default=1.0) != 0)
    words = {w for part in str(node["target"]).split(".")[1:2] for w in part.split("_")}
    return bool(words & RANDOM)


FAILURES = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError,
            ValueError)  # fmt: skip


LOOKUPS = ("embedding", "index", "take", "gather", "scatter")


def failed(where: str, error: Exception, target: str = "") -> NotExecuted:
    """What is said of an operator that torch refuses."""
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
