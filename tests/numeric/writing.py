"""Graphs under construction, and an operator written into each of them: a mesh of ranks, layouts."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np

from .execution import compute, resolve
from .program import Json, references
from .promotion import Array, Invalid, numpy_type, torch_name
from .signatures import canonical
from .views_np import viewable

Ref = dict[str, str]
LARGEST = 1000  # elements of a tensor


def ref(name: str) -> Ref:
    """A reference to a node."""
    return {"node": name}


# ---- graphs --------------------------------------------------------------------------------------------
@dataclass
class Graph:
    """A graph under construction; shapes, types and shared memory come from running operators on
    zeros."""

    nodes: list[Json] = field(default_factory=list)
    zeros: dict[str, Any] = field(default_factory=dict)
    written: list[Array] = field(default_factory=list)  # memory, since somebody looked
    writes: dict[str, list[Array]] = field(default_factory=dict)  # by node
    flying: dict[str, list[str]] = field(default_factory=dict)  # what must stay until a node waits
    kept: set[str] = field(default_factory=set)  # whether or not it is used
    stems: dict[str, str] = field(
        default_factory=dict
    )  # of nodes that need each other on all ranks

    def placeholder(self, name: str, shape: Sequence[int], dtype: str) -> None:
        """An input."""
        self._add(name, "placeholder", name, [], np.zeros(shape, numpy_type(dtype)))

    def constant(self, name: str, value: float) -> None:
        """A number whose value is known."""
        self._add(name, "get_attr", name, [], np.asarray(value))
        self.nodes[-1]["value"] = value

    def call(self, name: str, target: str, args: Sequence[Any], **kwargs: Any) -> None:
        """An operator; :class:`Invalid` where its operands do not fit."""
        row = {"name": name, "op": "call_function", "target": target, "args": list(args)}
        plain = canonical(row | {"kwargs": kwargs})
        given = {k: resolve(v, self.zeros) for k, v in plain["kwargs"].items()}
        try:
            with np.errstate(all="ignore"):
                made, written = compute(target, resolve(plain["args"], self.zeros), given)
        except (ValueError, IndexError, AssertionError) as error:
            raise Invalid(str(error)) from error
        for array in written:
            self._wrote(name, array)
        if made is None or isinstance(made, (tuple, list)):
            made = made or []
            self.nodes.append(row | {"kwargs": kwargs})
            self.zeros[name] = [blank(a) for a in made]
            return
        if made.size > LARGEST:
            raise Invalid("too large")
        self._add(name, "call_function", target, list(args), made, kwargs)

    def _wrote(self, name: str, array: Array) -> None:
        blank(array)
        self.written.append(array)
        self.writes.setdefault(name, []).append(array)
        self.kept.add(name)

    def waits(self, name: str, of: str) -> None:
        """A node waits for another one: this is when the result is there."""
        self.writes.setdefault(name, []).append(self.zeros[name])
        made = next(n for n in self.nodes if n["name"] == of)
        while "getitem" in made["target"]:
            made = next(n for n in self.nodes if n["name"] == made["args"][0]["node"])
        self.flying[name] = references(made["args"])

    def item(self, name: str, of: Ref, place: int) -> None:
        """One of several results."""
        args = [of, place]
        target = "<built-in function getitem>"
        self._add(name, "call_function", target, args, self.zeros[of["node"]][place])

    def collective(
        self,
        name: str,
        target: str,
        args: list[Any],
        shape: Sequence[int],
        into: str = "",
        out: bool = False,
        many: int = 0,
    ) -> None:
        """A collective with a result of this shape, or so many of them, or in the memory of a node."""
        full = f"_c10d_functional.{target}"
        if into:
            kwargs = {"out": ref(into)} if out else {}
            self._add(name, "call_function", full, args, self.zeros[into], kwargs)
            self._wrote(name, self.zeros[into])
            return
        if many:
            row = {"name": name, "op": "call_function", "target": full, "args": args}
            self.nodes.append(row | {"kwargs": {}})
            dtype = self.zeros[args[0][0]["node"]].dtype
            self.zeros[name] = [np.zeros(shape, dtype) for _ in range(many)]
            return
        dtype = self.zeros[args[0]["node"]].dtype
        self._add(name, "call_function", full, args, np.zeros(shape, dtype))

    def transfer(self, name: str, target: str, args: list[Any], of: str, into: str) -> None:
        """A message of the form of a node, received into the memory of a node."""
        full = f"_c10d_functional.{target}"
        self._add(name, "call_function", full, args, self.zeros[of])
        if into:
            self._wrote(name, self.zeros[into])

    def batch(self, name: str, args: list[Any], into: Sequence[str]) -> None:
        """Several messages at once."""
        target = "_c10d_functional.batch_p2p_ops.default"
        row = {"name": name, "op": "call_function", "target": target, "args": args, "kwargs": {}}
        self.nodes.append(row)
        self.zeros[name] = [self.zeros[x["node"]] for x in args[3]]
        for one in into:
            self._wrote(name, self.zeros[one])

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a node."""
        found: tuple[int, ...] = self.zeros[name].shape
        return found

    def dtype(self, name: str) -> str:
        """The type of a node."""
        return torch_name(self.zeros[name])

    def _add(
        self, name: str, op: str, target: str, args: list[Any], value: Any, kwargs: Any = None
    ) -> None:
        self.zeros[name] = value = blank(value)
        row = {"name": name, "op": op, "target": target, "args": args, "kwargs": kwargs or {}}
        self.nodes.append(row | {"shape": list(value.shape), "dtype": torch_name(value)})

    def drop_after(self, count: int) -> None:
        """Forgets all nodes but the first ``count``."""
        for node in self.nodes[count:]:
            del self.zeros[node["name"]]
            self.kept.discard(node["name"])
            self.writes.pop(node["name"], None)
        del self.nodes[count:]

    def used(self, returns: Iterable[str]) -> set[str]:
        """The nodes that some nodes are computed from, these included."""
        found = {*returns, *self.kept}
        for node in reversed(self.nodes):
            if node["name"] in found:
                found.update(references([node["args"], node["kwargs"]]))
        return found

    def document(self, returns: Sequence[str], used: Container[str]) -> Json:
        """The graph as a document, without what is not used."""
        kept = [n for n in self.nodes if n["name"] in used or n["op"] == "placeholder"]
        output = {"name": "output", "op": "output", "target": "output", "kwargs": {}}
        end = output | {"args": [[ref(n) for n in returns]]}
        return {"format": "fx-graph", "version": 1, "nodes": [*kept, end]}


