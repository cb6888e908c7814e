"""Small cases in the JSON format, and what a command gave."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Node = dict[str, Any]


def placeholder(name: str, shape: Sequence[int]) -> Node:
    """An input."""
    return {"name": name, "op": "placeholder", "target": name, "shape": shape, "dtype": "float32"}


def call(name: str, target: str, args: Sequence[Any], shape: Sequence[int]) -> Node:
    """An operator; strings starting with ``%`` refer to nodes."""
    told = [{"node": a[1:]} if isinstance(a, str) and a.startswith("%") else a for a in args]
    return {
        "name": name,
        "op": "call_function",
        "target": target,
        "args": told,
        "shape": shape,
        "dtype": "float32",
        "source": f"model.py:{len(name)} in forward",
        "module": "block",
    }


def returns(*names: str) -> Node:
    """The end of a graph."""
    return {"name": "output", "op": "output", "args": [[{"node": n} for n in names]]}


def graph(*nodes: Node) -> dict[str, Any]:
    """A graph of these nodes."""
    return {"nodes": list(nodes)}


ALL_REDUCE = "_c10d_functional.all_reduce.default"


def rank_nodes(reduced: bool = True, factor: float = 1.0) -> list[Node]:
    """A matrix product, its rows over two ranks: x[:, r] @ w[r, :], added up."""
    nodes = [
        placeholder("x", [4, 3]),
        placeholder("w", [3, 5]),
        call("mm", "aten.mm.default", ["%x", "%w"], [4, 5]),
    ]
    last = "mm"
    if reduced:
        nodes.append(call("total", ALL_REDUCE, ["%mm", "sum", "0"], [4, 5]))
        last = "total"
    if factor != 1.0:
        nodes.append(call("scaled", "aten.mul.Tensor", [f"%{last}", factor], [4, 5]))
        last = "scaled"
    return [*nodes, call("y", "aten.relu.default", [f"%{last}"], [4, 5]), returns("y")]


def sequential() -> dict[str, Any]:
    """relu(x @ w)."""
    return graph(
        placeholder("x", [4, 6]),
        placeholder("w", [6, 5]),
        call("mm", "aten.mm.default", ["%x", "%w"], [4, 5]),
        call("y", "aten.relu.default", ["%mm"], [4, 5]),
        returns("y"),
    )


def documents(reduced: bool = True, factor: float = 1.0) -> dict[str, Any]:
    """All files of the case, by name."""
    relations = []
    for rank in (0, 1):
        lo, hi = 3 * rank, 3 * rank + 3
        relations += [
            {"seq": "x", "rank": rank, "dist": "x", "seq_box": [[0, 4], [lo, hi]]},
            {"seq": "w", "rank": rank, "dist": "w", "seq_box": [[lo, hi], [0, 5]]},
        ]
    return {
        "seq": sequential(),
        "dist.r0": graph(*rank_nodes(reduced, factor)),
        "dist.r1": graph(*rank_nodes(reduced, factor)),
        "groups": {"seq": [], "dist": [{"ranks": [0, 1], "names": {"0": "0", "1": "0"}}]},
        "relations": relations,
        "outputs": [{"seq": "y", "dist": "y"}],
    }


def write_case(folder: Path, files: Mapping[str, Any]) -> Path:
    """Writes a case folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder
