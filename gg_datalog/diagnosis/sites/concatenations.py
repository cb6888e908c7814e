"""Concatenations at a break, the members of which are pieces of one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gg_datalog.diagnosis.scene import Held, Scene, Thing
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.diagnosis.sites.ranges import Range, complete
from gg_datalog.result.blocks import Box
from gg_datalog.result.names import ranked
from gg_datalog.result.placement import some, span, spans_text


@dataclass(frozen=True)
class Member:
    """A member of a concatenation, at ``start``, and what it holds."""

    held: Held
    start: int
    dim: int
    box: Box
    rank: int


@dataclass(frozen=True)
class Concatenation:
    """Tensor ``gives`` of a rank: its ``members`` have different ranges of dimension ``dim`` of
    sequential tensor ``of``, and of no other one."""

    place: Break
    gives: str
    members: Sequence[Member]
    of: Thing
    dim: int

    @property
    def names(self) -> list[str]:
        """Its nodes."""
        return self.place.scene.names([self.gives])

    @property
    def target(self) -> str:
        """Its operator."""
        (thing,) = self.place.scene.things("dist", [self.gives])
        return thing.target

    @property
    def in_order(self) -> list[Member]:
        """The members as they are put together."""
        return sorted(self.members, key=lambda m: m.start)

    @property
    def spans(self) -> list[Range]:
        """The ranges as they are put together."""
        return [m.box[self.dim] for m in self.in_order]

    @property
    def extent(self) -> int:
        """Of the dimension of which they have ranges."""
        return self.of.shape[self.dim]

    @property
    def whole(self) -> bool:
        """Do the ranges make up all of it, in whatever order?"""
        return complete(sorted(self.spans), self.extent)

    @property
    def along(self) -> bool | None:
        """Is the dimension of which the members have ranges the one they are put together along?
        None where that cannot be said."""
        first = self.members[0]
        block = self.place.scene.records.block(first.held.block)
        dims = [run.dim for runs in block for run in runs]
        return None if len(dims) != len(first.box) else dims[self.dim] == first.dim

    @property
    def told(self) -> str:
        """The ranges with their ranks."""
        return some([f"{span(*m.box[self.dim])} (rank {m.rank})" for m in self.in_order])

    @property
    def where(self) -> dict[str, Any]:
        """What every finding about it says."""
        ranks = [ranked(name)[0] for name in self.names]
        return {
            "seq": self.of.node,
            "dist": tuple(self.names),
            "expected": self.place.scene.wanted(self.of.tensor, ranks),
            "found": f"concat of dim {self.dim} of {self.of.node} in the order "
            f"{spans_text(self.spans)}",
            "outputs": self.place.outputs,
        }


def concatenations(place: Break, dists: Sequence[str]) -> Iterator[Concatenation]:
    """The concatenations among these distributed tensors."""
    for (gives,) in place.scene.rows(_CONCATS, list(dists)):
        members = _members(place.scene, gives)
        if members is None:
            continue
        of = place.scene.seq(members[0].held.seq)
        differ = [d for d in range(len(of.shape)) if len({m.box[d] for m in members}) > 1]
        if len(differ) == 1:
            yield Concatenation(place, gives, members, of, differ[0])


def _members(scene: Scene, gives: str) -> list[Member] | None:
    """The members by place, with what they hold of the one tensor that all hold pieces of."""
    places = scene.rows(_MEMBERS, gives)
    held: dict[str, dict[str, Held]] = {}
    for h in scene.held({of for of, *_ in places}):
        if h.plain:
            held.setdefault(h.seq, {}).setdefault(h.dist, h)
    ranks = {t.tensor: t.ranks[0] for t in scene.things("dist", {of for of, *_ in places})}
    for seq, rows in held.items():
        if all(of in rows for of, *_ in places):
            found = [
                Member(rows[of], start, dim, box, ranks[of])
                for of, start, dim in places
                if (box := scene.box(rows[of])) is not None
            ]
            if len(found) == len(places) and len({m.box for m in found}) > 1 and scene.seq(seq):
                return found
    return None


_CONCATS = """
    SELECT gives FROM dist_concat WHERE gives IN (SELECT unnest(?)) ORDER BY gives"""

_MEMBERS = """
    SELECT m."of", m.start, coalesce(d.dim, -1) FROM dist_concat c
    JOIN dist_member m ON m."by" = c."by"
    LEFT JOIN digit_of d
        ON d.shaped = m.shaped AND d.place = 0 AND d.label = m.label AND d.level = 0
    WHERE c.gives = ? ORDER BY m.place"""
