"""Value numbering of a program as it was captured: are two programs the same up to renaming?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..numeric.interpreter import collective, name_of
from ..numeric.program import Program, nodes_by_name, references

VIEWS = ("aten.view", "aten._unsafe_view", "aten.reshape")
SAME = ("_c10d_functional.wait_tensor", "aten.detach", "aten.lift_fresh_copy", "tg.log_tensor")
EITHER = ("aten.add.Tensor", "aten.mul.Tensor")


def same_value(before: Program, after: Program) -> bool:
    """Are all outputs of both computed alike? Says no where that takes more than renaming."""
    numbers: dict[str, int] = {}
    alike = before.groups == after.groups and set(before.dist) == set(after.dist)
    return alike and _results(before, numbers) == _results(after, numbers)


def _results(program: Program, numbers: dict[str, int]) -> list[int]:
    """The values of all outputs, and of all collectives, which other ranks may use."""
    inputs: dict[tuple[int, str], list[str]] = {}
    for row in program.relations:
        text = json.dumps([row["seq"], row.get("seq_box"), row.get("dist_box")])
        inputs.setdefault((row["rank"], row["dist"]), []).append(text)
    found = []
    for rank, graph in program.dist.items():
        values = _values(rank, graph, inputs, numbers)
        named = [row["dist"] for row in program.outputs]
        found += [values[n if isinstance(n, str) else n[str(rank)]] for n in named]
        found += [values[n["name"]] for n in graph["nodes"] if collective(n)]
    return found


def _values(
    rank: int,
    graph: dict[str, Any],
    inputs: dict[tuple[int, str], list[str]],
    numbers: dict[str, int],
) -> dict[str, int]:
    """The number of every node's value."""
    values: dict[str, int] = {}
    roots: dict[int, tuple[int, Any]] = {}  # of a view: the number and the shape of what it views
    nodes = nodes_by_name(graph)
    clamped = set(_clamps(graph))
    random = 0
    for node in graph["nodes"]:
        form: list[Any] = [node.get("op"), node["target"], node.get("dtype"), node.get("shape")]
        told = _told([node.get("args", []), node.get("kwargs", {})], values)
        told[0] = told[0][_covers(node) :]
        if node["op"] == "placeholder" or (rank, node["name"]) in inputs:
            form = ["input", sorted(inputs.get((rank, node["name"]), [f"{rank} {node['name']}"]))]
        elif node["op"] == "get_attr":
            form = ["constant", node.get("value", node["name"]), node.get("dtype")]
        elif node["op"] == "output":
            continue
        elif name_of(node) in SAME or _copies(node, nodes):
            values[node["name"]] = values[node["args"][0]["node"]]
            continue
        elif kept := _besides_never(node, nodes):
            values[node["name"]] = values[kept]
            continue
        elif _never(node, nodes):
            form = ["never", node["dtype"], node["shape"]]
        elif node["name"] in clamped:
            form.append(told[0][:2])
        elif name_of(node) in VIEWS:
            of = values[node["args"][0]["node"]]
            root, shape = roots.get(of, (of, nodes[node["args"][0]["node"]]["shape"]))
            if shape == node["shape"]:
                values[node["name"]] = root
                continue
            form = ["view", root, node["shape"]]
        else:
            if "empty" in node["target"]:
                told = []
            if "dropout" in node["target"] or collective(node) or "empty" in node["target"]:
                form.append(f"{rank} {random}")
                random += 1
            if node["target"] in EITHER and not told[1]:
                told[0].sort(key=json.dumps)
            form.append(told)
        number = values[node["name"]] = numbers.setdefault(json.dumps(form), len(numbers))
        if form[0] == "view":
            roots[number] = root, shape
    return values


def _copies(node: dict[str, Any], nodes: dict[str, dict[str, Any]]) -> bool:
    """A clone that is no cast."""
    if name_of(node) not in ("aten.clone", "aten._to_copy"):
        return False
    return nodes[node["args"][0]["node"]].get("dtype") == node["dtype"]


def _covers(node: dict[str, Any]) -> int:
    """1 where the first operand is written over entirely."""
    if node["op"] != "call_function":
        return 0
    whole = name_of(node) == "aten.slice_scatter" and node["args"][3:] == [0, 2**63 - 1]
    return int(whole or name_of(node) == "aten.copy")


def _never(node: dict[str, Any], nodes: dict[str, dict[str, Any]]) -> bool:
    """Is it `x >= a and x < b` with b <= a, or a multiple of that?"""
    if name_of(node) == "aten.mul" and node["op"] == "call_function":
        return any(_never(nodes[n], nodes) for n in references(node["args"]))
    if name_of(node) != "aten.bitwise_and":
        return False
    low, high = (nodes[n] for n in references(node["args"]))
    bounded = name_of(low) == "aten.ge" and name_of(high) == "aten.lt"
    return bounded and low["args"][0] == high["args"][0] and low["args"][1] >= high["args"][1]


def _besides_never(node: dict[str, Any], nodes: dict[str, dict[str, Any]]) -> str | None:
    """The other operand of `or` where one is never true."""
    if name_of(node) != "aten.bitwise_or":
        return None
    used = references(node["args"])
    kept = [n for n in used if not _never(nodes[n], nodes)]
    return kept[0] if len(kept) < len(used) and kept else None


def _clamps(graph: dict[str, Any]) -> Iterator[str]:
    """Ids that are set to 0 or 1 under a mask, where all rows they look up are masked again."""
    nodes = nodes_by_name(graph)
    users: dict[str, list[dict[str, Any]]] = {}
    for node in graph["nodes"]:
        if node["op"] == "call_function":
            for name in references([node["args"][_covers(node) :], node["kwargs"]]):
                users.setdefault(name, []).append(node)

    def ends(name: str) -> Iterator[dict[str, Any]]:
        """Users behind views."""
        for user in users.get(name, []):
            moved = name_of(user) in (*VIEWS, *SAME, "aten.clone", "aten.slice")
            yield from ends(user["name"]) if moved else [user]

    for node in graph["nodes"]:
        if name_of(node) != "aten.index_put" or "int" not in node["dtype"]:
            continue
        constant = references(node["args"][2])[0]
        while nodes[constant]["op"] == "call_function":
            constant = references(nodes[constant]["args"])[0]
        looked_up = list(ends(node["name"]))
        if nodes[constant].get("value") in (0, 1) and all(
            name_of(u) == "aten.index"
            and all(
                name_of(v) == "aten.index_put" and v["args"][1] == node["args"][1]
                for v in ends(u["name"])
            )
            for u in looked_up
        ):
            yield node["name"]


def _told(value: Any, values: dict[str, int]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"node"}:
            return {"value": values[value["node"]]}
        return {k: _told(v, values) for k, v in value.items()}
    return [_told(v, values) for v in value] if isinstance(value, list) else value
