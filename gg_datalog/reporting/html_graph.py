"""The neighbourhood of a break, drawn: the sequential program beside the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from gg_datalog.reporting.html_picture import Picture, drawn
from gg_datalog.reporting.html_tensors import Group, Tensors
from gg_datalog.result.report import Finding

if TYPE_CHECKING:
    import duckdb

MOST = 14  # nodes of one side
UP, DOWN = 2, 1  # operands of operands, and users, of what a finding names
BESIDE = {"needs": 4, "users": 2}  # operands and users of one node
FOCUS = 4  # operators of one side at which the chain breaks


@dataclass(frozen=True)
class Breaks:
    """Between which groups chains break: sequential, distributed, and the operand at fault; None
    where there is none.
    """

    pairs: Sequence[tuple[int, int | None, int | None]]


def read_breaks(database: duckdb.DuckDBPyConnection, tensors: Tensors) -> Breaks:
    """The rows of ``blocked`` as groups: sequential, distributed, and the operand at fault."""
    pairs = dict.fromkeys(
        (
            tensors.of_tensor.get(("seq", seq), -1),
            tensors.of_tensor.get(("dist", dist)),
            tensors.of_tensor.get(("dist", operand)),
        )
        for seq, dist, operand in database.sql(
            "SELECT seq, dist, operand FROM blocked ORDER BY ALL"
        ).fetchall()
    )
    return Breaks([pair for pair in pairs if pair[0] >= 0])


def picture(finding: Finding, tensors: Tensors, breaks: Breaks) -> Picture | None:
    """The neighbourhood of what a finding names; None where it names nothing on either side."""
    named = {
        "seq": tensors.named("seq", [finding.seq] if finding.seq else []),
        "dist": tensors.named("dist", finding.dist),
    }
    if not any(named.values()):
        return None
    broken = _broken(named, breaks)
    focus = {side: list(dict.fromkeys([*named[side], *broken[side]])) for side in named}
    for side, other in (("seq", "dist"), ("dist", "seq")):
        if not focus[side]:
            focus[side] = _counterparts(focus[other], tensors)
    shown, left_out = [], 0
    for side in ("seq", "dist"):
        found, more = _around(focus[side], tensors.groups)
        shown += found
        left_out += more
    apart = [(a, b) for a, b, _ in breaks.pairs if b is not None and {a, b} <= set(shown)]
    roles = dict.fromkeys([*named["seq"], *named["dist"]], "named")
    roles |= dict.fromkeys([*broken["seq"], *broken["dist"], *chain(*apart)], "broken")
    return drawn([tensors.groups[index] for index in shown], roles, apart, left_out)


def _broken(named: Mapping[str, Sequence[int]], breaks: Breaks) -> dict[str, list[int]]:
    """Where the chain breaks because of what the finding names, or at it."""
    known = {*named["seq"], *named["dist"]}
    found = [row for row in breaks.pairs if known & set(row)]
    seq = dict.fromkeys(row[0] for row in found)
    dist = dict.fromkeys(row[1] for row in found if row[1] is not None and row[1] != row[2])
    return {"seq": list(seq)[:FOCUS], "dist": list(dist)[:FOCUS]}


def _counterparts(focus: Iterable[int], tensors: Tensors) -> list[int]:
    """What the other side has of these groups; of their operands where it has nothing."""
    groups = tensors.groups
    own = [other for index in focus for other in groups[index].links]
    near = [o for index in focus for need in groups[index].needs for o in groups[need].links]
    return list(dict.fromkeys(own or near))[:FOCUS]


def _around(focus: Sequence[int], groups: Sequence[Group]) -> tuple[list[int], int]:
    """Users of these groups, what they are computed from, and how many there is no room for."""
    shown = dict.fromkeys(focus[:MOST])
    left_out = len(focus) - len(shown)
    levels = [("users", list(shown))] * DOWN + [("needs", list(shown))]
    for step, (direction, level) in enumerate(levels):
        fresh: dict[int, None] = {}
        for index in level:
            near = getattr(groups[index], direction)
            near = sorted(near, key=lambda other: groups[other].status == "mapped")
            left_out += max(0, len(near) - BESIDE[direction])
            fresh |= dict.fromkeys(
                other for other in near[: BESIDE[direction]] if other not in shown
            )
        room = max(0, MOST - len(shown))
        left_out += max(0, len(fresh) - room)
        shown |= dict.fromkeys(list(fresh)[:room])
        if direction == "needs" and step < UP:
            levels.append(("needs", list(fresh)[:room]))
    return list(shown), left_out
