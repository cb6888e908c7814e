"""Inputs whose values nobody knows, and inputs whose relations are guessed.

What differs between the programs because of them is no difference of the programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from gg_datalog.extract.signature import signature
from gg_datalog.extract.table import Table
from gg_datalog.replay.calls import named
from gg_datalog.replay.collectives import collective
from gg_datalog.replay.documents import Documents, Json, nodes_of, padding
from gg_datalog.replay.kernels import has_value, is_own
from gg_datalog.replay.lookups import references

GUESSED = "guessed relation"


def guessed_names(about: Path | None) -> set[str]:
    """The inputs, as the program calls them, whose relations a capture has guessed."""
    if about is None:
        return set()
    rows = json.loads(about.read_text(encoding="utf-8")).get("assumptions", [])
    texts = [str(row["text"]) for row in rows if row["kind"] == GUESSED]
    return {name for text in texts for name in re.findall(r"`([^`]+)`", text)}


def called(node: Json) -> str:
    """What the program calls an input."""
    return str(node.get(str(node.get("kind")), node["name"]))


def unknown(case: Documents, output: Json, guessed: set[str]) -> list[str]:
    """Inputs of unknown values that go into an output, on either side, in order."""
    found = {
        name
        for name in _behind(case.seq, [output["seq"]])
        if _lost(nodes_of(case.seq)[name], [r for r in case.relations if r["seq"] == name])
    }
    shapes = {name: node.get("shape") for name, node in nodes_of(case.seq).items()}
    for rank, graph in case.dist.items():
        nodes = nodes_of(graph)
        rows = [row for row in case.relations if row["rank"] == rank]
        start = [n for r, n in output["dist"].items() if int(r) == rank]
        start += [n["name"] for n in graph["nodes"] if _talks(n)]  # what others may get of it
        for name in _behind(graph, start):
            mine = [row for row in rows if row["dist"] == name]
            whole = shapes.get(mine[0]["seq"]) if mine else None
            if _left_open(nodes[name], mine, whole) or _arbitrary(nodes[name], guessed):
                found.add(f"r{rank}.{name}")
    return sorted(found)


def made_up(case: Documents, output: Json, table: Table) -> list[str]:
    """What goes into an output and is executed by something that stands for it, on either side:
    kernels that are not torch's own, and random numbers."""
    nodes = nodes_of(case.seq)
    found = {n for n in _before(case.seq, [output["seq"]]) if _stands_in(nodes[n], table)}
    for rank, graph in case.dist.items():
        nodes = nodes_of(graph)
        start = [n for r, n in output["dist"].items() if int(r) == rank]
        start += [n["name"] for n in graph["nodes"] if _talks(n)]
        found |= {f"r{rank}.{n}" for n in _before(graph, start) if _stands_in(nodes[n], table)}
    return sorted(found)


def _stands_in(node: Json, table: Table) -> bool:
    if node["op"] != "call_function" or collective(table, node):
        return False
    known = signature(str(node["target"]))
    bits = "view.dtype" in str(node["target"])  # of floats, which here have others
    return bits or (known is not None and known.random) or not is_own(named(table, node))


def _talks(node: Json) -> bool:
    return "c10d" in str(node.get("target", ""))


def _behind(graph: Json, names: Sequence[str]) -> Iterator[str]:
    """Inputs and constants that these nodes are computed from."""
    nodes = nodes_of(graph)
    yield from (n for n in _before(graph, names) if nodes[n]["op"] in ("placeholder", "get_attr"))


def _before(graph: Json, names: Sequence[str]) -> Iterator[str]:
    """These nodes, and what they are computed from."""
    nodes, left, seen = nodes_of(graph), [*names], set(names)
    while left:
        node = nodes.get(left.pop())
        if node is None:
            continue
        yield node["name"]
        for name in references([node.get("args", []), node.get("kwargs", {})]):
            if name not in seen:
                seen.add(name)
                left.append(name)


def _lost(node: Json, rows: Sequence[Json]) -> bool:
    """Is it a constant of the sequential program whose value is lost?"""
    return node["op"] == "get_attr" and not has_value(node) and not rows


def _left_open(node: Json, rows: Sequence[Json], whole: Sequence[int] | None) -> bool:
    """Is it an input of a rank of which the relations leave something open, but for padding behind
    the end of a sequential one of that shape?"""
    shape = node.get("shape")
    if has_value(node) or shape is None or any(isinstance(e, str) for e in shape):
        return False
    boxes = {tuple(map(tuple, row["dist_box"])) for row in rows}
    covered = sum(prod(hi - lo for lo, hi in box) for box in boxes)
    padded = whole is not None and padding(shape, whole, rows) is not None
    whole_numbers = str(node.get("dtype", "")).startswith(("int", "uint", "bool"))
    return bool(covered < prod(shape)) and (whole_numbers or not padded)


def _arbitrary(node: Json, guessed: set[str]) -> bool:
    """Is it a buffer of whole numbers, which a program fills as it likes, on every rank anew?"""
    whole = str(node.get("dtype", "")).startswith(("int", "uint", "bool"))
    return node.get("kind") == "buffer" and whole and called(node) in guessed


# ---- other guesses -------------------------------------------------------------------------------
def other_guesses(case: Documents, guessed: set[str]) -> tuple[Documents, list[str]] | None:
    """The case with the other order in which ranks may share shards (neighbours have the same one,
    or ranks far apart), for every input where that is guessed, and the names of these."""
    nodes = nodes_of(case.seq)
    rows = deepcopy(case.relations)
    changed: list[str] = []
    for name in dict.fromkeys(row["seq"] for row in rows):
        mine = [row for row in rows if row["seq"] == name]
        boxes = sorted({_box(row) for row in mine})
        ranks = sorted(row["rank"] for row in mine)
        copies, rest = divmod(len(ranks), len(boxes))
        plain = len(set(ranks)) == len(ranks) == len(case.dist) and not rest
        if not (plain and copies > 1 and len(boxes) > 1 and called(nodes[name]) in guessed):
            continue
        held = [boxes.index(_box(row)) for row in sorted(mine, key=lambda r: int(r["rank"]))]
        near = [i // copies for i in range(len(ranks))]
        far = [i % len(boxes) for i in range(len(ranks))]
        if held not in (near, far):
            continue
        other = far if held == near else near
        for row in mine:
            row["seq_box"] = [list(b) for b in boxes[other[ranks.index(row["rank"])]]]
        changed.append(called(nodes[name]))
    return (replace(case, relations=rows), changed) if changed else None


def _box(row: Json) -> tuple[Any, ...]:
    return tuple(map(tuple, row["seq_box"]))
