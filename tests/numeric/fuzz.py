"""Random programs: a sequential one of a few operators, and a distributed one that shards its
inputs and inserts collectives, mostly sensibly, now and then with a mistake.

Only soundness is asked of the rules: whatever they derive has to be right by execution. A program
without a mistake (``clean``) also tells how often a right program is refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from interpreter import name_of, resolve
from kernels_np import OPS, Invalid
from program import Json, Program

from gg_datalog.extract.schema import RULE_RELATIONS

Layout = tuple[Any, ...]  # ("R",), ("S", dim, sizes), ("P",)
WHOLE: Layout = ("R",)
PARTIAL: Layout = ("P",)
UNARY = ("relu", "gelu", "exp", "tanh", "neg", "square", "sigmoid")
LINEAR = ("neg",)


def ref(name: str) -> Json:
    """A reference to a node."""
    return {"node": name}


@dataclass
class Graph:
    """A graph under construction; shapes come from running operators on zeros."""

    nodes: list[Json] = field(default_factory=list)
    zeros: dict[str, Any] = field(default_factory=dict)

    def placeholder(self, name: str, shape: Sequence[int], dtype: str) -> None:
        """An input."""
        self._add(name, "placeholder", name, [], np.zeros(shape, _NUMPY[dtype]))

    def call(self, name: str, target: str, args: list[Any], **kwargs: Any) -> None:
        """An operator; :class:`Invalid` where its operands do not fit."""
        try:
            made = OPS[name_of({"target": target})](*resolve(args, self.zeros), **kwargs)
        except (ValueError, IndexError, AssertionError) as error:
            raise Invalid(str(error)) from error
        self._add(name, "call_function", target, args, np.zeros_like(made), kwargs)

    def collective(self, name: str, target: str, args: list[Any], shape: Sequence[int]) -> None:
        """A collective with a result of this shape."""
        dtype = self.zeros[args[0]["node"]].dtype
        self._add(name, "call_function", f"_c10d_functional.{target}", args, np.zeros(shape, dtype))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a node."""
        found: tuple[int, ...] = self.zeros[name].shape
        return found

    def _add(
        self, name: str, op: str, target: str, args: list[Any], value: Any, kwargs: Any = None
    ) -> None:
        dtype = {"f": "float32", "i": "int64", "b": "bool"}[value.dtype.kind]
        value = np.ones_like(value) if dtype == "bool" else value
        self.zeros[name] = value
        row = {"name": name, "op": op, "target": target, "args": args, "kwargs": kwargs or {}}
        self.nodes.append(row | {"shape": list(value.shape), "dtype": dtype})

    def drop_after(self, count: int) -> None:
        """Forgets all nodes but the first ``count``."""
        for node in self.nodes[count:]:
            del self.zeros[node["name"]]
        del self.nodes[count:]

    def document(self, returns: Sequence[str]) -> Json:
        """The graph as a document."""
        output = {"name": "output", "op": "output", "target": "output", "kwargs": {}}
        end = output | {"args": [[ref(n) for n in returns]]}
        return {"format": "fx-graph", "version": 1, "nodes": [*self.nodes, end]}


_NUMPY = {"float32": float, "int64": np.int64, "bool": bool}


@dataclass
class Tensor:
    """A sequential tensor, and a distributed one that is meant to hold it in some layout."""

    seq: str
    dist: str | None
    layout: Layout


