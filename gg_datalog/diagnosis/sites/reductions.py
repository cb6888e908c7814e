"""Reductions that are never completed: a tensor of which ranks have parts that are used as all of
it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gg_datalog.diagnosis.scene import Held, Part, Scene, Thing
from gg_datalog.diagnosis.sites.linearity import linear
from gg_datalog.diagnosis.sites.ranges import Range, complete
from gg_datalog.result.names import ranked
from gg_datalog.result.placement import names_text, ranks_text, some, spans_text


@dataclass(frozen=True)
class Reduction:
    """Sequential tensor ``origin``, of which ``holders`` have parts; ``operands`` are parts that
    ``users`` use as if they were all of it, so that the chains of ``outputs`` break (numbered
    ``wants``)."""

    scene: Scene
    origin: str
    users: tuple[str, ...]
    operands: tuple[str, ...]
    holders: tuple[str, ...]
    wants: tuple[int, ...]

    @cached_property
    def of(self) -> Thing:
        """The tensor that is reduced."""
        return self.scene.seq(self.origin)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that wait for it."""
        return tuple(dict.fromkeys(self.scene.outputs[wants] for wants in self.wants))

    # ---- the parts -----------------------------------------------------------------------------
    @cached_property
    def rows(self) -> list[Held]:
        """The parts that are not reduced yet, as finely as they are known."""
        sums = self.scene.sums
        opened = [d for d in self.holders if d not in sums] or list(self.holders)
        inside = {of for (of,) in self.scene.rows(_ACCUMULATED, opened)}
        whole = [d for d in opened if d not in inside] or opened
        return self.scene.finest(self.scene.held(whole, self.origin))

    @cached_property
    def parts(self) -> list[tuple[int, Part]]:
        """The part of each rank, by rank."""
        things = {t.tensor: t for t in self.scene.things("dist", [h.dist for h in self.rows])}
        found = [
            (rank, part)
            for h in self.rows
            if (part := self.scene.part(h.parts)) and h.dist in things
            for rank in things[h.dist].ranks
        ]
        return sorted(found, key=lambda item: item[0])

    @property
    def shares(self) -> tuple[Any, ...]:
        """Which shares of the reduction are on which ranks."""
        return tuple(sorted({(rank, part.share) for rank, part in self.parts}))

    @property
    def spans(self) -> list[Range]:
        """The ranges of the reduced dimension that ranks have."""
        return list(dict.fromkeys((p.lo, p.hi) for _, p in self.parts))

    @property
    def ranks(self) -> list[int]:
        """The ranks that have parts."""
        return sorted({rank for rank, _ in self.parts})

    @property
    def gaps(self) -> bool:
        """Do the parts overlap without being the same, or leave something out?"""
        ends = sorted(self.spans)
        extent = max((p.extent for _, p in self.parts), default=0)
        return bool(ends) and not complete(ends, extent)

    @cached_property
    def narrow(self) -> list[str]:
        """Operands that a reduction over ranks has left as parts."""
        return [d for d in self.operands if d in self.scene.sums and self._is_narrow(d)]

    def _is_narrow(self, dist: str) -> bool:
        """Has a reduction over ranks added up some parts, and left a wider part of the sum?"""
        scene = self.scene
        mine, terms = set(self._open([dist])), set(self._open(scene.sums[dist]))
        return any(a[:2] == b[:2] and a[2] > b[2] for a in mine for b in terms)

    def _open(self, dists: Sequence[str]) -> Iterator[tuple[str, Any, int]]:
        """Of the parts that these hold: of what, along which axes, how much of the outermost."""
        for held in self.scene.held(dists):
            if not held.whole:
                outer, *inner = self.scene.records.parts(held.parts)
                yield held.seq, (outer.along, tuple(inner)), outer.n

    # ---- what becomes of them --------------------------------------------------------------------
    @cached_property
    def late(self) -> list[str]:
        """Reductions over ranks that add up what the users make of the parts."""
        return self.reduced_later(self.users)

    def reduced_later(self, users: Sequence[str]) -> list[str]:
        """Reductions over ranks that add up what comes of these tensors, in few steps."""
        seen, reached = set(users), list(users)
        for _ in range(3):
            sums = self.scene.sums.items()
            found = [gives for gives, terms in sums if seen.intersection(terms)]
            if found:
                return found
            reached = [t for (t,) in self.scene.rows(_ONLY_USERS, reached) if t not in seen]
            seen.update(reached)
        return []

    @cached_property
    def unused(self) -> tuple[str, ...]:
        """Reductions over the ranks of these very parts of which nobody uses what they give."""
        return tuple(name for (name,) in self.scene.rows(_UNUSED, self.opened))

    @cached_property
    def everywhere(self) -> bool:
        """Are the ranks that use the parts those that have them?"""
        users = self.scene.things("dist", self.users)
        return {rank for thing in users for rank in thing.ranks} == set(self.ranks)

    @property
    def early(self) -> bool:
        """Do operators that are not linear take the parts? Of parts that are not added up, such as
        those of a maximum, they may give the same; of parts that are 0 but on one rank, too."""
        added = all(part.kind == "sum" and not part.lookup for _, part in self.parts)
        return added and not linear(self.scene, self.users, self.operands)

    @cached_property
    def may_be_completed(self) -> bool:
        """Can what is made of the parts still be the same as what is made of their sum? A number
        by which others are scaled (a count, a loss, a norm) may be made good by a factor later on,
        what is linear may be added up later on, sums of exponentials may be merged by their
        logarithms, and an output may be a part itself; where a mask hides some of what is reduced,
        the part may be all there is, and by what exponentials are shifted they may be divided."""
        return (
            bool(self.scene.rows(_HIDDEN, self.origin))
            or all(extent == 1 for extent in self.of.shape)
            or bool(self.scene.rows(_MERGEABLE, self.origin, list(self.users)))
            or self.only_shifts
            or bool(self.scene.rows(_PARTIAL, list(self.outputs)))
            or all(self._goes_on(user) for user in self.users)
        )

    @cached_property
    def only_shifts(self) -> bool:
        """Is it a maximum of which nothing comes but what is added before exponentials?"""
        users = list(self.users)
        shifts = self.scene.rows(_SHIFTS, self.origin, users)
        return bool(users) and {of for (of,) in shifts} == set(users)

    def _goes_on(self, user: str) -> bool:
        """Is it linear, or a sum of several parts? A sum of a part and of what every rank has whole
        is none, nor one of the same part of several ranks."""
        terms = [term for (term,) in self.scene.rows(_TERMS, user)]
        if not terms:
            return linear(self.scene, [user], self.operands)
        held = [h for h in self._left_open(terms) if not h.whole]
        added = {r for t in self.scene.things("dist", [h.dist for h in held]) for r in t.ranks}
        parts = {(h.parts if len(added) > 1 else h.dist) for h in held}
        return len(parts) > 1 or not self.everywhere

    def _left_open(self, terms: Sequence[str]) -> Iterator[Held]:
        """What the terms of a sum hold; parts of another tensor that are all there add up to it, as
        those of a residual do that was reduced before."""
        by_tensor: dict[str, list[Held]] = {}
        for held in self.scene.held(terms):
            by_tensor.setdefault(held.seq, []).append(held)
        for seq, rows in by_tensor.items():
            if seq == self.origin or not self._all_there(rows):
                yield from rows

    def _all_there(self, rows: Sequence[Held]) -> bool:
        """Are these all the parts of one sum, each of them once?"""
        parts = [self.scene.part(h.parts) for h in rows if not h.whole]
        if not parts or not all(part is not None and part.kind == "sum" for part in parts):
            return False
        known = [part for part in parts if part is not None]
        along = {(part.along, part.extent) for part in known}
        spans = sorted((part.lo, part.hi) for part in known)
        return len(along) == 1 and complete(spans, known[0].extent)

    # ---- in words --------------------------------------------------------------------------------
    @property
    def split(self) -> str:
        """Which rank has which range of the reduced dimension."""
        if not self.parts:
            return "the ranks have parts of the reduction"
        along, extent = self.parts[0][1].along, self.parts[0][1].extent
        ranks = ranks_text(rank for rank, _ in self.parts)
        return f"{along} is split: {ranks} have {spans_text(self.spans)} of {extent}"

    @property
    def over(self) -> str:
        """What is split over which ranks."""
        if not self.parts:
            return "the ranks have parts of a reduction"
        part, ranks = self.parts[0][1], ranks_text(self.ranks)
        return f"{part.along} ({part.extent}) is split over {ranks}"

    @property
    def opened(self) -> list[str]:
        """The tensors that are parts and not reduced yet."""
        return [h.dist for h in self.rows] or list(self.holders)

    def named(self, dists: Sequence[str]) -> str:
        """These distributed tensors."""
        return names_text(self.scene.names(dists))

    @property
    def used_by(self) -> str:
        """What uses the parts; the ranks go without saying where they are those of the parts."""
        names = self.scene.names(self.users)
        if not self.everywhere:
            return names_text(names)
        return some(list(dict.fromkeys(f"`{ranked(name)[1]}`" for name in names)))

    def where(self, dists: Sequence[str], found: Sequence[Held], **more: Any) -> dict[str, Any]:
        """What every finding about it says, of these tensors and what they hold."""
        return {
            "seq": self.of.node,
            "dist": tuple(self.scene.names(dists)),
            "expected": self.scene.wanted(self.origin, self.ranks),
            "found": self.scene.relation(self.origin, found),
            "outputs": self.outputs,
            **more,
        }

    @property
    def unreduced(self) -> dict[str, Any]:
        """What findings say where no reduction follows."""
        trigger = f"{self.over}, and nothing adds the parts up before {self.used_by}"
        effect = f"every rank computes {self.used_by} from its own part of the sum"
        return self.where(self.opened, self.rows, trigger=trigger, effect=effect)


