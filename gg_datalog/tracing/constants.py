"""Values of buffers and attributes that are written into the graphs."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any

from gg_datalog.tracing.pairing import told
from gg_datalog.tracing.record import Json, RankRecord

FEW = 4096  # elements that are written out


def known_values(record: RankRecord, pieces: Container[str] = ()) -> dict[str, Any]:
    """By node, what inputs hold: a number for one that is a constant of the program, a (nested)
    list for one that is an input still, as ``pieces`` of larger ones are (a rank with one head)."""
    found: dict[str, Any] = {}
    for one in record.inputs:
        value = told(one)
        if value is None or not 0 < value.numel() <= FEW or value.is_complex():
            continue
        if value.numel() == 1 and not one.saved and one.node not in pieces:
            number = value.item()
            if math.isfinite(number):
                found[one.node] = number
        elif bool(value.isfinite().all()):
            found[one.node] = value.tolist()
    return found


def with_values(graph: Json, values: Mapping[str, Any]) -> Json:
    """The graph in which these inputs hold these values."""
    return {**graph, "nodes": [_with_value(row, values) for row in graph["nodes"]]}


def _with_value(row: Json, values: Mapping[str, Any]) -> Json:
    value = values.get(row["name"])
    if value is None or row["op"] != "placeholder":
        return row
    if isinstance(value, list):
        return {**row, "value": value}
    told = {k: v for k, v in row.items() if k not in ("kind", "buffer", "attribute")}
    return {**told, "op": "get_attr", "value": value}
