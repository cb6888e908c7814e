"""Graphs and cases in the JSON form, written node by node.

A case is a sequential graph, the graph of each rank, the communicators, and where the inputs of
the ranks come from. Files are written with one node per line.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kernels  # noqa: F401  (registers its shape rules)
from shapes import RULES, Meta, Shape, Tensor

Json = dict[str, Any]
Range = tuple[int, int]
HERE = Path(__file__).resolve().parent
WRITERS = ("graphs.py", "hlo.py")
"""Files whose lines are not the source of a node."""
BUILTINS = ("max", "slice", "sum")
"""Names that a node does not get without a number, as in torch.fx."""


@dataclass(frozen=True)
class Results:
    """A node with several results, to be picked with `Graph.getitem`."""

    name: str
    metas: list[Meta | None]


@dataclass(frozen=True)
class Sharding:
    """The ranges of one dimension that each rank holds, in the order it holds them."""

    dim: int
    ranges: list[list[Range]]

    def local(self, shape: Shape, rank: int) -> Shape:
        """The shape of one rank's tensor."""
        held = sum(hi - lo for lo, hi in self.ranges[rank])
        return (*shape[: self.dim], held, *shape[self.dim + 1 :])


def divide(total: int, ranks: int, what: str) -> int:
    """Divide without remainder, or say which size does not fit."""
    if total % ranks:
        raise ValueError(f"{what} of {total} does not divide by {ranks}")
    return total // ranks


def fused(dim: int, sizes: Iterable[int], ranks: int) -> Sharding:
    """Shard every piece of a fused dimension evenly."""
    ranges: list[list[Range]] = [[] for _ in range(ranks)]
    start = 0
    for size in sizes:
        part = divide(size, ranks, "a sharded dimension")
        for rank, held in enumerate(ranges):
            held.append((start + rank * part, start + (rank + 1) * part))
        start += size
    return Sharding(dim, ranges)


def even(dim: int, size: int, ranks: int) -> Sharding:
    """Shard a dimension evenly."""
    return fused(dim, [size], ranks)


@dataclass(frozen=True)
class Input:
    """A placeholder by its sequential shape; without a sharding every rank holds all of it."""

    name: str
    shape: Shape
    dtype: str
    sharding: Sharding | None = None

    def relations(self, ranks: int) -> Iterator[Json]:
        """One row per rank and range."""
        for rank in range(ranks):
            if self.sharding is None:
                yield {"seq": self.name, "rank": rank, "dist": self.name}
                continue
            start = 0
            for lo, hi in self.sharding.ranges[rank]:
                seq_box = [[0, size] for size in self.shape]
                seq_box[self.sharding.dim] = [lo, hi]
                box = [[0, size] for size in self.shape]
                box[self.sharding.dim] = [start, start + hi - lo]
                start += hi - lo
                row: Json = {"seq": self.name, "seq_box": seq_box}
                yield row | {"rank": rank, "dist": self.name, "dist_box": box}


