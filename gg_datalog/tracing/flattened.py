"""Inputs that a rank holds flattened: told as the rows that they are.

ZeRO and its kin keep a share of a weight as a tensor of one dimension: f32[16] of f32[8, 4]. Where
that is whole rows (or a range of one row), the graph says f32[4, 4] and flattens it first. So
placements, guesses and pieces mean the same as for a share that was not flattened. Its new value
comes back as the same rows, if it is flat, too; an input whose new value is not is left as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from gg_datalog.tracing.record import InputRecord, RankRecord, unused
from gg_datalog.tracing.results import nodes_read

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
    graph, used = record.graph, set(nodes_read(record.graph, values=True))
    unfit = _unfit(record, used)
    shapes = {node: rows for node, rows in shapes.items() if node not in unfit}
    if not shapes:
        return record
    inputs = [
        replace(one, local=tuple(rows), shape=tuple(rows), flattened=True)
        if (rows := shapes.get(one.node))
        else one
        for one in record.inputs
    ]
    updates = {one.update: shapes[one.node] for one in inputs if one.node in shapes}
    graph = _flattening(graph, shapes, used)
    graph, outputs = _as_rows(graph, record.outputs, updates, shapes)
    return replace(record, inputs=inputs, outputs=outputs, graph=graph)


def _unfit(record: RankRecord, used: Collection[str]) -> set[str]:
    """The inputs whose form alone is looked at, and those whose new value has another form: that
    these are not the same rows is for GG155 to tell."""
    forms = {row["name"]: row.get("shape") for row in record.graph["nodes"]}
    made, formal = dict(record.outputs), set(nodes_read(record.graph)) - set(used)
    return {
        one.node
        for one in record.inputs
        if one.node in formal or (one.update in made and forms[made[one.update]] != list(one.local))
    }


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


def _flattening(graph: Json, shapes: Mapping[str, Sequence[int]], used: Collection[str]) -> Json:
    """The graph with inputs of these shapes, flattened before anything is done with them. What is
    returned as it came in is returned as rows."""
    names = {row["name"] for row in graph["nodes"]}
    views: dict[str, str] = {}
    for node in shapes:
        if node in used:
            views[node] = unused(f"{node}_flat", names)
            names.add(views[node])
    inputs, rest = list[Json](), list[Json]()
    for row in graph["nodes"]:
        if row["name"] in shapes:
            inputs.append({**row, "shape": list(shapes[row["name"]])})
            if row["name"] in views:
                rest.append(_view(views[row["name"]], row, row["shape"]))
        elif row["op"] == "placeholder":
            inputs.append(row)
        elif row["op"] == "output":
            rest.append(row)
        else:
            rest.append({**row, **{k: _renamed(row[k], views) for k in ("args", "kwargs")}})
    return {**graph, "nodes": [*inputs, *rest]}


def _as_rows(
    graph: Json,
    outputs: Sequence[tuple[str, str]],
    updates: Mapping[str, Sequence[int]],
    shapes: Collection[str],
) -> tuple[Json, list[tuple[str, str]]]:
    """The graph that returns new values of flattened inputs as rows, and its outputs."""
    *nodes, output = graph["nodes"]
    made = {row["name"]: row for row in nodes}
    found, values = list[tuple[str, str]](), list(output["args"][0])
    for name, node in outputs:
        if name in updates and node not in shapes:
            place = {key: made[node][key] for key in ("source", "module") if key in made[node]}
            view = _view(unused(f"{node}_rows", made), made[node], updates[name]) | place
            made[view["name"]] = view
            nodes.append(view)
            node = view["name"]
            values.append({"node": node})
        found.append((name, node))
    return {**graph, "nodes": [*nodes, {**output, "args": [values]}]}, found


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
