"""Findings about reductions that are never completed: missing, over other ranks, too late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gg_datalog.diagnosis.causes import finding
from gg_datalog.diagnosis.scene import Held, Part, Scene, Thing
from gg_datalog.result.findings import Kind
from gg_datalog.result.placement import names_text, numbers_text, ranks_text, some, span, spans_text
from gg_datalog.result.report import Finding
from gg_datalog.result.terms import parse_record

GRADIENT = ("grad_", "updated_")


@dataclass(frozen=True)
class Open:
    """Sequential tensor ``origin``, of which ``holders`` have parts; ``operands`` are parts that
    ``users`` use as if they were all of it, so that the chains of ``outputs`` break at ``seqs``."""

    origin: str
    seqs: tuple[str, ...]
    users: tuple[str, ...]
    operands: tuple[str, ...]
    holders: tuple[str, ...]
    outputs: tuple[str, ...]
    names: tuple[str, ...]


def open_causes(scene: Scene) -> Iterator[Finding]:
    """Reductions that are never completed, the one that most outputs wait for first."""
    holders: dict[str, tuple[str, ...]] = {
        origin: tuple(dists) for origin, dists in scene.rows(_HOLDERS)
    }
    causes = [
        Open(
            origin,
            tuple(seqs),
            tuple(users),
            tuple(operands),
            holders[origin],
            tuple(dict.fromkeys(scene.outputs[wants] for wants in outputs)),
            tuple(names or ()),
        )
        for origin, seqs, users, operands, outputs, names in scene.rows(_CAUSES)
    ]
    for cause in causes:
        if not _lacking(scene, cause):
            yield _finding(scene, cause)


def _lacking(scene: Scene, cause: Open) -> bool:
    """Is there a reduction some operands of which hold nothing? Then it is these that are wrong."""
    terms = [t for user in cause.users for t in scene.sums.get(user, ())]
    return bool(terms) and {h.dist for h in scene.held(terms)} != set(terms)


def _finding(scene: Scene, cause: Open) -> Finding:
    opened = [d for d in cause.holders if d not in scene.sums] or list(cause.holders)
    rows = scene.finest(scene.held(opened, cause.origin))
    narrow = [d for d in cause.operands if d in scene.sums and _narrow(scene, d)]
    about = _About(scene, cause, rows)
    if narrow:
        return about.wrong_group(narrow)
    if about.gaps():
        return about.wrong_range()
    late = _reduced_later(scene, cause.users)
    return about.too_late(late) if late else about.missing()


def _narrow(scene: Scene, dist: str) -> bool:
    """Has a reduction over ranks added up some parts, and left a wider part of the same sum?"""
    mine = {_open(h) for h in scene.held([dist]) if h.parts != "nil"}
    terms = {_open(h) for h in scene.held(scene.sums[dist]) if h.parts != "nil"}
    return any(a[:2] == b[:2] and a[2] > b[2] for a in mine for b in terms)


def _open(held: Held) -> tuple[str, Any, int]:
    axis, _, _, n, _, inner = parse_record(held.parts)
    return held.seq, (axis, inner), n


def _reduced_later(scene: Scene, users: Sequence[str]) -> list[str]:
    """Reductions over ranks that add up what the users make of the parts, in few steps."""
    seen, reached = set(users), list(users)
    for _ in range(3):
        found = [gives for gives, terms in scene.sums.items() if seen.intersection(terms)]
        if found:
            return found
        reached = [t for (t,) in scene.rows(_ONLY_USERS, reached) if t not in seen]
        seen.update(reached)
    return []


@dataclass(frozen=True)
class _About:
    """The words for one open reduction."""

    scene: Scene
    cause: Open
    rows: Sequence[Held]

    @property
    def origin(self) -> Thing:
        return self.scene.seq(self.cause.origin)

    def _parts(self) -> list[tuple[int, Part]]:
        """The part of each rank, by rank."""
        things = {t.tensor: t for t in self.scene.things("dist", [h.dist for h in self.rows])}
        found = [
            (rank, part)
            for h in self.rows
            if (part := self.scene.part(h.parts)) and h.dist in things
            for rank in things[h.dist].ranks
        ]
        return sorted(found, key=lambda item: item[0])

    def _spans(self) -> list[tuple[int, int]]:
        return list(dict.fromkeys((p.lo, p.hi) for _, p in self._parts()))

    def gaps(self) -> bool:
        """Do the parts overlap without being the same, or leave something out?"""
        ends = sorted(self._spans())
        extent = max((p.extent for _, p in self._parts()), default=0)
        meet = all(a[1] == b[0] for a, b in pairwise(ends))
        return bool(ends) and not (meet and (ends[0][0], ends[-1][1]) == (0, extent))

    def _split(self) -> str:
        """Which rank has which range of the reduced dimension."""
        parts = self._parts()
        if not parts:
            return "the ranks have parts of the reduction"
        along, extent = parts[0][1].along, parts[0][1].extent
        ranks = ranks_text(rank for rank, _ in parts)
        return f"{along} is split: {ranks} have {spans_text(self._spans())} of {extent}"

    def _over(self) -> str:
        """What is split over which ranks."""
        parts = self._parts()
        if not parts:
            return "the ranks have parts of a reduction"
        part, ranks = parts[0][1], ranks_text(self._all_ranks())
        return f"{part.along} ({part.extent}) is split over {ranks}"

    def _all_ranks(self) -> list[int]:
        return sorted({rank for rank, _ in self._parts()})

    def _where(self, dists: Sequence[str], found: Sequence[Held], **more: Any) -> dict[str, Any]:
        ranks = self._all_ranks()
        return {
            "seq": self.origin.node,
            "dist": tuple(self.scene.names(dists)),
            "expected": self.scene.wanted(self.cause.origin, ranks),
            "found": self.scene.relation(self.cause.origin, found),
            "outputs": self.cause.outputs,
            **more,
        }

    def _holders(self) -> list[str]:
        return [h.dist for h in self.rows] or list(self.cause.holders)

    def _named(self, dists: Sequence[str]) -> str:
        return names_text(self.scene.names(dists))

    def _users(self) -> str:
        """What uses the parts; the ranks go without saying where they are those of the parts."""
        names = self.scene.names(self.cause.users)
        if not self._everywhere():
            return names_text(names)
        return some(list(dict.fromkeys(f"`{name.partition('.')[2]}`" for name in names)))

    def _everywhere(self) -> bool:
        """Are the ranks that use the parts those that have them?"""
        users = self.scene.things("dist", self.cause.users)
        return {rank for thing in users for rank in thing.ranks} == set(self._all_ranks())

    def missing(self) -> Finding:
        """No reduction at all."""
        holders, users = self._holders(), self._users()
        kind, open_still = Kind.PART_USED, self._may_be_completed()
        part = f"each rank has only its part of `{self.origin.node}` ({self.origin.target})"
        text = (
            f"{self._named(holders)}: {part}, but it goes into {users} as if it were all of it: "
            "the reduction over the ranks is missing"
        )
        if open_still:
            text = (
                f"{self._named(holders)}: {part}, and it goes into {users} before anything adds "
                "the parts up: no rule shows that this is made good later on"
            )
        gradient = bool(self.cause.names) and all(n.startswith(GRADIENT) for n in self.cause.names)
        if gradient and self._data_parallel():
            kind = Kind.GRADIENT
            text = (
                f"gradient {self._named(holders)} goes into {users} without being added up over "
                f"the ranks: each rank has only what its own share gives to `{self.origin.node}`"
            )
        trigger = f"{self._over()}, and nothing adds the parts up before {users}"
        effect = f"every rank computes {users} from its own part of the sum"
        where = self._where(holders, self.rows, trigger=trigger, effect=effect)
        return finding(kind, text, certain=not open_still, **where)

    def _may_be_completed(self) -> bool:
        """Can what is made of the parts still be the same as what is made of their sum? A number
        by which others are scaled (a count, a loss, a norm) may be made good by a factor later on,
        what is linear may be added up later on, sums of exponentials may be merged by their
        logarithms, and an output may be a part itself."""
        return (
            all(extent == 1 for extent in self.origin.shape)
            or bool(self.scene.rows(_MERGEABLE, self.cause.origin, list(self.cause.users)))
            or bool(self.scene.rows(_PARTIAL, list(self.cause.outputs)))
            or all(self._goes_on(user) for user in self.cause.users)
        )

    def _goes_on(self, user: str) -> bool:
        """Is it linear, or a sum of several parts? A sum of a part and of what every rank has whole
        is none, nor one of the same part of several ranks."""
        terms = [term for (term,) in self.scene.rows(_TERMS, user)]
        if not terms:
            return linear(self.scene, [user], self.cause.operands)
        held = [h for h in self.scene.held(terms) if h.parts != "nil"]
        added = {rank for thing in self.scene.things("dist", terms) for rank in thing.ranks}
        parts = {(h.parts if len(added) > 1 else h.dist) for h in held}
        return len(parts) > 1 or not self._everywhere()

    def _data_parallel(self) -> bool:
        """Is what is reduced over no dimension of a parameter, and for few outputs only?"""
        updates = [n for n in self.cause.names if n.startswith(GRADIENT)]
        return len(updates) == 1

    def wrong_group(self, narrow: Sequence[str]) -> Finding:
        """A reduction over fewer ranks than have parts."""
        groups = [
            sorted({r for t in self.scene.things("dist", self.scene.sums[d]) for r in t.ranks})
            for d in narrow
        ]
        over = some(list(dict.fromkeys(numbers_text(g) for g in groups)))
        text = (
            f"{self._named(narrow)} adds up `{self.origin.node}` over the wrong group of ranks "
            f"({over}): its parts lie on {ranks_text(self._all_ranks())}, so the result is still "
            "only a part"
        )
        trigger = f"{self._split()}; the group has only ranks {over}"
        effect = f"{self._users()} is computed from a part of the sum"
        found = [h for h in self.scene.held(narrow, self.cause.origin) if h.parts != "nil"]
        where = self._where(narrow, self.scene.finest(found), trigger=trigger, effect=effect)
        certain = not _reduced_later(self.scene, narrow)
        return finding(Kind.WRONG_GROUP, text, certain=certain, **where)

    def wrong_range(self) -> Finding:
        """Parts that overlap or leave something out."""
        parts = self._parts()
        along, extent = parts[0][1].along, parts[0][1].extent
        shown = [f"{span(p.lo, p.hi)} on rank {rank}" for rank, p in parts]
        problem = coverage(self._spans(), extent)
        summed = {term for user in self.cause.users for term in self.scene.sums.get(user, ())}
        certain = bool(summed) and summed <= {h.dist for h in self.rows}
        wrong = "the wrong ranges" if certain else "ranges"
        text = f"{self._named(self._holders())} add up {wrong} of {along}: {some(shown)}: {problem}"
        text += "" if certain else ", as far as rules show"
        effect = f"`{self.origin.node}` is never added up completely"
        trigger = f"ranges of {along} ({extent}) on the ranks: {some(shown)}"
        where = self._where(self._holders(), self.rows, trigger=trigger, effect=effect)
        return finding(Kind.WRONG_RANGE, text, certain=certain, **where)

    def too_late(self, late: Sequence[str]) -> Finding:
        """An operator before the reduction. Of parts that are not added up, such as those of a
        maximum, it may give the same; of parts that are 0 but on one rank, too."""
        added = all(part.kind == "sum" and not part.lookup for _, part in self._parts())
        if not added or linear(self.scene, self.cause.users, self.cause.operands):
            return self._early(late)
        users = self.scene.things("dist", self.cause.users)
        target = users[0].target if users else "an operator"
        text = (
            f"{self._named(self.cause.users)} ({target}) is applied to the parts of "
            f"`{self.origin.node}` before {self._named(late)} adds them up: it is not linear, so "
            "this is not the same as reducing first"
        )
        trigger = f"{self._split()}; {target} of a sum is not the sum of {target}"
        effect = f"{self._named(late)} adds up results of parts, which is another number"
        holders = self._holders()
        where = self._where(holders, self.rows, trigger=trigger, effect=effect)
        return finding(Kind.NOT_LINEAR, text, **where)

    def _early(self, late: Sequence[str]) -> Finding:
        """An operator before the reduction of which no rule says what comes of it."""
        users, adds = self._named(self.cause.users), self._named(late)
        text = (
            f"{self._named(self._holders())}: each rank has only its part of `{self.origin.node}` "
            f"({self.origin.target}); it goes into {users} before {adds} reduces, and no rule "
            "shows that this is the same as reducing first"
        )
        trigger = f"{self._split()}; {adds} reduces what {users} makes of the parts"
        where = self._where(self._holders(), self.rows, trigger=trigger)
        return finding(Kind.PART_USED, text, certain=False, **where)


def coverage(spans: Sequence[tuple[int, int]], extent: int) -> str:
    """What ranges leave out of [0, extent), and what they have twice."""
    twice, missing, at = [], [], 0
    for lo, hi in sorted(set(spans)):
        if lo > at:
            missing.append((at, lo))
        if lo < at:
            twice.append((lo, min(at, hi)))
        at = max(at, hi)
    if at < extent:
        missing.append((at, extent))
    texts = [f"{spans_text(missing)} of {extent} is missing"] if missing else []
    texts += [f"{spans_text(twice)} is there twice"] if twice else []
    return " and ".join(texts)


def linear(scene: Scene, users: Sequence[str], operands: Sequence[str]) -> bool:
    """Are all of these operators linear in what they take of these operands?"""
    return not scene.rows(_NOT_LINEAR, list(users), list(operands))


_HOLDERS = """
    SELECT origin, list(DISTINCT dist ORDER BY dist) FROM open_origin WHERE seq = origin
    GROUP BY origin"""

_CAUSES = """
    SELECT c.origin, list(DISTINCT c.seq ORDER BY c.seq),
           list(DISTINCT c.used_by ORDER BY c.used_by),
           list(DISTINCT coalesce(b.operand, b.dist) ORDER BY coalesce(b.operand, b.dist)),
           list(DISTINCT n.wants ORDER BY n.wants), list(DISTINCT n.name) FILTER (n.name <> '')
    FROM open_cause c
    JOIN blocked b ON b.seq = c.seq AND b.dist = c.used_by
    JOIN output_name n ON n.wants = c.wants
    GROUP BY c.origin ORDER BY count(DISTINCT n.seq) DESC, c.origin"""

_TERMS = """
    SELECT t."of" FROM dist_sum s JOIN term_of t ON t."by" = s."by"
    WHERE s.gives = ? ORDER BY ALL"""

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

# Operators that take some of these operands, and are not linear in them; those that only put
# elements elsewhere are linear in all of their operands together.
_MOVES = (
    r"^(aten\.)?(cat|stack|index|gather|scatter|select|constant_pad|roll|flip|as_strided|slice|"
    r"where|masked_|embedding|triu|tril|diag|unfold|col2im|im2col)"
)
_NOT_LINEAR = f"""
    SELECT r.gives FROM result_of r JOIN dist_operator d ON d."by" = r."by"
    JOIN operand_of o ON o."by" = r."by"
    WHERE r.gives IN (SELECT unnest(?)) AND o."of" IN (SELECT unnest(?))
      AND NOT EXISTS (
          SELECT 1 FROM linear_in l WHERE l.signed = d.signed AND l.place = o.place
      )
      AND NOT EXISTS (SELECT 1 FROM tensor_opaque u WHERE u.side = 'dist' AND u.tensor = r.gives)
      AND NOT regexp_matches(d.signed, '{_MOVES}')
    LIMIT 1"""
