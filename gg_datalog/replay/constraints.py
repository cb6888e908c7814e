"""Which sizes of a captured graph have to change together, and which arguments tell them.

What moves together follows from the lowering (:mod:`gg_datalog.replay.lettered`). By hand are only
the arguments that are sizes or positions (:mod:`gg_datalog.replay.arguments`): they are written
anew once the sizes are chosen. An operator that nothing describes, or with a size among its
arguments that is not listed there, keeps its sizes, and so do all its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from gg_datalog.extract.table import Table
from gg_datalog.replay.arguments import rewrite
from gg_datalog.replay.atoms import (
    Dim,
    cut,
    extent,
    fix,
    fixed,
    fresh,
    leaves,
    off_by,
    scaled,
    size,
)
from gg_datalog.replay.documents import Json, nodes_of
from gg_datalog.replay.lettered import Lowered, Made
from gg_datalog.replay.lookups import COMPARING, Counted, Lookups, references
from gg_datalog.replay.sized import Sized

Dims = list[Dim]


@dataclass
class GraphSizes:
    """The dimensions of the nodes of one graph; with ``lowered`` those that may change."""

    graph: Json
    table: Table
    lowered: Lowered | None = None
    dims: dict[str, Any] = field(default_factory=dict)
    rewrites: list[Callable[[], None]] = field(default_factory=list)
    # by node what an argument or an operand says of its result
    said: dict[str, Dims] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = nodes_of(self.graph)
        self.lookups = Lookups(self.nodes, self.dims)

    def collect(self) -> None:
        """Walks the graph in program order."""
        for node in self.graph["nodes"]:
            if node["op"] == "output":
                continue
            self.dims[node["name"]] = self._dims(node)
            if node["op"] == "call_function":
                self._called(node)
        for made in self.lowered.made() if self.lowered else ():
            self._fix_created(made)

    def _fix_created(self, made: Made) -> None:
        """What an operator makes of nothing stays, unless an argument or an operand says it."""
        said = {id(a) for dim in self.said.get(made.node, []) for a in leaves(dim)}
        mine = {id(a) for dim in made.created for a in leaves(dim)}
        if made.blind or not mine <= said:
            for dim in (*made.created, *made.whole):
                fix(dim)

    def _dims(self, node: Json) -> Any:
        """The dimensions of a node, as its shape says."""
        shape = node.get("shape")
        found = self.lowered.dims(node["name"]) if self.lowered else None
        if shape is None or any(isinstance(e, str) for e in shape):
            return found
        if isinstance(node.get("value"), list):  # as many numbers as there are
            for dim in found if isinstance(found, list) else []:
                fix(dim)
            return found if self._fits(node) else [fixed(e) for e in shape]
        if self._fits(node):
            return found
        if self.lowered is None:
            return [fresh(e) for e in shape]
        for dim in found if isinstance(found, list) else []:
            fix(dim)
        return [fixed(e) for e in shape]

    def _fits(self, node: Json) -> bool:
        """Is the result lowered to what the node's shape says?"""
        shape = node.get("shape")
        if shape is None or any(isinstance(e, str) for e in shape):
            return True
        found = self.lowered.dims(node["name"]) if self.lowered else None
        return isinstance(found, list) and [extent(d) for d in found] == shape

    def _called(self, node: Json) -> None:
        call = Sized.of(self, node)
        if call is None:
            return self.keep(node)
        try:
            self.lookups.add(node, self.table, call.given, call.place)
        except PROBLEMS:
            self.keep(node)
        if self.lowered is None:
            return None
        try:
            if self.lowered.unknown(node["name"]) or not self._fits(node):
                raise ValueError("nothing describes it")
            call.line_up()
            rewrite(call)
        except PROBLEMS:
            self.keep(node)
        return None

    def keep(self, node: Json) -> None:
        """A node and the operands of it keep their sizes."""
        for name in [*references([node.get("args", []), node.get("kwargs", {})]), node["name"]]:
            _fix_all(self.dims.get(name))

    def count(self) -> None:
        """Numbers that looked-up positions are compared with are counted in units of the table."""
        for one in self.lookups.counted:
            dims = self.lookups.domains.get(one.source)
            if not dims or (one.value < 0 and one.kernel in COMPARING):
                continue  # no position: it stays what it is
            self._count(one, dims[0])

    def _count(self, one: Counted, dim: Dim) -> None:
        by = off_by(dim, [abs(one.value)]) * (1 if one.value > 0 else -1)
        unit = cut(dim, [abs(one.value - by)])
        self.number_at(one.holder, one.key, lambda: scaled(one.value, unit, by))

    def resize(self) -> None:
        """Writes the chosen sizes into the graph."""
        for write in self.rewrites:
            write()
        for node in self.graph["nodes"]:
            dims, shape = self.dims.get(node["name"]), node.get("shape")
            if shape is not None and isinstance(dims, list):
                pairs = zip(shape, dims, strict=True)
                node["shape"] = [e if isinstance(e, str) else size(d) for e, d in pairs]

    def elements(self, new: bool) -> int:
        """Elements of all tensors of known sizes together."""
        total = 0
        for name, dims in self.dims.items():
            if any(isinstance(e, str) for e in self.nodes[name].get("shape") or ()):
                continue
            for one in dims if isinstance(dims, tuple) else (dims,):
                if isinstance(one, list) and self.nodes[name]["op"] != "output":
                    total += prod(size(d) if new else extent(d) for d in one)
        return total

    def number_at(self, holder: Any, key: Any, value: Callable[[], int]) -> None:
        """``holder[key]`` becomes ``value()``."""

        def write() -> None:
            holder[key] = value()

        self.rewrites.append(write)

    def say(self, node: Json, dims: Sequence[Dim]) -> None:
        """These sizes of a node are said by an argument, or are those of an operand."""
        self.said.setdefault(node["name"], []).extend(dims)


PROBLEMS = (ValueError, IndexError, KeyError, TypeError, AttributeError, AssertionError)


def _fix_all(dims: Any) -> None:
    for one in dims if isinstance(dims, tuple) else (dims,):
        if isinstance(one, tuple):
            _fix_all(one)
        else:
            for dim in one or []:
                fix(dim)
