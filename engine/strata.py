"""Strongly connected components of the relations' dependency graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .program import Atom, Clause, Negation, Program


def components(edges: Mapping[str, set[str]]) -> dict[str, int]:
    """The number of the strongly connected component of each node (Tarjan, no recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    component: dict[str, int] = {}
    stack: list[str] = []
    for root in edges:
        if root not in index:
            _visit(root, edges, index, low, component, stack)
    return component


def _visit(
    root: str,
    edges: Mapping[str, set[str]],
    index: dict[str, int],
    low: dict[str, int],
    component: dict[str, int],
    stack: list[str],
) -> None:
    def enter(node: str) -> tuple[str, Iterator[str]]:
        index[node] = low[node] = len(index)
        stack.append(node)
        return node, iter(sorted(edges[node]))

    path = [enter(root)]
    while path:
        node, successors = path[-1]
        following = next((other for other in successors if other not in component), None)
        if following is None:
            path.pop()
            _leave(node, index, low, component, stack)
            if path:
                low[path[-1][0]] = min(low[path[-1][0]], low[node])
        elif following in index:
            low[node] = min(low[node], index[following])
        else:
            path.append(enter(following))


def _leave(
    node: str,
    index: dict[str, int],
    low: dict[str, int],
    component: dict[str, int],
    stack: list[str],
) -> None:
    if low[node] == index[node]:
        while node not in component:
            component[stack.pop()] = index[node]


def dependencies(program: Program) -> dict[str, set[str]]:
    """The relations that the rules of each relation look at."""
    edges: dict[str, set[str]] = {name: set() for name in program.declarations}
    for clause in program.clauses:
        for literal in clause.body:
            if isinstance(literal, Negation):
                edges[clause.head.relation].add(literal.atom.relation)
            elif isinstance(literal, Atom):
                edges[clause.head.relation].add(literal.relation)
    return edges


def recursive_clauses(clauses: Sequence[Clause], edges: Mapping[str, set[str]]) -> list[bool]:
    """For each clause, does its body use a relation of the head's component?"""
    component = components(edges)
    return [
        any(
            isinstance(literal, Atom)
            and component[literal.relation] == component[clause.head.relation]
            for literal in clause.body
        )
        for clause in clauses
    ]
