"""A case as plain JSON documents: reading, writing, copying."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(repr=False)
class Program:
    """The documents of a case folder; ``dist`` by rank."""

    seq: Json
    dist: dict[int, Json]
    groups: Json
    relations: list[Json]
    outputs: list[Json]

    def copy(self) -> Program:
        """A copy that may be changed."""
        fresh = json.loads(json.dumps([self.seq, self.groups, self.relations, self.outputs]))
        seq, groups, relations, outputs = fresh
        dist = {rank: json.loads(json.dumps(graph)) for rank, graph in self.dist.items()}
        return Program(seq, dist, groups, relations, outputs)

    def write(self, folder: Path) -> None:
        """Write the files of the case."""
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob("dist.r*.json"):
            stale.unlink()
        named = {"seq": self.seq, "groups": self.groups, "relations": self.relations}
        named |= {"outputs": self.outputs}
        named |= {f"dist.r{rank}": graph for rank, graph in self.dist.items()}
        for name, document in named.items():
            (folder / f"{name}.json").write_text(json.dumps(document))


def load(folder: Path) -> Program:
    """The case in ``folder``."""

    def read(name: str) -> Any:
        return json.loads((folder / f"{name}.json").read_text())

    ranks = sorted(int(p.name.split(".r")[1].split(".")[0]) for p in folder.glob("dist.r*.json"))
    dist = {rank: read(f"dist.r{rank}") for rank in ranks}
    return Program(read("seq"), dist, read("groups"), read("relations"), read("outputs"))


def nodes_by_name(graph: Json) -> dict[str, Json]:
    """The nodes of a graph by name."""
    return {node["name"]: node for node in graph["nodes"]}


def references(value: Any) -> list[str]:
    """Names of the nodes that an argument tree refers to, in order."""
    if isinstance(value, dict):
        if set(value) == {"node"}:
            return [value["node"]]
        return [name for part in value.values() for name in references(part)]
    if isinstance(value, list):
        return [name for part in value for name in references(part)]
    return []