@dataclass
class Graph:
    """A graph under construction; `rank` is None for the sequential one.

    Names are those of torch.fx (`view`, `view_1`), or of HLO (`reshape.21`) with `dotted`.
    """

    rank: int | None
    dotted: bool = False
    nodes: list[Json] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    module: str | None = None

    @contextmanager
    def within(self, module: str) -> Iterator[None]:
        """Nodes written inside belong to this module."""
        outer, self.module = self.module, module
        yield
        self.module = outer

    def _name(self, base: str) -> str:
        if self.dotted:
            return f"{base}.{len(self.nodes) + 1}"
        count = self.counts.get(base, 1 if base in BUILTINS else 0)
        self.counts[base] = count + 1
        return f"{base}_{count}" if count else base

    def _row(self, name: str, op: str, target: str, args: list[Any], kwargs: Json) -> Json:
        row: Json = {"name": name, "op": op, "target": target}
        row["args"] = [_literal(arg) for arg in args]
        row["kwargs"] = {key: _literal(value) for key, value in kwargs.items()}
        self.nodes.append(row)
        return row

    def _locate(self, row: Json) -> None:
        """Add the line of the generator and the module that a node comes from."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename.endswith(WRITERS) and frame.f_back:
            frame = frame.f_back
        file, line = frame.f_code.co_filename, frame.f_lineno
        code = linecache.getline(file, line).strip()
        place = f"{HERE.name}/{os.path.basename(file)}"
        row["source"] = f"{place}:{line} in {frame.f_code.co_name}: {code}"
        if self.module:
            row["module"] = self.module

    def placeholder(self, source: Input) -> Tensor:
        """An input of this rank (or of the sequential graph)."""
        shape = source.shape
        if self.rank is not None and source.sharding:
            shape = source.sharding.local(shape, self.rank)
        row = self._row(source.name, "placeholder", source.name, [], {})
        row |= {"shape": list(shape), "dtype": source.dtype}
        return Tensor(source.name, shape, source.dtype)

    def constant(self, value: int, dtype: str) -> Tensor:
        """A constant of no dimensions, lifted to a tensor."""
        count = self.counts.get("_tensor_constant", 0)
        self.counts["_tensor_constant"] = count + 1
        name = f"_tensor_constant{count}"
        row = self._row(name, "get_attr", name, [], {})
        row |= {"value": value, "shape": []}
        self._locate(row)
        return self.aten("lift_fresh_copy", Tensor(name, (), dtype))

    def emit(
        self, target: str, args: list[Any], kwargs: Json, base: str, dtype: str | None = None
    ) -> Tensor | Results:
        """Write a call; `dtype` overrides that of the shape rule, for casts without an argument."""
        meta = RULES[target](*args, **kwargs)
        name = self._name(base)
        row = self._row(name, "call_function", target, args, kwargs)
        if isinstance(meta, list):
            self._locate(row)
            return Results(name, meta)
        return self._tensor(row, meta[0], dtype or meta[1])

    def _tensor(self, row: Json, shape: Shape, dtype: str) -> Tensor:
        row |= {"shape": list(shape), "dtype": dtype}
        self._locate(row)
        return Tensor(row["name"], shape, dtype)

    def call(self, target: str, *args: Any, **kwargs: Any) -> Tensor:
        """Write a call with one result, named after the operator."""
        result = self.emit(target, list(args), kwargs, target.split(".")[1])
        assert isinstance(result, Tensor)
        return result

    def aten(self, operator: str, *args: Any, **kwargs: Any) -> Tensor:
        """Write an ATen call with one result; without an overload it is the default one."""
        return self.call(_overload(operator), *args, **kwargs)

    def multi(self, target: str, *args: Any, **kwargs: Any) -> Results:
        """Write a call with several results."""
        base = target.split(".")[1] if "." in target else target
        result = self.emit(target, list(args), kwargs, base)
        assert isinstance(result, Results)
        return result

    def kernel(self, target: str, **operands: Any) -> Results:
        """Write a call of a kernel that returns what it writes over its operands."""
        return self.multi("auto_functionalized", target, **operands)

    def getitem(self, results: Results, index: int) -> Tensor:
        """Pick one result of a call."""
        meta = results.metas[index]
        assert meta is not None
        args: list[Any] = [Tensor(results.name, (), ""), index]
        name = self._name("getitem")
        row = self._row(name, "call_function", "<built-in function getitem>", args, {})
        return self._tensor(row, *meta)

    def output(self, tensors: list[Tensor]) -> None:
        """Return tensors."""
        self._row("output", "output", "output", [tensors], {})


def _overload(operator: str) -> str:
    return f"aten.{operator}" if "." in operator else f"aten.{operator}.default"


def _literal(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {"node": value.name}
    if isinstance(value, (list, tuple)):
        return [_literal(item) for item in value]
    return value


@dataclass
class Case:
    """A pair of programs; `outputs` are names of (sequential, distributed) tensors."""

    seq: Graph
    dist: list[Graph]
    inputs: list[Input]
    outputs: list[tuple[str, str]]
    group: str
    seq_group: str | None = None
    equal: list[str] = field(default_factory=list)
    """Nodes without a known value that are the same tensor in all graphs."""

    def write(self, folder: Path) -> None:
        """Write the files of the case."""
        ranks = len(self.dist)
        members = list(range(ranks))
        seq_groups = []
        if self.seq_group:
            seq_groups.append({"ranks": [0], "names": {"0": self.seq_group}})
        dist_group = {"ranks": members, "names": {str(rank): self.group for rank in members}}
        rows = [row for source in self.inputs for row in source.relations(ranks)]
        for name in self.equal:
            rows += [{"seq": name, "rank": rank, "dist": name} for rank in members]
        outputs = [{"seq": seq, "dist": dist} for seq, dist in self.outputs]

        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob("dist.r*.json"):
            stale.unlink()
        _write_graph(folder / "seq.json", 0, self.seq)
        for rank, graph in enumerate(self.dist):
            _write_graph(folder / f"dist.r{rank}.json", rank, graph)
        groups = {"seq": seq_groups, "dist": [dist_group]}
        (folder / "groups.json").write_text(json.dumps(groups, indent=1) + "\n")
        (folder / "relations.json").write_text(_one_per_line(rows) + "\n")
        (folder / "outputs.json").write_text(_one_per_line(outputs) + "\n")


def _one_per_line(rows: list[Json]) -> str:
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]"


def _write_graph(path: Path, rank: int, graph: Graph) -> None:
    head = f'{{"format": "fx-graph", "version": 1, "rank": {rank}, "nodes": '
    path.write_text(head + _one_per_line(graph.nodes) + "}\n")
