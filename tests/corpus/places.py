"""Where a pair was broken: what differs between two programs, and what first depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..numeric.interpreter import collective
from ..numeric.program import Program, nodes_by_name, references
from .trial import Trial

Place = tuple[int, str]  # rank, node


def touched(before: Program, after: Program) -> set[Place]:
    """Nodes that differ, inputs whose relation differs, collectives whose group differs."""
    places: set[Place] = set()
    for rank, graph in after.dist.items():
        old = nodes_by_name(before.dist[rank])
        places |= {(rank, n["name"]) for n in graph["nodes"] if old[n["name"]] != n}
    for row in [r for r in after.relations if r not in before.relations]:
        places.add((row["rank"], row["dist"]))
    return places.union(_regrouped(before, after))


def _members(program: Program) -> dict[tuple[str, str], tuple[int, ...]]:
    """Per rank and name of a group its members that have a graph."""
    return {
        (rank, name): tuple(r for r in group["ranks"] if r in program.dist)
        for group in program.groups["dist"]
        for rank, name in group["names"].items()
    }


def _regrouped(before: Program, after: Program) -> Iterator[Place]:
    old, new = _members(before), _members(after)
    for rank, graph in after.dist.items():
        names = {n for (r, n), members in new.items() if r == str(rank) and old[r, n] != members}
        for node in graph["nodes"]:
            if collective(node) and names & set(_words(node)):
                yield rank, node["name"]


def _words(node: dict[str, Any]) -> list[Any]:
    return [a for a in (*node["args"], *node["kwargs"].values()) if isinstance(a, str)]


@dataclass
class Graphs:
    """The tensors of the distributed graphs of a result, and who uses which."""

    program: Program
    tensor: dict[Place, str]
    name: dict[str, str]
    users: dict[Place, set[Place]]
    collectives: set[str]

    @classmethod
    def of(cls, program: Program, trial: Trial) -> Graphs:
        """As extraction lowered them."""
        nodes = trial.rows("SELECT rank, name, tensor FROM graph_node WHERE side = 'dist'")
        bases = trial.rows("SELECT tensor, name FROM tensor_node WHERE side = 'dist'")
        users: dict[Place, set[Place]] = {}
        for rank, graph in program.dist.items():
            for node in graph["nodes"]:
                for used in references([node["args"], node.get("kwargs", {})]):
                    users.setdefault((rank, used), set()).add((rank, node["name"]))
        return cls(
            program,
            {(row["rank"], row["name"]): row["tensor"] for row in nodes},
            {row["tensor"]: row["name"] for row in bases},
            users,
            {n["name"] for g in program.dist.values() for n in g["nodes"] if collective(n)},
        )

    def named(self, places: Iterable[Place]) -> set[str]:
        """The touched operators and the first that depend on each, as reports name them."""
        found: set[str] = set()
        for place in places:
            found |= {f"r{place[0]}.{place[1]}"} if self._moves(place) else self._names(place)
            for user in self._first(place, set()):
                found |= self._names(user)
        return found

    def _names(self, place: Place) -> set[str]:
        """The name of its tensor (of the first equal one), and its own."""
        return {f"r{place[0]}.{place[1]}", self.name.get(self.tensor.get(place, ""), "")} - {""}

    def _moves(self, place: Place) -> bool:
        """Is the node a view of what it uses, or an input?"""
        rank, name = place
        node = nodes_by_name(self.program.dist[rank])[name]
        used = references([node["args"], node.get("kwargs", {})])
        mine = self.tensor.get(place, "")
        return node["op"] == "placeholder" or mine in {self.tensor.get((rank, n)) for n in used}

    def _first(self, place: Place, seen: set[Place]) -> Iterator[Place]:
        for user in self.users.get(place, ()):
            if user in seen:
                continue
            seen.add(user)
            if self.tensor.get(user) and not self._moves(user):
                yield user
            else:
                yield from self._first(user, seen)

    def downstream(self, places: Iterable[Place]) -> set[str]:
        """Everything that depends on these; a collective on all ranks."""
        seen, todo = set(places), list(places)
        while todo:
            rank, name = todo.pop()
            fresh = set(self.users.get((rank, name), ()))
            if name in self.collectives:
                fresh |= {(r, name) for r in self.program.dist}
            todo += fresh - seen
            seen |= fresh
        return set().union(*(self._names(p) for p in seen))
