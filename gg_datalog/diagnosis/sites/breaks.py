"""A sequential tensor at which a chain breaks, with the distributed operators that come closest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gg_datalog.diagnosis.scene import Scene, Thing
from gg_datalog.diagnosis.sites.unknowns import Obstacle
from gg_datalog.result.placement import names_text
from gg_datalog.result.reasons import Reason

# What `blocked` gives as reason, in a sentence about distributed operators (and their operands).
SENTENCE = {
    Reason.PART_TAKEN: "an operand of {dist} is only a part of a reduction: {operand}",
    Reason.PART_GIVEN: "only a part of a reduction is in {dist}",
    Reason.COEFFICIENT: "another coefficient is in {dist}",
    Reason.OPERAND: "no rule shows that the same operands go into {dist}",
    Reason.RANGE: "no rule shows that the same range is covered by {dist}",
    Reason.MASK: "rows of a shard are masked by {dist}",
    Reason.ATTRIBUTE: "other attributes has {dist}",
    Reason.UNSUPPORTED: "no rule describes {dist}",
    Reason.NO_COUNTERPART: "another operator on the same operands is {dist}",
}

Blocked = tuple[str, str | None, str | None]  # reason, distributed tensor, operand at fault


@dataclass(frozen=True)
class Break:
    """Sequential tensor ``seq``, and what stands against it (see ``blocked``). Where no rule
    describes the tensor itself, ``opaque`` is the reason, and ``detail`` says more."""

    scene: Scene
    seq: str
    blocked: Sequence[Blocked]
    opaque: str | None = None
    detail: str | None = None

    @cached_property
    def of(self) -> Thing:
        """The sequential tensor."""
        return self.scene.seq(self.seq)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The outputs whose chains break here."""
        return self.scene.spoiled([self.seq])

    @property
    def obstacle(self) -> Obstacle | None:
        """The tensor, where no rule describes it."""
        if self.opaque is None:
            return None
        where = {"seq": self.of.node, "outputs": self.outputs}
        subject = f"`{self.of.node}` ({self.of.target})"
        return Obstacle(self.opaque, subject, self.detail or "", where)

    @property
    def computed(self) -> bool:
        """Is it computed from anything?"""
        return bool(self.scene.rows(_COMPUTED, self.seq))

    @cached_property
    def dists(self) -> list[str]:
        """The distributed tensors that come closest, by reason."""
        return list(dict.fromkeys(d for reason in self._by_reason for d in self.at(reason)))

    def at(self, reason: str) -> list[str]:
        """The distributed tensors that do not give it for this reason."""
        return self._by_reason.get(reason, [])

    @cached_property
    def _by_reason(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for reason, dist, _ in self.blocked:
            if dist is not None:
                found.setdefault(reason, []).append(dist)
        return found

    @cached_property
    def closest(self) -> dict[str, tuple[list[str], list[str]]]:
        """By reason what comes closest, and the operands at fault. What has no counterpart is left
        out where something else is there."""
        found: dict[str, tuple[list[str], list[str]]] = {}
        for reason, dist, operand in self.blocked:
            dists, operands = found.setdefault(reason, ([], []))
            dists += [dist] if dist else []
            operands += [operand] if operand else []
        if len(found) > 1:
            found.pop(Reason.NO_COUNTERPART, None)
        return found

    @property
    def near(self) -> list[str]:
        """All that comes closest."""
        return [dist for dists, _ in self.closest.values() for dist in dists]

    @property
    def unlike(self) -> str:
        """The sentence that nothing there is the tensor."""
        names = self.scene.names
        told = [
            SENTENCE[Reason(reason)].format(
                dist=names_text(names(dists)), operand=names_text(names(operands))
            )
            for reason, (dists, operands) in self.closest.items()
            if dists
        ]
        why = "; ".join(told) or "no operator of theirs comes close"
        return (
            f"no equivalent of `{self.of.node}` ({self.of.target}) is found on the ranks, though "
            f"its operands are there: {why}"
        )

    @property
    def ranged(self) -> list[str]:
        """Those that have another range of it."""
        return self.at(Reason.RANGE)

    @cached_property
    def broken(self) -> list[str]:
        """Where chains of the same outputs break on single ranks."""
        return [dist for (dist,) in self.scene.rows(_BROKEN, self.seq)]

    @cached_property
    def returned(self) -> list[str]:
        """What the ranks return for the outputs whose chains break here."""
        return [of for (of,) in self.scene.rows(_RETURNED, self.seq)]


Pair = tuple[str, str, bool, bool]
"""A sequential and a distributed operand: does the one hold something of the other, and are they at
the same place?"""


def operand_pairs(place: Break, dist: str) -> list[Pair]:
    """The operands of the tensor at a break with those of a distributed one."""
    return [(x, y, match, same) for x, y, match, same in place.scene.rows(_PAIRS, place.seq, dist)]


def unmatched(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """Sequential operands of which no distributed one holds anything, and the other way round."""
    mine = {x for x, *_ in pairs} - {x for x, _, match, _ in pairs if match}
    theirs = {y for _, y, *_ in pairs} - {y for _, y, match, _ in pairs if match}
    return sorted(mine), sorted(theirs)


def operands_of(scene: Scene, dists: Sequence[str]) -> list[str]:
    """What these distributed tensors are computed from."""
    return [needs for (needs,) in scene.rows(_NEEDS, list(dists))]


def breaks(scene: Scene) -> Iterator[Break]:
    """The sequential tensors at which chains break first."""
    for seq, opaque, detail in scene.rows(_FIRST):
        yield Break(scene, seq, scene.rows(_BLOCKED, seq), opaque, detail)


_FIRST = """
    SELECT DISTINCT c.tensor, o.reason, o.detail
    FROM seq_break c LEFT JOIN tensor_opaque o ON o.side = 'seq' AND o.tensor = c.tensor
    ORDER BY ALL"""

_BLOCKED = "SELECT reason, dist, operand FROM blocked WHERE seq = ? ORDER BY ALL"

_COMPUTED = "SELECT 1 FROM tensor_needs WHERE side = 'seq' AND tensor = ? LIMIT 1"

_BROKEN = """
    SELECT DISTINCT dist FROM chain_break
    WHERE dist IS NOT NULL AND NOT helper AND wants IN (SELECT wants FROM chain_break WHERE seq = ?)
    ORDER BY dist"""

_RETURNED = """
    SELECT DISTINCT "of" FROM returned
    WHERE wants IN (SELECT wants FROM chain_break WHERE seq = ?) ORDER BY ALL"""

_NEEDS = """
    SELECT DISTINCT needs FROM tensor_needs WHERE side = 'dist' AND tensor IN (SELECT unnest(?))
    ORDER BY needs"""

_PAIRS = """
    SELECT x."of", y."of",
           EXISTS (SELECT 1 FROM holds h WHERE h.seq = x."of" AND h.dist = y."of"),
           x.place = y.place
    FROM result_of s JOIN result_of d ON d.gives = $2
    JOIN operand_of x ON x."by" = s."by" JOIN operand_of y ON y."by" = d."by"
    WHERE s.gives = $1 ORDER BY x.place, y.place"""