def open_reductions(scene: Scene) -> Iterator[Reduction]:
    """Reductions that are never completed, the one that most outputs wait for first."""
    holders = {origin: tuple(dists) for origin, dists in scene.rows(_HOLDERS)}
    for origin, users, operands, wants in scene.rows(_CAUSES):
        found = Reduction(
            scene, origin, tuple(users), tuple(operands), holders[origin], tuple(wants)
        )
        if not _lacking(found) and not _reduced(found):
            yield found


def _lacking(cause: Reduction) -> bool:
    """Is there a reduction some operands of which hold nothing? Then it is these that are wrong."""
    scene = cause.scene
    terms = [t for user in cause.users for t in scene.sums.get(user, ())]
    return bool(terms) and {h.dist for h in scene.held(terms)} != set(terms)


def _reduced(cause: Reduction) -> bool:
    """Do only reductions use the parts, which have all of them? Then something else is wrong."""
    scene = cause.scene
    if not all(user in scene.sums for user in cause.users):
        return False
    kinds = dict(scene.rows(_KINDS, list(cause.users)))
    return all(_completes(cause, scene.sums[user], kinds[user]) for user in cause.users)


def _completes(cause: Reduction, terms: Sequence[str], kind: str) -> bool:
    """Are these all the parts of a reduction of this kind, of the same elements?"""
    held = [h for h in cause.scene.held(terms, cause.origin) if not h.whole]
    parts = [part for h in held if (part := cause.scene.part(h.parts)) is not None]
    spans = sorted({(part.lo, part.hi) for part in parts})
    if {part.kind for part in parts} != {kind}:
        return False
    alike = len({h.block for h in held}) == 1 and {h.dist for h in held} == set(terms)
    return alike and complete(spans, parts[0].extent)


