"""What a result says of every tensor, with the ranks on which it is the same put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gg_datalog.foundation.visible import visible
from gg_datalog.result.names import ranked

if TYPE_CHECKING:
    import duckdb

# How much of a sequential tensor a relation gives, the best first.
KINDS = ("whole", "piece", "factor", "part")


Node = tuple[str, int, str]  # side, rank, name


@dataclass
class Group:
    """A sequential tensor, or the tensors of the ranks that are alike but for the rank.

    ``held`` are names of sequential tensors of which the group holds something, and how
    (``whole``, ``piece``, ``factor``: times a number, ``part``: of a reduction); ``links`` the
    same between groups, seen from either side. ``needs`` and ``users`` are groups of one side.
    ``is_sum`` says that it is the second of two tensors of a node: a sum over the first.
    """

    index: int
    side: str
    node: str
    target: str
    shape: str
    source: str
    module: str
    kind: str
    status: str
    held: tuple[tuple[str, str], ...]
    is_sum: bool
    ranks: list[int] = field(default_factory=list)
    links: dict[int, str] = field(default_factory=dict)
    needs: list[int] = field(default_factory=list)
    users: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Tensors:
    """All groups; the one that a base tensor is in, or of which a node (side, rank, name as
    reports print it) is a view, and those that a node makes.
    """

    groups: Sequence[Group]
    of_tensor: Mapping[tuple[str, str], int]
    of_node: Mapping[Node, int]
    made_by: Mapping[Node, Sequence[int]]

    def named(self, side: str, names: Iterable[str]) -> list[int]:
        """The groups of nodes as reports name them: ``mm`` or, on a rank, ``r1.mm``."""
        found: list[int] = []
        for name in names:
            rank, node = ranked(name) if side == "dist" else (0, name)
            found += self.made_by.get((side, rank, node), [])
            found += [self.of_node[key] for key in [(side, rank, node)] if key in self.of_node]
        return list(dict.fromkeys(found))


def read_tensors(database: duckdb.DuckDBPyConnection) -> Tensors:
    """Groups of the tensors of a result."""
    held: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for dist, seq, kind in database.sql(_RELATED).fetchall():
        held["dist", dist][seq] = kind
        held["seq", seq][dist] = kind
    groups: dict[object, Group] = {}
    of_tensor: dict[tuple[str, str], int] = {}
    made_by: dict[Node, list[int]] = defaultdict(list)
    for side, tensor, rank, *about, known in database.sql(_TENSORS).fetchall():
        found = held.get((side, tensor), {})
        pairs = tuple(sorted((seq, KINDS[kind]) for seq, kind in found.items()))
        status = _status(side, bool(known), [kind for _, kind in pairs])
        key = (side, *about, status, pairs) if side == "dist" else (side, tensor)
        if key not in groups:
            node, target, shape, source, module, kind = map(visible, about[:-2])
            groups[key] = Group(
                len(groups), side, node, target, shape, source, module, kind, status,
                pairs if side == "dist" else (), about[-2] == 1,
            )  # fmt: skip
        groups[key].ranks.append(rank)
        of_tensor[side, tensor] = groups[key].index
        made_by[side, rank, visible(about[0])].append(groups[key].index)
    listed = list(groups.values())
    _connect(listed, of_tensor, database)
    nodes = database.sql("SELECT side, rank, name, tensor FROM graph_node WHERE tensor <> ''")
    of_node = {
        (side, rank, visible(name)): of_tensor[side, tensor]
        for side, rank, name, tensor in nodes.fetchall()
        if (side, tensor) in of_tensor
    }
    return Tensors(listed, of_tensor, of_node, made_by)


def _status(side: str, known: bool, kinds: Sequence[str]) -> str:
    """``mapped``, ``partial``: something of it is, ``unmapped``."""
    if side == "dist":
        known = known and (not kinds or any(kind in ("whole", "piece") for kind in kinds))
    return "mapped" if known else "partial" if kinds else "unmapped"


def _connect(
    groups: Sequence[Group],
    of_tensor: Mapping[tuple[str, str], int],
    database: duckdb.DuckDBPyConnection,
) -> None:
    """Fills in operands, users and what groups of the two sides hold of each other."""
    needs: dict[tuple[int, int], None] = {}
    for side, tensor, operand in database.sql(_NEEDS).fetchall():
        if (side, tensor) in of_tensor and (side, operand) in of_tensor:
            needs[of_tensor[side, tensor], of_tensor[side, operand]] = None
    for user, operand in needs:
        groups[user].needs.append(operand)
        groups[operand].users.append(user)
    for group in groups:
        for seq, kind in group.held:
            other = of_tensor.get(("seq", seq))
            if other is not None:
                group.links[other] = kind
                groups[other].links[group.index] = kind


_RELATED = """
    WITH reach AS (
        SELECT block, product(hi - lo) AS elements FROM block_run GROUP BY block
    ),
    piece AS (
        SELECT dist, seq, CASE
            WHEN is_open(parts) THEN 3
            WHEN NOT is_one(times) THEN 2
            WHEN coalesce(r.elements, 1) >= s.elements THEN 0
            ELSE 1 END AS kind
        FROM holds h JOIN tensor_size s ON s.side = 'seq' AND s.tensor = h.seq
        LEFT JOIN reach r USING (block)
    )
    SELECT dist, seq, min(kind) FROM piece GROUP BY dist, seq ORDER BY dist, seq"""

_TENSORS = """
    SELECT t.side, t.tensor, t.rank, t.node, t.target, b.shape, t.source, t.module, t.kind,
           (t.kind = 'sum' AND count(*) OVER (PARTITION BY t.side, t.rank, t.node) > 1)::INT,
           row_number() OVER (
               PARTITION BY t.side, t.rank, t.node ORDER BY length(t.tensor), t.tensor
           ),
           coalesce(m.tensor, r.tensor) IS NOT NULL
    FROM tensor_node t
    JOIN base_tensor b ON b.side = t.side AND b.tensor = t.tensor
    LEFT JOIN tensor_mapped m ON t.side = 'seq' AND m.tensor = t.tensor
    LEFT JOIN tensor_related r ON t.side = 'dist' AND r.tensor = t.tensor
    LEFT JOIN graph_node g ON g.side = t.side AND g.rank = t.rank AND g.name = t.node
    ORDER BY t.side DESC, t.rank, g.position, t.tensor"""

_NEEDS = "SELECT side, tensor, needs FROM tensor_needs ORDER BY side, tensor, place"
