"""Inputs that a rank holds flattened: told as the rows that they are.

ZeRO and its kin keep a share of a weight as a tensor of one dimension: f32[16] of f32[8, 4]. Where
that is whole rows (or a range of one row), the graph says f32[4, 4] and flattens it first. So
placements, guesses and pieces mean the same as for a share that was not flattened. Its new value
comes back as the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from gg_datalog.tracing.record import InputRecord, RankRecord, unused

Json = dict[str, Any]
Size = int | str


def told_as_rows(record: RankRecord, counterparts: Mapping[str, InputRecord]) -> RankRecord:
    """The record of a rank, its flattened inputs as rows of what they are a part of.

    Args:
        counterparts: the sequential input that belongs to a node of the rank.
    """
    shapes: dict[str, list[int]] = {}
    for one in record.inputs:
        ours = counterparts.get(one.node)
        if ours is not None and one.pieces is None and one.value is None:
            rows = rows_of(one.local, ours.shape)
            shapes |= {} if rows is None else {one.node: rows}
    if not shapes:
        return record
    inputs = [
        replace(one, local=tuple(rows), shape=tuple(rows), flattened=True)
        if (rows := shapes.get(one.node))
        else one
        for one in record.inputs
    ]
    graph = _flattening(record.graph, shapes)
    updates = {one.update: shapes[one.node] for one in inputs if one.node in shapes}
    returned = [(name, node, updates.get(name)) for name, node in record.outputs]
    outputs = []
    for name, node, rows in returned:
        graph, kept = (graph, node) if rows is None else _as_rows(graph, node, rows)
        outputs.append((name, kept))
    return replace(record, inputs=inputs, outputs=outputs, graph=graph)


def rows_of(local: Sequence[Size], shape: Sequence[Size]) -> list[int] | None:
    """The shape of so many elements that lie one after the other in a tensor of ``shape``: whole
    rows of one of its dimensions; None where they are no such, or nothing is flattened."""
    if len(local) != 1 or len(shape) < 2 or not all(isinstance(e, int) for e in (*local, *shape)):
        return None
    (count,), sizes = [int(e) for e in local], [int(e) for e in shape]
    for dim, extent in enumerate(sizes):
        inner = prod(sizes[dim + 1 :])
        if inner and count % inner == 0 and 0 < count // inner <= extent:
            whole = count // inner
            return [*[1] * dim, whole, *sizes[dim + 1 :]]
    return None


def _flattening(graph: Json, shapes: Mapping[str, Sequence[int]]) -> Json:
    """The graph with inputs of these shapes, which are flattened before anything is done."""
    names = {row["name"] for row in graph["nodes"]}
    views: dict[str, str] = {}
    for node in shapes:
        views[node] = unused(f"{node}_flat", names)
        names.add(views[node])
    inputs, rest = [], []
    for row in graph["nodes"]:
        if row["name"] in shapes:
            count = row["shape"]
            inputs.append({**row, "shape": list(shapes[row["name"]])})
            rest.append(_view(views[row["name"]], row, count))
        elif row["op"] == "placeholder":
            inputs.append(row)
        else:
            rest.append({**row, **{k: _renamed(row[k], views) for k in ("args", "kwargs")}})
    return {**graph, "nodes": [*inputs, *rest]}


def _as_rows(graph: Json, node: str, rows: Sequence[int]) -> tuple[Json, str]:
    """The graph that returns a node as rows, too, and what these are called."""
    *nodes, output = graph["nodes"]
    name = unused(f"{node}_rows", {row["name"] for row in nodes})
    of = next(row for row in nodes if row["name"] == node)
    place = {key: of[key] for key in ("source", "module") if key in of}
    values = [*output["args"][0], {"node": name}]
    nodes = [*nodes, {**_view(name, of, rows), **place}, {**output, "args": [values]}]
    return {**graph, "nodes": nodes}, name


def _view(name: str, of: Json, shape: Sequence[int]) -> Json:
    args = [{"node": of["name"]}, list(shape)]
    call = {"op": "call_function", "target": "aten.view.default", "args": args, "kwargs": {}}
    return {"name": name, **call, "shape": list(shape), "dtype": of["dtype"]}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"node"}:
            return {"node": names.get(value["node"], value["node"])}
        return {key: _renamed(inner, names) for key, inner in value.items()}
    return [_renamed(inner, names) for inner in value] if isinstance(value, list) else value
