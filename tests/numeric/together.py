"""Many programs as one: their graphs behind each other, the names of nodes prefixed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gg_datalog.extract.lower import RANDOM

from .execution import Values
from .interpreter import Execution
from .program import Json, Program

RANKS = (0, 1)


def fits(program: Program) -> bool:
    """Has it two ranks, no group but theirs under the common name, and no random draws, which are
    paired by their order in the whole program?"""
    groups = program.groups
    targets = {node["target"] for graph in (program.seq, *program.dist.values())
               for node in graph["nodes"] if node["op"] == "call_function"}  # fmt: skip
    if any(word in target for target in targets for word in RANDOM):
        return False
    names = [one["names"] for one in groups.get("dist", ())]
    return (
        tuple(program.dist) == RANKS
        and not groups.get("seq")
        and all(one["ranks"] == list(RANKS) for one in groups.get("dist", ()))
        and len(names) <= 1
    )


def together(programs: Mapping[int, Program]) -> Program:
    """One program that is all of them; ``n7_x`` is node ``x`` of number 7. Each ``fits``."""
    own = {number: _renamed(program.copy(), number) for number, program in programs.items()}
    group = {"ranks": list(RANKS), "names": {str(rank): GROUP for rank in RANKS}}
    return Program(
        _joined([program.seq for program in own.values()]),
        {rank: _joined([p.dist[rank] for p in own.values()]) for rank in RANKS},
        {"seq": [], "dist": [group]},
        [row for program in own.values() for row in program.relations],
        [row for program in own.values() for row in program.outputs],
    )


def executed(runs: Mapping[int, Execution]) -> Execution:
    """What the tensors of all of them hold, by the names that they have together."""

    def named(side: Callable[[Execution], Values]) -> Values:
        return {
            _name(number, name): value
            for number, run in runs.items()
            for name, value in side(run).items()
        }

    return Execution(
        named(lambda run: run.seq),
        {rank: named(lambda run, rank=rank: run.dist[rank]) for rank in RANKS},  # type: ignore[misc]
    )


GROUP = "common"


def _name(number: int, name: str) -> str:
    return f"n{number}_{name}"


def number_of(name: str) -> int:
    """The number of the program that a node belongs to."""
    return int(name.partition("_")[0].removeprefix("n"))


def _renamed(program: Program, number: int) -> Program:
    """Its own names, prefixed, and the common one of the group."""
    groups = {name for one in program.groups.get("dist", ()) for name in one["names"].values()}

    def name(text: str) -> str:
        return _name(number, text)

    def arguments(value: Any) -> Any:
        if isinstance(value, dict):
            if set(value) == {"node"}:
                return {"node": name(value["node"])}
            return {key: arguments(one) for key, one in value.items()}
        if isinstance(value, list):
            return [arguments(one) for one in value]
        return GROUP if isinstance(value, str) and value in groups else value

    for graph in (program.seq, *program.dist.values()):
        for node in graph["nodes"]:
            node["name"] = name(node["name"])
            node["args"] = arguments(node.get("args", []))
            node["kwargs"] = arguments(node.get("kwargs", {}))
    for row in program.relations:
        row["seq"], row["dist"] = name(row["seq"]), name(row["dist"])
    for row in program.outputs:
        for key in {"seq", "dist", "state"} & row.keys():
            row[key] = _each(row[key], name)
        row.pop("name", None)
    return program


def _each(names: Any, name: Any) -> Any:
    if isinstance(names, Mapping):
        return {rank: name(one) for rank, one in names.items()}
    return name(names)


def _joined(graphs: Sequence[Json]) -> Json:
    """All of their nodes, and one that returns what they return."""
    nodes, returned = [], []
    for graph in graphs:
        for node in graph["nodes"]:
            if node["op"] == "output":
                (values,) = node["args"]
                returned += values
            else:
                nodes.append(node)
    last = {"name": "output", "op": "output", "target": "output", "args": [returned], "kwargs": {}}
    return json.loads(json.dumps({"nodes": [*nodes, last]}))  # type: ignore[no-any-return]