def blank(array: Array) -> Array:
    """Zeros (of a mask: ones) in place of what is there; memory that is shared stays shared."""
    array = array if array.flags.writeable else array.copy()
    array[...] = array.dtype == bool
    return array


def documents(graphs: Sequence[Graph], returns: Sequence[Sequence[str]]) -> list[Json]:
    """The graphs of all ranks: a collective that one rank uses is there on every rank."""
    needed: set[str] = set()
    while True:
        used = [g.used([*names, *needed]) for g, names in zip(graphs, returns, strict=True)]
        nodes = [n for g in graphs for n in g.nodes if str(n["target"]).startswith("_c10d")]
        more = {n["name"] for n in nodes if any(n["name"] in found for found in used)}
        rows = list(zip(graphs, used, strict=True))
        stems = {g.stems[n] for g, found in rows for n in found if n in g.stems}
        more |= {n for g in graphs for n, stem in g.stems.items() if stem in stems}
        if more <= needed:
            ready = zip(graphs, returns, used, strict=True)
            return [g.document(names, found) for g, names, found in ready]
        needed |= more


# ---- the mesh ------------------------------------------------------------------------------------------
Place = tuple[Any, ...]  # ("R",), ("S", dim, sizes, outer), ("P", kind), ("L", the only coordinate)
Layout = tuple[Place, ...]  # one place per axis of the mesh
WHOLE: Place = ("R",)
PARTIAL: Place = ("P", "sum")
NAMES = ("g", "h")


