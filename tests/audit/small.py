"""Cases of three nodes: `x @ w` with the inner dimension split over two ranks, which add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from gg_datalog.cli import cli


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["audit", *map(str, arguments)])


def asked(folder: Path, sql: str) -> list[dict[str, Any]]:
    found = audit("query", folder, "--sql", sql, "--format", "json")
    assert found.exit_code == 0, found.output
    rows: list[dict[str, Any]] = json.loads(found.output)
    return rows


def statuses(folder: Path) -> dict[str, str]:
    return {row["item"]: row["status"] for row in asked(folder, "SELECT item, status FROM items")}


def write_case(folder: Path, rows: int = 4, broken: bool = False, target: str = "mm") -> Path:
    """A case of this many rows, without the all-reduce where it is broken; ``target`` is the
    operator of both programs."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "seq.json", _graph(rows, 8, target, False))
    for rank in range(2):
        _write(folder / f"dist.r{rank}.json", {**_graph(rows, 4, target, not broken), "rank": rank})
    group = {"ranks": [0, 1], "names": {"0": "0", "1": "0"}}
    _write(folder / "groups.json", {"seq": [], "dist": [group]})
    _write(folder / "relations.json", [_held(name, rank, rows) for rank in (0, 1) for name in "xw"])
    return folder


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document))


def _graph(rows: int, inner: int, target: str, reduced: bool) -> dict[str, Any]:
    nodes = [
        _node("x", "placeholder", "x", [], [rows, inner]),
        _node("w", "placeholder", "w", [], [inner, 6]),
        _node("y", "call_function", f"aten.{target}.default", ["x", "w"], [rows, 6]),
    ]
    if reduced:
        name = "_c10d_functional.all_reduce.default"
        nodes.append(_node("sum", "call_function", name, ["y"], [rows, 6]))
        nodes[-1]["args"] += ["sum", "0"]
    last = {"node": nodes[-1]["name"]}
    nodes.append({"name": "output", "op": "output", "target": "output", "args": [[last]],
                  "kwargs": {}})  # fmt: skip
    return {"format": "fx-graph", "version": 1, "rank": 0, "nodes": nodes}


def _node(name: str, op: str, target: str, args: list[str], shape: list[int]) -> dict[str, Any]:
    given = [{"node": arg} for arg in args]
    return {"name": name, "op": op, "target": target, "args": given, "kwargs": {}, "shape": shape,
            "dtype": "float32"}  # fmt: skip


def _held(name: str, rank: int, rows: int) -> dict[str, Any]:
    split, other = [4 * rank, 4 * rank + 4], [0, rows if name == "x" else 6]
    box = [other, split] if name == "x" else [split, other]
    return {"seq": name, "seq_box": box, "rank": rank, "dist": name}
