"""Collectives of which nobody uses what they give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gg_datalog.extract.graph import Graph, Node, references

GIVING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
"""The beginnings of the kinds that give every member something that is meant to be used."""


class Member(NamedTuple):
    """Node ``node`` of rank ``rank`` takes part in collective ``instance``."""

    instance: int
    kind: str
    reduction: str
    ranks: str
    rank: int
    node: str


class Unused(NamedTuple):
    """Such a node, which takes node ``of``, where no rank uses what the collective gives."""

    instance: int
    kind: str
    rank: int
    node: str
    of: str


def unused(
    graphs: Mapping[int, Graph], instances: Sequence[tuple[int, str, str, str, int, str]]
) -> Iterator[Unused]:
    """The members of all collectives that nothing comes of: neither what a rank returns nor what
    another collective takes."""
    members = [Member(*row) for row in instances]
    talking: dict[int, set[str]] = {}
    for one in members:
        talking.setdefault(one.rank, set()).add(one.node)
    needed = {rank: _needed(graph, talking.get(rank, set())) for rank, graph in graphs.items()}
    used = {one.instance for one in members if one.node in needed[one.rank]}
    for one in members:
        if one.instance not in used and one.kind.startswith(GIVING):
            node = graphs[one.rank].nodes[one.node]
            taken = next(references(node.args), "")
            yield Unused(one.instance, one.kind, one.rank, one.node, taken)


def _needed(graph: Graph, talking: set[str]) -> set[str]:
    """What goes into what a rank returns, into its collectives and its transfers."""
    ends = [node for node in graph.nodes.values() if node.name in talking or _sends(node)]
    left = [*references(graph.returns), *references([end.args for end in ends])]
    found: set[str] = set()
    while left:
        name = left.pop()
        if name not in found and name in graph.nodes:
            found.add(name)
            node = graph.nodes[name]
            left += references((node.args, node.kwargs))
    return found


def _sends(node: Node) -> bool:
    return "send" in node.target