@dataclass(frozen=True)
class Mesh:
    """Ranks in a grid, the last axis running fastest; ``orders`` are group members by axis."""

    shape: tuple[int, ...]
    orders: tuple[tuple[int, ...], ...]

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return prod(self.shape)

    def at(self, rank: int) -> tuple[int, ...]:
        """The coordinates of a rank."""
        return tuple(int(i) for i in np.unravel_index(rank, self.shape))

    def lives(self, rank: int, layout: Layout) -> bool:
        """Does a rank have a tensor of this layout?"""
        pairs = zip(self.at(rank), layout, strict=True)
        return all(place[0] != "L" or place[1] == at for at, place in pairs)

    def line(self, rank: int, axis: int) -> dict[int, int]:
        """The ranks that differ from one along an axis only, by their coordinate."""
        own = self.at(rank)
        places = ((*own[:axis], i, *own[axis + 1 :]) for i in range(self.shape[axis]))
        return {p[axis]: int(np.ravel_multi_index(p, self.shape)) for p in places}

    def groups(self) -> Json:
        """All groups: the ranks that differ in one coordinate only, by the name of that axis."""
        rows = []
        for axis, name in enumerate(NAMES[: len(self.shape)]):
            others = [range(n) if i != axis else (0,) for i, n in enumerate(self.shape)]
            for place in product(*others):
                line = [(*place[:axis], i, *place[axis + 1 :]) for i in self.orders[axis]]
                ranks = [int(np.ravel_multi_index(p, self.shape)) for p in line]
                rows.append({"ranks": ranks, "names": {str(r): name for r in ranks}})
        return {"seq": [], "dist": rows}

    def boxes(self, rank: int, shape: Sequence[int], layout: Layout) -> list[Any]:
        """What a rank holds of an input, as rows (box of the sequential, box of the own tensor).

        A shard with ``outer`` > 1 is one of every of ``outer`` equal blocks.
        """
        pieces = [[(0, e, 0)] for e in shape]  # per dimension (lo, n, own lo)
        for at, place in zip(self.at(rank), layout, strict=True):
            if place[0] != "S":
                continue
            _, dim, sizes, outer = place
            ((lo, n, _),) = pieces[dim]
            start, width, block = sum(sizes[:at]), sizes[at], n // outer
            pieces[dim] = [(lo + i * block + start, width, i * width) for i in range(outer)]
        return [
            ([[lo, lo + n] for lo, n, _ in box], [[own, own + n] for _, n, own in box])
            for box in product(*pieces)
        ]


def local(shape: Sequence[int], layout: Layout, at: Sequence[int]) -> list[int]:
    """The shape of a rank's tensor."""
    found = list(shape)
    for i, place in zip(at, layout, strict=True):
        if place[0] == "S":
            _, dim, sizes, outer = place
            found[dim] = sizes[i] * outer
    return found


# ---- one operator on one graph -------------------------------------------------------------------------
@dataclass
class Site:
    """A graph into which an operator is written: its operands here, and which positions of each
    letter (dimension) this graph has."""

    graph: Graph
    operands: list[Ref]
    ranges: Mapping[str, tuple[int, int]]
    blocks: Mapping[str, int]  # letters of which this graph has a part, and of how many blocks
    rank: int  # -1: the sequential graph
    coordinates: tuple[int, ...]
    count: int
    axes: Mapping[str, int] = field(default_factory=dict)  # along which a letter is cut

    def __getitem__(self, place: int) -> Ref:
        return self.operands[place]

    @property
    def seq(self) -> bool:
        """Is it the sequential graph?"""
        return self.rank < 0

    def size(self, letter: str) -> int:
        """How many positions of a letter are here."""
        return self.ranges[letter][1]

    def lo(self, letter: str) -> int:
        """The first of them."""
        return self.ranges[letter][0]

    def name(self, stem: str) -> str:
        """A new name."""
        self.count += 1
        return f"{stem}_{self.count}"

    def call(self, target: str, *args: Any, **kwargs: Any) -> Ref:
        """An operator of aten; without an overload the default one."""
        made = self.name(target.split(".")[0].strip("_"))
        if target == "view" and not viewable(self.graph.zeros[args[0]["node"]], args[1]):
            target = "reshape"  # what lies in another order in memory has no such view
        full = target if "." in target else f"{target}.default"
        space = "" if full.startswith("prims.") else "aten."
        self.graph.call(made, space + full, list(args), **kwargs)
        return ref(made)

    def item(self, of: Ref, place: int) -> Ref:
        """One of several results."""
        made = self.name("item")
        self.graph.item(made, of, place)
        return ref(made)

    def constant(self, value: float) -> Ref:
        """A number as a tensor without dimensions."""
        made = self.name("const")
        self.graph.constant(made, value)
        return ref(made)

    def shape(self, of: Ref) -> tuple[int, ...]:
        """The shape of a node here."""
        return self.graph.shape(of["node"])