_HOLDERS = """
    SELECT origin, list(DISTINCT dist ORDER BY dist) FROM open_origin WHERE seq = origin
    GROUP BY origin"""

_CAUSES = """
    SELECT c.origin, list(DISTINCT c.used_by ORDER BY c.used_by),
           list(DISTINCT coalesce(b.operand, b.dist) ORDER BY coalesce(b.operand, b.dist)),
           list(DISTINCT n.wants ORDER BY n.wants)
    FROM open_cause c
    JOIN blocked b ON b.seq = c.seq AND b.dist = c.used_by
    JOIN output_name n ON n.wants = c.wants
    GROUP BY c.origin ORDER BY count(DISTINCT n.seq) DESC, c.origin"""

_TERMS = """
    SELECT t."of" FROM dist_sum s JOIN term_of t ON t."by" = s."by"
    WHERE s.gives = ? ORDER BY ALL"""

_KINDS = "SELECT gives, kind FROM dist_sum WHERE gives IN (SELECT unnest(?)) ORDER BY ALL"

# What a rank adds up to wider parts (those of its micro-batches).
_ACCUMULATED = """
    SELECT DISTINCT t."of" FROM dist_sum s JOIN term_of t ON t."by" = s."by"
    WHERE s.gives IN (SELECT unnest($1)) AND t."of" IN (SELECT unnest($1)) AND t."of" <> s.gives"""

