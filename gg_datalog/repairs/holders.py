"""A result and its programs: what is held where, in nodes of the ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gg_datalog.repairs.candidate import Group, Site
from gg_datalog.repairs.edits import Json
from gg_datalog.repairs.programs import Programs, operands
from gg_datalog.result.names import ranked
from gg_datalog.result.records import Records
from gg_datalog.result.report import Finding

if TYPE_CHECKING:
    import duckdb

REDUCING = ("all_reduce", "reduce_scatter")


@dataclass
class Scene:
    """Where something is missing: the database of a result, and the graphs it came from."""

    database: duckdb.DuckDBPyConnection
    programs: Programs
    _rows: dict[int, dict[str, Json]] = field(default_factory=dict)
    _users: dict[int, dict[str, list[tuple[str, str]]]] = field(default_factory=dict)

    def ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return list(self.database.execute(sql, list(parameters)).fetchall())

    @cached_property
    def records(self) -> Records:
        """What the rules' records say, by their keys."""
        return Records(self.database)

    def rational(self, times: str) -> Fraction | None:
        """A coefficient of the rules, where it is a rational number."""
        return self.records.coefficient(times).rational

    def rows(self, rank: int) -> dict[str, Json]:
        """The nodes of a rank by name."""
        if rank not in self._rows:
            self._rows[rank] = self.programs.rows(rank)
        return self._rows[rank]

    @cached_property
    def ranks(self) -> list[int]:
        """All ranks."""
        return sorted(self.programs.paths())

    def is_current(self) -> bool:
        """Are the graphs on disk those that the facts came from, as far as names tell?"""
        sql = """
            SELECT side, rank, list(name ORDER BY position), list(target ORDER BY position)
            FROM graph_node GROUP BY side, rank"""
        found = {(side, rank): (names, targets) for side, rank, names, targets in self.ask(sql)}
        graphs = {("dist", rank): self.programs.graph(rank) for rank in self.ranks}
        graphs["seq", 0] = self.programs.sequential()
        return found == {
            place: ([r["name"] for r in rows], [r.get("target", "") for r in rows])
            for place, graph in graphs.items()
            if isinstance(rows := graph["nodes"], list)
        }

    @cached_property
    def tensors(self) -> dict[tuple[int, str], tuple[str, str]]:
        """The base tensor that a node of a rank is a view of, and its coefficient."""
        sql = """
            SELECT rank, name, tensor, times FROM graph_node
            WHERE side = 'dist' AND tensor <> '' ORDER BY rank, position"""
        return {(rank, name): (tensor, times) for rank, name, tensor, times in self.ask(sql)}

    @cached_property
    def _views(self) -> dict[str, list[tuple[int, str]]]:
        found: dict[str, list[tuple[int, str]]] = {}
        for place, (tensor, _) in self.tensors.items():
            found.setdefault(tensor, []).append(place)
        return found

    def makers(self, tensor: str) -> list[Site]:
        """The nodes that compute a base tensor: on every rank that does, each time it does."""
        return [
            Site(rank, name)
            for rank, name in self._views.get(tensor, [])
            if all(self.base(rank, of) != tensor for of in operands(self.rows(rank)[name]))
        ]

    def base(self, rank: int, node: str) -> str:
        """The base tensor of a node, or nothing."""
        return self.tensors.get((rank, node), ("", ""))[0]

    def factor(self, site: Site) -> Fraction | None:
        """How often a node is its base tensor."""
        return number(self.tensors.get((site.rank, site.node), ("", ""))[1])

    def users(self, rank: int, tensor: str) -> list[tuple[str, str]]:
        """Nodes of a rank that use a view of the tensor for something else, and which view."""
        if rank not in self._users:
            found: dict[str, list[tuple[str, str]]] = {}
            for name, row in self.rows(rank).items():
                for of in operands(row):
                    if (base := self.base(rank, of)) and base != self.base(rank, name):
                        found.setdefault(base, []).append((name, of))
            self._users[rank] = found
        return self._users[rank].get(tensor, [])

    @cached_property
    def collectives(self) -> dict[tuple[int, str], str]:
        """The kinds of the nodes that ranks take part in together."""
        rows = self.ask("SELECT rank, node, kind FROM collective")
        return {(rank, node): kind for rank, node, kind in rows}

    def reduces(self, rank: int, node: str) -> bool:
        """Is the node a collective that adds up?"""
        return self.collectives.get((rank, node), "").startswith(REDUCING)

    def source(self, sites: tuple[Site, ...]) -> str:
        """The source line of the places, or of their users where these are named, if it is one."""
        nodes = {(site.rank, node) for site in sites for node in site.users or (site.node,)}
        found = {self.rows(rank)[node].get("source") or "" for rank, node in nodes}
        return found.pop() if len(found) == 1 else ""

    def tensors_of(self, node: str) -> list[str]:
        """Base tensors of a sequential node."""
        sql = "SELECT tensor FROM tensor_node WHERE side = 'seq' AND node = ? ORDER BY tensor"
        return [tensor for (tensor,) in self.ask(sql, node)]

    def bases(self, names: tuple[str, ...]) -> list[str]:
        """The base tensors of distributed nodes as findings name them."""
        found = []
        for name in names:
            found.append(self.base(*ranked(name)))
        return [tensor for tensor in dict.fromkeys(found) if tensor]

    def spoilt(self, found: Finding) -> set[str]:
        """The outputs that wait for what a finding speaks of, as far as that is known."""
        if found.outputs:
            return set(found.outputs)
        sql = """
            SELECT o.seq FROM output_name o
            WHERE o.seq = $seq OR o.wants IN (
                SELECT c.wants FROM chain_break c
                JOIN tensor_node t ON t.side = 'seq' AND t.tensor = c.seq WHERE t.node = $seq
                UNION
                SELECT c.wants FROM open_cause c
                JOIN tensor_node t ON t.side = 'seq' AND t.tensor = c.origin WHERE t.node = $seq
            )"""
        rows = self.database.execute(sql, {"seq": found.seq or ""}).fetchall()
        return {seq for (seq,) in rows}

    @cached_property
    def scales(self) -> dict[str, Fraction | None]:
        """The scalars of the facts, as far as they are rational."""
        rows = self.ask("SELECT id, num, den, over, under FROM scale_of")
        return {
            i: Fraction(n, d) if not over and not under and d else None
            for i, n, d, over, under in rows
        }

    @cached_property
    def groups(self) -> list[Group]:
        """The groups that the ranks' program knows."""
        document = self.programs.groups() or {}
        return [tuple(entry["ranks"]) for entry in document.get("dist", [])]


def number(scale: str) -> Fraction | None:
    """A scalar of the facts, where it is a rational number."""
    try:
        return Fraction(scale)
    except (ValueError, ZeroDivisionError):
        return None
