"""Strongly connected components of the relations' dependency graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


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