@dataclass
class Fuzzer:
    """Builds one pair of programs."""

    rng: random.Random
    ranks: int
    mistakes: float
    seq: Graph = field(default_factory=Graph)
    dist: list[Graph] = field(default_factory=list)
    relations: list[Json] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    clean: bool = True
    count: int = 0

    def __post_init__(self) -> None:
        self.dist = [Graph() for _ in range(self.ranks)]
        self.order = list(range(self.ranks))
        if self.mistakes and self.rng.random() < 0.1:
            self.rng.shuffle(self.order)
            self.clean = self.order == list(range(self.ranks))

    # ---- helpers --------------------------------------------------------------------------------
    def wrong(self) -> bool:
        """Make a mistake here?"""
        if self.rng.random() < self.mistakes:
            self.clean = False
            return True
        return False

    def fresh(self, stem: str) -> str:
        """A new name."""
        self.count += 1
        return f"{stem}{self.count}"

    def on_ranks(
        self, stem: str, target: str, args: Callable[[int], list[Any]], **kwargs: Any
    ) -> str:
        """The same operator on all ranks."""
        name = self.fresh(stem)
        for rank, graph in enumerate(self.dist):
            graph.call(name, target, args(rank), **kwargs)
        return name

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The sequential shape."""
        return self.seq.shape(tensor.seq)

    # ---- inputs -----------------------------------------------------------------------------------
    def cuts(self, extent: int) -> tuple[int, ...] | None:
        """Sizes of a shard per rank, even or not; None where there is too little to share."""
        if extent < self.ranks:
            return None
        if extent % self.ranks == 0 and self.rng.random() < 0.8:
            return (extent // self.ranks,) * self.ranks
        sizes = [1] * self.ranks
        for _ in range(extent - self.ranks):
            sizes[self.rng.randrange(self.ranks)] += 1
        return tuple(sizes)

    def layout_for(self, shape: Sequence[int]) -> Layout:
        """A random layout of an input."""
        dims = [d for d, e in enumerate(shape) if e >= self.ranks]
        if not dims or self.rng.random() < 0.35:
            return WHOLE
        dim = self.rng.choice(dims)
        return ("S", dim, self.cuts(shape[dim]))

    def input(
        self, shape: Sequence[int], layout: Layout | None = None, dtype: str = "float32"
    ) -> Tensor:
        """A new input on both sides with its relations."""
        name = self.fresh("x")
        layout = self.layout_for(shape) if layout is None else layout
        self.seq.placeholder(name, shape, dtype)
        start = 0
        for rank, graph in enumerate(self.dist):
            box = [[0, e] for e in shape]
            if layout[0] == "S":
                box[layout[1]] = [start, start + layout[2][rank]]
                start += layout[2][rank]
            local = [hi - lo for lo, hi in box]
            graph.placeholder(name, local, dtype)
            row = {"seq": name, "seq_box": box, "rank": rank, "dist": name}
            self.relations.append(row | {"dist_box": [[0, e] for e in local]})
        tensor = Tensor(name, name, layout)
        if dtype == "float32":
            self.tensors.append(tensor)
        return tensor

    # ---- collectives ------------------------------------------------------------------------------
    def whole(self, tensor: Tensor) -> Tensor:
        """The tensor replicated, by a collective where it is not."""
        if tensor.layout == WHOLE or tensor.dist is None:
            return tensor
        if tensor.layout == PARTIAL:
            reduction = self.rng.choice(["max", "avg"]) if self.wrong() else "sum"
            return self._reduced(tensor.dist, reduction, tensor)
        _, dim, sizes = tensor.layout
        if len(set(sizes)) > 1:
            raise Invalid("uneven shards are not gathered")
        return self._gathered(tensor, dim)

    def _reduced(self, name: str, reduction: str, tensor: Tensor) -> Tensor:
        made = self.fresh("ar")
        for graph in self.dist:
            args = [ref(name), reduction, "g"]
            graph.collective(made, "all_reduce.default", args, graph.shape(name))
        return Tensor(tensor.seq, made, WHOLE)

    def _gathered(self, tensor: Tensor, dim: int) -> Tensor:
        assert tensor.dist is not None
        name = tensor.dist
        if dim and not self.wrong():
            name = self.on_ranks("tr", "aten.transpose.int", lambda _, n=name: [ref(n), 0, dim])
        made = self.fresh("ag")
        for graph in self.dist:
            shape = list(graph.shape(name))
            args = [ref(name), self.ranks, "g"]
            shape[0] *= self.ranks
            graph.collective(made, "all_gather_into_tensor.default", args, shape)
        if dim and name != tensor.dist:
            made = self.on_ranks("tr", "aten.transpose.int", lambda _, n=made: [ref(n), 0, dim])
        return Tensor(tensor.seq, made, WHOLE)

    def scattered(self, tensor: Tensor) -> Tensor:
        """A partial sum reduced and sharded along dimension 0."""
        shape = self.shape(tensor)
        if tensor.layout != PARTIAL or tensor.dist is None or not shape or shape[0] % self.ranks:
            return self.whole(tensor)
        made = self.fresh("rs")
        part = shape[0] // self.ranks
        for graph in self.dist:
            args = [ref(tensor.dist), "sum", self.ranks, "g"]
            local = [part, *graph.shape(tensor.dist)[1:]]
            graph.collective(made, "reduce_scatter_tensor.default", args, local)
        return Tensor(tensor.seq, made, ("S", 0, (part,) * self.ranks))

    def sharded(self, tensor: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
        """A replicated tensor cut by each rank."""
        starts = [sum(sizes[:r]) for r in range(self.ranks)]
        if self.wrong():
            starts = self.rng.choice(
                [starts[::-1], [max(0, s - 1) for s in starts], [0] * self.ranks]
            )
        made = self.on_ranks(
            "cut",
            "aten.slice.Tensor",
            lambda r: [ref(str(tensor.dist)), dim, starts[r], starts[r] + sizes[r]],
        )
        return Tensor(tensor.seq, made, ("S", dim, tuple(sizes)))

    def settled(self, tensor: Tensor) -> Tensor:
        """No partial sum any more (or by mistake still one)."""
        if tensor.layout != PARTIAL:
            return tensor
        if self.wrong():
            return Tensor(tensor.seq, tensor.dist, WHOLE)
        return self.scattered(tensor) if self.rng.random() < 0.4 else self.whole(tensor)

    def alike(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Two tensors of one shape in one layout."""
        if a.layout == b.layout and (a.layout != PARTIAL or self.rng.random() < 0.5):
            return a, b
        a, b = self.settled(a), self.settled(b)
        if a.layout == b.layout:
            return a, b
        if a.layout == WHOLE and b.layout[0] == "S":
            return self.sharded(a, *b.layout[1:]), b
        if b.layout == WHOLE and a.layout[0] == "S":
            return a, self.sharded(b, *a.layout[1:])
        return self.whole(a), self.whole(b)

    def free(self, tensor: Tensor, dims: Sequence[int]) -> Tensor:
        """Not sharded along ``dims`` (unless by mistake)."""
        tensor = self.settled(tensor)
        if tensor.layout[0] == "S" and tensor.layout[1] in dims and not self.wrong():
            return self.whole(tensor)
        return tensor

    # ---- steps ------------------------------------------------------------------------------------
    def both(
        self,
        target: str,
        seq: list[Any],
        dist: Callable[[int], list[Any]] | None,
        layout: Layout,
        **kwargs: Any,
    ) -> None:
        """One operator on both sides; ``dist`` gives a rank's arguments."""
        name = self.fresh("s")
        self.seq.call(name, target, seq, **kwargs)
        made = None if dist is None else self.on_ranks("d", target, dist, **kwargs)
        self.tensors.append(Tensor(name, made, layout))

    def step(self) -> None:
        """One random step; what does not fit is undone."""
        marks = [len(g.nodes) for g in (self.seq, *self.dist)]
        saved = len(self.tensors), len(self.relations), self.clean
        kind = self.rng.choice(STEPS)
        pool = [t for t in self.tensors if t.dist is not None and self.shape(t)]
        try:
            kind(self, self.rng.choice(pool[-4:]))
        except Invalid:
            for graph, mark in zip((self.seq, *self.dist), marks, strict=True):
                graph.drop_after(mark)
            del self.tensors[saved[0] :], self.relations[saved[1] :]
            self.clean = saved[2]

    def unary(self, x: Tensor) -> None:
        """An elementwise function."""
        name = self.rng.choice(UNARY)
        if not (x.layout == PARTIAL and name in LINEAR):
            x = self.settled(x)
        args = lambda _: [ref(str(x.dist))]  # noqa: E731
        self.both(f"aten.{name}.default", [ref(x.seq)], args, x.layout)

    def scaled(self, x: Tensor) -> None:
        """A product with a number."""
        by = self.rng.choice([2, 0.5, -1, 0.1, 3])
        again = by * 2 if self.wrong() else by
        args = lambda _: [ref(str(x.dist)), again]  # noqa: E731
        target = self.rng.choice(["aten.mul.Tensor", "aten.div.Tensor"])
        self.both(target, [ref(x.seq), by], args, x.layout)

    def binary(self, x: Tensor) -> None:
        """Arithmetic with a tensor of the same shape, or one broadcast along leading dimensions."""
        shape = self.shape(x)
        others = [t for t in self.tensors if t.dist and self.shape(t) == shape]
        target = self.rng.choice(["aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor"])
        if len(shape) > 1 and self.rng.random() < 0.4:
            self._broadcast(x, target)
            return
        y = self.rng.choice(others) if self.rng.random() < 0.6 else self.input(shape)
        if "mul" in target:
            x, y = self.settled(x), self.settled(y)
        x, y = self.alike(x, y)
        first, second = (y, x) if self.wrong() else (x, y)
        args = lambda _: [ref(str(first.dist)), ref(str(second.dist))]  # noqa: E731
        self.both(target, [ref(x.seq), ref(y.seq)], args, x.layout)

    def _broadcast(self, x: Tensor, target: str) -> None:
        x = self.settled(x)
        last = len(self.shape(x)) - 1
        on_last = x.layout[0] == "S" and x.layout[1] == last
        layout: Layout = ("S", 0, x.layout[2]) if on_last else WHOLE
        y = self.input(self.shape(x)[-1:], layout)
        args = lambda _: [ref(str(x.dist)), ref(str(y.dist))]  # noqa: E731
        self.both(target, [ref(x.seq), ref(y.seq)], args, x.layout)

    def matmul(self, x: Tensor) -> None:
        """A product with a new weight."""
        shape = self.shape(x)
        if len(shape) < 2:
            raise Invalid("too few dimensions")
        inner, outer = shape[-1], self.rng.choice([2, 3, 4, 6])
        x = self.settled(x)
        if x.layout[0] == "S" and x.layout[1] == len(shape) - 1:
            w = self.input((inner, outer), ("S", 0, x.layout[2]))
            layout = PARTIAL
        elif x.layout == WHOLE:
            w = self.input((inner, outer))
            layout = ("S", len(shape) - 1, w.layout[2]) if w.layout[0] == "S" else WHOLE
            if w.layout[0] == "S" and w.layout[1] == 0:
                x, layout = self.sharded(x, len(shape) - 1, w.layout[2]), PARTIAL
        else:
            w, layout = self.input((inner, outer), WHOLE), x.layout
        args = lambda _: [ref(str(x.dist)), ref(str(w.dist))]  # noqa: E731
        self.both("aten.matmul.default", [ref(x.seq), ref(w.seq)], args, layout)

    def softmax(self, x: Tensor) -> None:
        """Softmax over the last dimension."""
        last = len(self.shape(x)) - 1
        x = self.free(x, [last])
        args = lambda _: [ref(str(x.dist)), -1, False]  # noqa: E731
        self.both("aten._softmax.default", [ref(x.seq), -1, False], args, x.layout)

    def reduce(self, x: Tensor) -> None:
        """Sum, mean or maximum over a dimension."""
        name = self.rng.choice(["sum.dim_IntList", "mean.dim", "amax.default"])
        x = self.settled(x)
        dim, keep = self.rng.randrange(len(self.shape(x))), self.rng.random() < 0.3
        layout = x.layout
        if layout[0] == "S" and layout[1] == dim:
            if name == "sum.dim_IntList":
                layout = PARTIAL
            else:
                x = self.free(x, [dim])
                layout = WHOLE
        elif layout[0] == "S" and not keep:
            layout = ("S", layout[1] - (layout[1] > dim), layout[2])
        args = lambda _: [ref(str(x.dist)), [dim], keep]  # noqa: E731
        self.both(f"aten.{name}", [ref(x.seq), [dim], keep], args, layout)

    def transpose(self, x: Tensor) -> None:
        """Two dimensions swapped."""
        rank = len(self.shape(x))
        if rank < 2:
            raise Invalid("too few dimensions")
        a, b = self.rng.sample(range(rank), 2)
        layout = x.layout
        if layout[0] == "S":
            layout = ("S", {a: b, b: a}.get(layout[1], layout[1]), layout[2])
        args = lambda _: [ref(str(x.dist)), a, b]  # noqa: E731
        self.both("aten.transpose.int", [ref(x.seq), a, b], args, layout)

    def merge(self, x: Tensor) -> None:
        """Two neighbouring dimensions made one."""
        shape = self.shape(x)
        if len(shape) < 2:
            raise Invalid("too few dimensions")
        dim = self.rng.randrange(len(shape) - 1)
        x = self.free(x, [dim + 1])
        self._view(
            x, lambda s: [*s[:dim], s[dim] * s[dim + 1], *s[dim + 2 :]], dim, shape[dim + 1], -1
        )

    def divide(self, x: Tensor) -> None:
        """A dimension split in two."""
        shape = self.shape(x)
        dim = self.rng.randrange(len(shape))
        inner = self.rng.choice([2, 3])
        if shape[dim] % inner or len(shape) > 3:
            raise Invalid("not divisible")
        self._view(x, lambda s: [*s[:dim], s[dim] // inner, inner, *s[dim + 1 :]], dim, inner, 1)

    def _view(
        self, x: Tensor, change: Callable[[Sequence[int]], list[int]], dim: int, inner: int, by: int
    ) -> None:
        layout = x.layout
        if layout[0] == "S" and layout[1] == dim:
            if by > 0 and any(size % inner for size in layout[2]):
                raise Invalid("a border inside")
            scale = (lambda n: n // inner) if by > 0 else (lambda n: n * inner)
            layout = ("S", dim, tuple(map(scale, layout[2])))
        elif layout[0] == "S" and layout[1] > dim:
            layout = ("S", layout[1] + by, layout[2])
        locals_ = [change(g.shape(str(x.dist))) for g in self.dist]
        if any(
            prod(n) != prod(g.shape(str(x.dist))) for n, g in zip(locals_, self.dist, strict=True)
        ):
            raise Invalid("a view that does not fit")
        args = lambda r: [ref(str(x.dist)), locals_[r]]  # noqa: E731
        self.both("aten.view.default", [ref(x.seq), change(self.shape(x))], args, layout)

    def cut(self, x: Tensor) -> None:
        """A slice."""
        shape = self.shape(x)
        dim = self.rng.randrange(len(shape))
        x = self.free(x, [dim]) if x.layout != PARTIAL else x
        lo = self.rng.randrange(shape[dim])
        hi = self.rng.randint(lo + 1, shape[dim])
        off = -1 if lo and self.wrong() else 0
        args = lambda _: [ref(str(x.dist)), dim, lo + off, hi + off]  # noqa: E731
        self.both("aten.slice.Tensor", [ref(x.seq), dim, lo, hi], args, x.layout)

    def cat(self, x: Tensor) -> None:
        """A concatenation of two tensors."""
        shape = self.shape(x)
        others = [t for t in self.tensors if t.dist and self.shape(t) == shape]
        y = self.rng.choice(others)
        dim = self.rng.randrange(len(shape))
        x, y = self.alike(self.settled(x), self.settled(y))
        if x.layout[0] == "S" and x.layout[1] == dim:
            x, y = self.free(x, [dim]), self.free(y, [dim])
        swap = self.wrong()
        args = lambda _: [[ref(str(t.dist)) for t in ((y, x) if swap else (x, y))], dim]  # noqa: E731
        self.both("aten.cat.default", [[ref(x.seq), ref(y.seq)], dim], args, x.layout)

    def lookup(self, _: Tensor) -> None:
        """A lookup in a new table, replicated, sharded by columns, or by rows with a mask."""
        rows, width = self.rng.choice([4, 6, 8]), self.rng.choice([2, 4])
        ids = self.input((self.rng.choice([2, 3, 5]),), WHOLE, "int64")
        table = self.input((rows, width))
        name = self.fresh("s")
        self.seq.call(name, "aten.embedding.default", [ref(table.seq), ref(ids.seq)])
        if table.layout[0] == "S" and table.layout[1] == 0:
            self.tensors.append(Tensor(name, self._masked(table, ids), PARTIAL))
            return
        made = self.on_ranks(
            "d", "aten.embedding.default", lambda _: [ref(str(table.dist)), ref(str(ids.dist))]
        )
        layout = ("S", 1, table.layout[2]) if table.layout[0] == "S" else WHOLE
        self.tensors.append(Tensor(name, made, layout))

    def _masked(self, table: Tensor, ids: Tensor) -> str:
        sizes = table.layout[2]
        lows = [sum(sizes[:r]) for r in range(self.ranks)]
        highs = [lo + n for lo, n in zip(lows, sizes, strict=True)]
        if self.wrong():
            place = self.rng.randrange(self.ranks)
            bounds = self.rng.choice([lows, highs])
            bounds[place] += self.rng.choice([-1, 1])
        offsets = list(lows)
        if self.wrong():
            offsets[self.rng.randrange(self.ranks)] += self.rng.choice([-1, 1])
        at = ref(str(ids.dist))
        low = self.on_ranks("lt", "aten.lt.Scalar", lambda r: [at, lows[r]])
        high = self.on_ranks("ge", "aten.ge.Scalar", lambda r: [at, highs[r]])
        mask = self.on_ranks("or", "aten.bitwise_or.Tensor", lambda _: [ref(low), ref(high)])
        local = self.on_ranks("sub", "aten.sub.Tensor", lambda r: [at, offsets[r]])
        local = self.on_ranks(
            "fill", "aten.masked_fill.Scalar", lambda _: [ref(local), ref(mask), 0]
        )
        rows = self.on_ranks(
            "rows", "aten.embedding.default", lambda _: [ref(str(table.dist)), ref(local)]
        )
        column = self.on_ranks("col", "aten.unsqueeze.default", lambda _: [ref(mask), -1])
        fill = 1 if self.wrong() else 0
        return self.on_ranks(
            "put", "aten.masked_fill.Scalar", lambda _: [ref(rows), ref(column), fill]
        )

    # ---- the whole --------------------------------------------------------------------------------
    def build(self, steps: int) -> Program:
        """The pair of programs."""
        self.input(self.rng.choice([(4, 6), (2, 4), (2, 3, 4), (6, 4), (4, 2, 6)]))
        for _ in range(4 * steps):
            if sum(t.seq.startswith("s") for t in self.tensors) >= steps:
                break
            self.step()
        made = [t for t in self.tensors if t.dist and t.seq.startswith("s")] or self.tensors
        kept = [made[-1]] + [t for t in made[:-1] if self.rng.random() < 0.3]
        kept = [self._final(t) for t in kept]
        outputs = [{"seq": t.seq, "dist": t.dist} for t in kept if t.dist]
        names = {str(r): "g" for r in range(self.ranks)}
        groups = {"seq": [], "dist": [{"ranks": self.order, "names": names}]}
        seq = self.seq.document([o["seq"] for o in outputs])
        dist = {r: g.document([o["dist"] for o in outputs]) for r, g in enumerate(self.dist)}
        return Program(seq, dist, groups, self.relations, outputs)

    def _final(self, tensor: Tensor) -> Tensor:
        return self.settled(tensor)


STEPS: list[Callable[[Fuzzer, Tensor], None]] = [
    Fuzzer.unary, Fuzzer.scaled, Fuzzer.binary, Fuzzer.binary, Fuzzer.matmul, Fuzzer.matmul,
    Fuzzer.softmax, Fuzzer.reduce, Fuzzer.transpose, Fuzzer.merge, Fuzzer.divide, Fuzzer.cut,
    Fuzzer.cat, Fuzzer.lookup,
]  # fmt: skip


def generate(seed: int) -> tuple[Program, bool]:
    """A pair of programs, and whether the distributed one was written without a mistake."""
    rng = random.Random(seed)
    fuzzer = Fuzzer(rng, rng.choice([2, 2, 3, 4]), rng.choice([0, 0.1, 0.25]))
    program = fuzzer.build(rng.randint(3, 8))
    return program, fuzzer.clean


# ---- many cases in one run of the engine ---------------------------------------------------------------
IDS = {"by", "signed", "shaped", "of", "gives", "dist", "seq", "table", "ids", "mask", "a", "b"}
STEP = 10_000


def merged(cases: Mapping[int, Mapping[str, Any]]) -> dict[str, pa.Table]:
    """The facts of independent cases as one set, ids prefixed by the number of the case."""
    out = {}
    for relation in RULE_RELATIONS:
        tables = [_prefixed(relation.name, n, t[relation.name]) for n, t in cases.items()]
        out[relation.name] = pa.concat_tables(tables)
    one = out["scale_of"]
    keep = [i for i, name in enumerate(one["id"].to_pylist()) if name != "1"]
    first = [one["id"].to_pylist().index("1")]
    out["scale_of"] = one.take([*first, *keep])
    return out


def _prefixed(relation: str, number: int, table: pa.Table) -> pa.Table:
    for place, name in enumerate(table.column_names):
        column = table.column(name).to_pylist()
        if name in IDS:
            column = [f"{number}/{v}" for v in column]
        elif name in ("times", "id") and table.schema.field(name).type == pa.string():
            column = [v if v == "1" else f"{number}/{v}" for v in column]
        elif name in ("row", "wants"):
            column = [number * STEP + v for v in column]
        else:
            continue
        field_ = table.schema.field(place)
        table = table.set_column(place, field_, pa.array(column, field_.type))
    return table


def separated(rows: Sequence[Mapping[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """``holds`` rows of a merged run by case, with the ids they had."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        number = int(row["dist"].split("/")[0])
        prefix = f"{number}/"
        parts = row["parts"].replace(f"[{prefix}", "[")
        plain = {
            "dist": row["dist"][len(prefix) :],
            "seq": row["seq"][len(prefix) :],
            "parts": parts,
        }
        found.setdefault(number, []).append({**row, **plain})
    return found
