"""Collectives whose result is waited for later, in the forms in which captured graphs have them: also
in place, into buffers, several at once; and operators in another order that changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .execution import arrays, overlap
from .program import Json, references
from .tensors import Tensor
from .writing import Graph, ref

if TYPE_CHECKING:
    from .layouts import Layouts

FORMS = ("wait", "wait", "twice", "copy", "in place", "out", "several")
KEEPS_SHAPE = ("all_reduce", "broadcast")
SEVERAL = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor")
Resize = Callable[[list[int]], list[int]]


def collective(
    f: Layouts, x: Tensor, kind: str, args: list[Any], resize: Resize
) -> tuple[str, ...]:
    """The names of the results on the ranks."""
    form = f.rng.choice(FORMS)
    if form == "in place" and kind not in KEEPS_SHAPE:
        form = "copy"
    if (form == "out" and kind != "all_gather_into_tensor") or (
        form == "several" and kind not in SEVERAL
    ):
        form = "wait"
    own = f.alone and f.chance(0.5)  # the tensor itself is overwritten, no copy of it
    made = f.fresh(kind[:6])
    early = f.wrong(0.5, "read before it is there")
    raced = kind not in KEEPS_SHAPE and f.wrong(0.5, "written in flight")
    names = []
    for rank, graph in enumerate(f.dist):
        if not x.dist[rank]:
            names.append("")
            continue
        mark = len(graph.nodes)
        write = Written(f, graph, made, kind, args, resize, own, early, raced)
        names.append(write.form(form, x.dist[rank]))
        f.told |= {n["name"]: "handles" for n in graph.nodes[mark:]}
    return tuple(names)


class Written:
    """A collective as one graph has it."""

    def __init__(
        self, f: Layouts, graph: Graph, made: str, kind: str, args: list[Any], resize: Resize,
        own: bool, early: bool, raced: bool,
    ) -> None:  # fmt: skip
        self.graph, self.made, self.kind, self.args = graph, made, kind, args
        self.resize, self.own, self.early, self.raced = resize, own, early, raced

    def form(self, form: str, name: str) -> str:
        """In one of the forms; the name of the node that holds the result."""
        if form == "copy":
            return self.copied(name)
        if form == "in place":
            return self.in_place(name)
        if form == "out":
            return self.out(name)
        return self.several(name) if form == "several" else self.plain(name, 1 + (form == "twice"))

    def call(self, suffix: str, target: str, *args: Any, **kwargs: Any) -> str:
        """An operator under a name of its own."""
        name = f"{self.made}{suffix}"
        self.graph.call(name, target, list(args), **kwargs)
        return name

    def waited(self, name: str, times: int = 1) -> str:
        """The result once it is there; by mistake what is there before."""
        found = read = name
        if self.early:
            read = self.call("x", "aten.clone.default", ref(name))
        for i in range(times):
            found = self.call(f"w{'w' * i}", "_c10d_functional.wait_tensor.default", ref(found))
            self.graph.waits(found, name)
        if self.early:
            self.graph.kept.add(found)
        return read if self.early else found

    def operand(self, name: str) -> str:
        """What is given to a collective; by mistake it is written while it flies."""
        return self.call("p", "aten.clone.default", ref(name)) if self.raced else name

    def plain(self, name: str, times: int) -> str:
        """As a function."""
        given = self.operand(name)
        shape = self.resize(list(self.graph.shape(name)))
        self.graph.collective(self.made, f"{self.kind}.default", [ref(given), *self.args], shape)
        if self.raced:
            self.call("r", "aten.zero_.default", ref(given))
        return self.waited(self.made, times)

    def copied(self, name: str) -> str:
        """Into the operand, or into a buffer: how captured graphs have what writes in place."""
        shape, keeps = list(self.graph.shape(name)), self.kind in KEEPS_SHAPE
        if keeps:
            into = name if self.own else self.call("c", "aten.clone.default", ref(name))
        else:
            dtype = {"dtype": self.graph.dtype(name)}
            into = self.call("e", "aten.empty.memory_format", self.resize(shape), dtype=dtype)
        made = self.plain(into if keeps else name, 1)
        self.call("o", "aten.copy_.default", ref(into), ref(made))
        return into

    def in_place(self, name: str) -> str:
        """The operand holds the result, when it is waited for."""
        into = name if self.own else self.call("c", "aten.clone.default", ref(name))
        args = [ref(into), *self.args]
        self.graph.collective(self.made, f"{self.kind}_.default", args, [], into)
        return self.waited(self.made)

    def out(self, name: str) -> str:
        """Into a tensor that is given."""
        shape, dtype = self.resize(list(self.graph.shape(name))), {"dtype": self.graph.dtype(name)}
        into = self.call("e", "aten.empty.memory_format", shape, dtype=dtype)
        args = [ref(name), *self.args]
        self.graph.collective(self.made, f"{self.kind}_out.default", args, [], into, out=True)
        return self.waited(self.made)

    def several(self, name: str) -> str:
        """Two tensors at once."""
        other = self.call("n", "aten.clone.default", ref(name))
        shape = self.resize(list(self.graph.shape(name)))
        args = [[ref(other), ref(name)], *self.args]
        self.graph.collective(self.made, f"{self.kind}_coalesced.default", args, shape, many=2)
        self.graph.item(f"{self.made}i", ref(self.made), 1)
        return self.waited(f"{self.made}i")


# ---- another order -------------------------------------------------------------------------------------
def scheduled(graph: Graph, seed: str) -> None:
    """Other orders of the same program: what waits comes late, collectives early."""
    nodes = graph.nodes
    after: dict[str, set[str]] = {n["name"]: set() for n in nodes}
    touched = {n["name"]: _touched(graph, n) for n in nodes}
    last = ""
    for i, node in enumerate(nodes):
        name = node["name"]
        after[name] |= set(references([node["args"], node["kwargs"]]))
        if _meets(node):
            after[name] |= {last} - {""}
            last = name
        for other in nodes[:i]:
            if _conflict(graph, touched, name, other["name"]):
                after[name].add(other["name"])
    graph.nodes[:] = _ordered(nodes, after, seed)


def _meets(node: Json) -> bool:
    target = str(node["target"])
    return target.startswith("_c10d") and "wait_tensor" not in target


def _touched(graph: Graph, node: Json) -> list[Any]:
    used = [graph.zeros[n] for n in references([node["args"], node["kwargs"]])]
    used += [graph.zeros[n] for n in graph.flying.get(node["name"], ())]
    return arrays([*used, graph.zeros[node["name"]]])


def _conflict(graph: Graph, touched: dict[str, list[Any]], one: str, other: str) -> bool:
    """Does one of two nodes write what the other one touches?"""
    pairs = ((one, other), (other, one))
    return any(overlap(w, t) for a, b in pairs for w in graph.writes.get(a, ()) for t in touched[b])


def _ordered(nodes: Sequence[Json], after: dict[str, set[str]], seed: str) -> list[Json]:
    def priority(node: Json) -> float:
        number = random.Random(f"{seed} {node['name']}").random()
        target = str(node["target"])
        return number + (3 if "wait_tensor" in target else -2 if _meets(node) else 0)

    left, found, done = sorted(nodes, key=priority), [], set[str]()
    while left:
        node = next(n for n in left if after[n["name"]] <= done)
        left.remove(node)
        found.append(node)
        done.add(node["name"])
    return found
