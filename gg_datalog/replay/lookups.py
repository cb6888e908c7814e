"""Which integer tensors look something up, and which numbers they are compared with or shifted by:
what is drawn for them are positions of what they look up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gg_datalog.extract.table import Table
from gg_datalog.replay.atoms import Dim, unify
from gg_datalog.replay.calls import named
from gg_datalog.replay.documents import Json

Dims = list[Dim]
COMPARING = ("lt", "le", "ge", "gt", "eq", "ne")
COUNTING = ("add", "sub", "mul", *COMPARING)
NUMBERS = ("self", "other")  # arguments that may be numbers
PARTS = ("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_split")
POSITIONS = ("embedding", "index_select", "gather", "argmax", "max")  # they give something else


@dataclass(frozen=True)
class Counted:
    """A number that an integer tensor ``source`` is compared with or shifted by."""

    source: str
    kernel: str
    holder: Any
    key: Any
    value: int


@dataclass(repr=False)
class Lookups:
    """Of one graph: ``domains`` are the dimensions that an integer tensor looks up, ``skipped``
    the numbers that its lookups leave out (None: one leaves out nothing)."""

    nodes: Mapping[str, Json]
    dims: Mapping[str, Any]
    domains: dict[str, Dims] = field(default_factory=dict)
    skipped: dict[str, set[int | None]] = field(default_factory=dict)
    counted: list[Counted] = field(default_factory=list)
    origin: dict[str, str] = field(default_factory=dict)

    def add(self, node: Json, table: Table, given: Mapping[Any, Any], place: Any) -> None:
        """One more node; ``place`` tells where an argument of it lies."""
        kernel = short(table, node)
        if kernel in LOOKS_UP:
            for ids, dim, left_out in LOOKS_UP[kernel](self, node, given):
                self._looks_up(ids, dim, left_out)
                self._pads(ids, given.get("padding_idx"), place)
        self._follow(node, kernel, given, place)

    def of(self, argument: Any) -> Dims:
        """The dimensions of a tensor argument."""
        found = self.dims[argument["node"]]
        if not isinstance(found, list):
            raise ValueError("not one tensor")
        return found

    def source(self, name: str) -> str:
        """The integer tensor from which this one was shifted, clamped or moved."""
        return self.origin.get(name, name)

    def _looks_up(self, ids: Any, dim: Dim, left_out: int | None) -> None:
        if is_reference(ids):
            source = self.source(ids["node"])
            self.domains.setdefault(source, []).append(dim)
            self.skipped.setdefault(source, set()).add(left_out)

    def _pads(self, ids: Any, row: Any, place: Any) -> None:
        """The padding row of a table is one that ids are compared with."""
        if is_reference(ids) and type(row) is int and row > 0:
            holder, key = place("padding_idx")
            self.counted.append(Counted(self.source(ids["node"]), "eq", holder, key, row))

    def _follow(self, node: Json, kernel: str, given: Mapping[Any, Any], place: Any) -> None:
        parts = kernel in PARTS and not node.get("dtype")  # of several results none is told
        if not parts and not str(node.get("dtype", "")).startswith(("int", "uint", "bool")):
            return
        used = [n for n in references(list(given.values())) if n in self.origin or self._integer(n)]
        if not used or kernel in POSITIONS:
            return
        source = self.source(used[-1] if kernel == "copy" else used[0])
        self.origin[node["name"]] = source
        for name in NUMBERS:
            value = given.get(name)
            if kernel in COUNTING and type(value) is int and value:
                holder, key = place(name)
                self.counted.append(Counted(source, kernel, holder, key, value))

    def _integer(self, name: str) -> bool:
        return str(self.nodes[name].get("dtype", "")).startswith(("int", "uint"))


def short(table: Table, node: Json) -> str:
    """The kernel's own name: without namespace, marks of writing, and what makes a copy of it."""
    name = named(table, node)
    name = name.partition(".")[2] or name
    return name.removesuffix("_").lstrip("_").removesuffix("_copy")


def is_reference(argument: Any) -> bool:
    """Does an argument refer to a node?"""
    return isinstance(argument, dict) and "node" in argument


def references(value: Any) -> list[str]:
    """Names of nodes in an argument tree."""
    if isinstance(value, dict):
        if set(value) == {"node"}:
            return [value["node"]]
        return [n for v in value.values() for n in references(v)]
    return [n for v in value for n in references(v)] if isinstance(value, (list, tuple)) else []


# ---- which arguments hold positions, and of what
Found = Iterator[tuple[Any, Dim, int | None]]
Rule = Callable[[Lookups, Json, Mapping[Any, Any]], Found]
LOOKS_UP: dict[str, Rule] = {}


def looks_up(*names: str) -> Callable[[Rule], Rule]:
    """Registers which arguments of these operators hold positions."""

    def register(rule: Rule) -> Rule:
        LOOKS_UP.update(dict.fromkeys(names, rule))
        return rule

    return register


@looks_up("embedding")
def _embedding(at: Lookups, _: Json, given: Mapping[Any, Any]) -> Found:
    yield given["indices"], at.of(given["weight"])[0], None


@looks_up("embedding_dense_backward")
def _embedding_backward(at: Lookups, node: Json, given: Mapping[Any, Any]) -> Found:
    yield given["indices"], at.of({"node": node["name"]})[0], None


@looks_up("index_add", "index_select", "index_copy", "index_fill")
@looks_up("gather", "scatter", "scatter_add", "scatter_reduce")
def _along(at: Lookups, node: Json, given: Mapping[Any, Any]) -> Found:
    of = at.of(given["self"])
    if "collapsed_dims" in given:  # as HLO has it
        for dim in given["collapsed_dims"]:
            yield given["index"], of[dim], None
    else:
        yield given["index"], of[given["dim"]], None


@looks_up("index", "index_put", "unsafe_index_put", "index_put_impl")
def _index(at: Lookups, _: Json, given: Mapping[Any, Any]) -> Found:
    of = at.of(given["self"])
    listed = [(i, x) for i, x in enumerate(given["indices"]) if x is not None]
    if any(at.nodes[x["node"]].get("dtype") == "bool" for _, x in listed):
        return
    for i, x in listed:
        if at.nodes[x["node"]].get("target", "").startswith("aten.arange"):
            unify(of[i], at.of(x)[0])
        else:
            yield x, of[i], None


@looks_up("nll_loss_forward", "nll_loss2d_forward", "nll_loss_backward", "nll_loss2d_backward",
          "cross_entropy_loss", "nll_loss", "nll_loss2d", "nll_loss_nd")  # fmt: skip
def _loss(at: Lookups, _: Json, given: Mapping[Any, Any]) -> Found:
    scores = at.of(given["self"])
    yield given["target"], scores[min(1, len(scores) - 1)], given.get("ignore_index", -100)


__all__ = ["COMPARING", "Counted", "Lookups", "is_reference", "references", "short"]