_UNUSED = """
    SELECT DISTINCT 'r' || u.rank || '.' || u.node FROM collective_unused u
    JOIN graph_node g ON g.side = 'dist' AND g.rank = u.rank AND g.name = u."of"
    WHERE u.kind LIKE '%reduce%' AND g.tensor IN (SELECT unnest(?)) ORDER BY ALL"""

_PARTIAL = """
    SELECT 1 FROM output_name n JOIN may_be_partial p ON p.wants = n.wants
    WHERE n.seq IN (SELECT unnest(?)) LIMIT 1"""

# What is computed from these tensors and nothing else that is computed.
_ONLY_USERS = """
    SELECT n.tensor FROM tensor_needs n
    JOIN base_tensor b ON b.side = 'dist' AND b.tensor = n.needs
        AND b.kind NOT IN ('input', 'constant')
    WHERE n.side = 'dist' GROUP BY n.tensor
    HAVING bool_or(n.needs IN (SELECT unnest(?))) AND count(DISTINCT n.needs) = 1"""

# A sum of exponentials of which nothing but logarithms is taken, and nothing but divided by it.
_MERGEABLE = """
    SELECT 1 FROM result_of r JOIN seq_operator s ON s."by" = r."by" AND s.signed = 'sum'
    JOIN operand_of o ON o."by" = r."by"
    JOIN result_of e ON e.gives = o."of"
    JOIN seq_operator x ON x."by" = e."by" AND x.signed = 'exp(%)'
    WHERE r.gives = ? AND NOT EXISTS (
        SELECT 1 FROM result_of u JOIN dist_operator d ON d."by" = u."by"
        WHERE u.gives IN (SELECT unnest(?)) AND d.signed NOT IN ('log(%)', 'div'))
    LIMIT 1"""

# A reduction that takes what is left under a mask that compares positions.
_HIDDEN = """
    SELECT 1 FROM result_of r JOIN operand_of o ON o."by" = r."by"
    JOIN result_of e ON e.gives = o."of"
    JOIN operand_half h ON h."by" = e."by"
    WHERE r.gives = ? LIMIT 1"""

# Sums with a maximum of which nothing but exponentials is taken.
_SHIFTS = """
    SELECT DISTINCT s.gives FROM dist_sum s
    WHERE s.kind = 'sum'
      AND EXISTS (
          SELECT 1 FROM result_of r JOIN seq_operator m ON m."by" = r."by" AND m.signed = 'max'
          WHERE r.gives = ?)
      AND s.gives IN (SELECT unnest(?))
      AND s.gives IN (SELECT n.needs FROM tensor_needs n WHERE n.side = 'dist')
      AND s.gives NOT IN (SELECT r."of" FROM returned r)
      AND NOT EXISTS (
          SELECT 1 FROM tensor_needs n
          WHERE n.side = 'dist' AND n.needs = s.gives
            AND n.tensor NOT IN (
                SELECT e.gives FROM result_of e JOIN dist_operator x ON x."by" = e."by"
                WHERE x.signed = 'exp(%)'))"""
