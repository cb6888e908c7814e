"""Coverage per module as a picture: the tree of modules, wide where there are many operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gg_datalog.queries import statement

if TYPE_CHECKING:
    import duckdb

UNKNOWN = "(unknown)"


@dataclass
class Module:
    """Sequential operators of a module and those below it; ``left`` and ``width`` are shares."""

    path: str
    name: str
    operators: int = 0
    mapped: int = 0
    depth: int = 0
    left: float = 0.0
    width: float = 1.0
    inner: dict[str, Module] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """How much is mapped, from 0 to 1."""
        return self.mapped / self.operators if self.operators else 1.0


@dataclass(frozen=True)
class Coverage:
    """Rows of the table (module, operators, mapped, percent) and the boxes of the picture."""

    rows: list[tuple[str, int, int, float]]
    boxes: list[Module]
    depth: int


def coverage(database: duckdb.DuckDBPyConnection) -> Coverage:
    """What the query ``coverage`` says, in the order of the program."""
    found = database.sql(statement("coverage")).fetchall()
    first = dict(database.sql(_FIRST).fetchall())
    rows = [(str(m), int(n), int(k), float(share)) for m, n, k, share in found]
    rows.sort(key=lambda row: (row[0] == UNKNOWN, first.get(row[0], 0), row[0]))
    root = Module("", "all modules")
    for path, operators, mapped, _ in rows:
        _count(root, path, operators, mapped)
    boxes = list(_boxes(root))
    return Coverage(rows, boxes, 1 + max(box.depth for box in boxes))


def _count(root: Module, path: str, operators: int, mapped: int) -> None:
    """Adds to a module and all above it."""
    at = root
    words = [path] if path == UNKNOWN else path.split(".")
    for end in range(len(words) + 1):
        if end:
            name = words[end - 1]
            at = at.inner.setdefault(name, Module(".".join(words[:end]), name, depth=end))
        at.operators += operators
        at.mapped += mapped


def _boxes(module: Module) -> Iterator[Module]:
    """The module and what is below it, each as wide as its share of the operators."""
    yield module
    left = module.left
    for inner in module.inner.values():
        inner.left = left
        inner.width = module.width * inner.operators / max(1, module.operators)
        left += inner.width
        yield from _boxes(inner)


_FIRST = """
    SELECT module, min(position) FROM graph_node WHERE side = 'seq' AND module <> ''
    GROUP BY module"""
