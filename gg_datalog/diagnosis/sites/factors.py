"""Numbers that multiply: where a factor comes in, and what is counted too often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from gg_datalog.diagnosis.scene import Held, Scene, Thing
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.diagnosis.sites.linearity import linear
from gg_datalog.result.names import ranked
from gg_datalog.result.reasons import Reason
from gg_datalog.result.terms import ONE, Coefficient

STEPS = 100


@dataclass(frozen=True)
class Factor:
    """Nodes ``names`` multiply what ``dist`` has of ``seq``: it is ``times`` of it, not ``right``.
    ``terms`` are what they add up, where they are a reduction over ranks. ``scales``: they do
    nothing but multiply."""

    dist: str
    seq: str
    times: Coefficient
    names: tuple[str, ...]
    target: str
    right: Coefficient = ONE
    terms: tuple[str, ...] = field(default=())
    scales: bool = False


@dataclass(frozen=True)
class Counted:
    """A factor that may come from a reduction over ranks of what several of them have."""

    scene: Scene
    factor: Factor
    outputs: Sequence[str]
    certain: bool = True

    @cached_property
    def summed(self) -> bool:
        """Does a reduction over ranks bring the factor in?"""
        return bool(self.factor.terms) and self.factor.times != ONE

    @property
    def of(self) -> Thing:
        """The sequential tensor of which it is a multiple."""
        return self.scene.seq(self.factor.seq)

    @property
    def times(self) -> str:
        """The factor as a text."""
        return self.factor.times.text

    @cached_property
    def _held(self) -> list[Held]:
        return self.scene.held(self.factor.terms, self.factor.seq)

    @cached_property
    def _whole(self) -> set[str]:
        """The terms that are all of the tensor."""
        return {h.dist for h in self._held if h.plain}

    @property
    def whole(self) -> bool:
        """Is every term all of the tensor?"""
        return self._whole.issuperset(self.factor.terms)

    @property
    def copies(self) -> int:
        """On how many ranks each part of the tensor is; 0 where terms are no parts."""
        terms = self.factor.terms
        parts = Counter(h.parts for d in terms for h in self._held if h.dist == d and not h.whole)
        return 0 if self._whole else min(parts.values(), default=0)

    @property
    def ranks(self) -> list[int]:
        """The ranks that add up."""
        return [ranked(name)[0] for name in self.factor.names]

    @property
    def where(self) -> dict[str, Any]:
        """What every finding about it says."""
        return {
            "seq": self.of.node,
            "dist": self.factor.names,
            "expected": self.of.node,
            "found": f"{self.times} x {self.of.node}",
            "effect": f"everything behind it is computed from {self.times} times `{self.of.node}`",
            "outputs": tuple(self.outputs),
            "certain": self.certain,
        }


@dataclass(frozen=True)
class Multiplied:
    """Factors that go into a break: where each of them comes in."""

    place: Break
    factors: Sequence[Factor]
    certain: bool

    @property
    def counted(self) -> Counted:
        """The first of them."""
        return Counted(self.place.scene, self.factors[0], self.place.outputs, self.certain)


def multiplied(place: Break) -> Multiplied | None:
    """What is multiplied at a break, if anything."""
    if not place.at(Reason.COEFFICIENT):
        return None
    scene = place.scene
    factors = [
        factor
        for _, dist, operand in place.blocked
        if dist and (factor := _factor(scene, place.seq, dist, operand))
    ]
    if not factors:
        return None
    # (what a mask leaves of a multiple is one, too, and what is hidden may be what is left)
    plain = not linear(scene, place.dists, [factor.dist for factor in factors])
    certain = plain and not scene.fades
    return Multiplied(place, factors, certain)


def returned_factor(scene: Scene, wants: int, seq: str) -> Factor | None:
    """Where the factor comes from with which an output comes back."""
    sql = 'SELECT DISTINCT r."of", r.times FROM returned r WHERE wants = ? ORDER BY ALL'
    for dist, times in scene.rows(sql, wants):
        viewed = _viewed(scene, dist, times)
        if viewed is not None:
            terms = _again(scene, dist, viewed.target)
            scales = viewed.scales and not terms
            return Factor(dist, seq, viewed.times, viewed.names, viewed.target, ONE, terms, scales)
        held = _multiplied(scene, dist)
        if held is not None:
            return _traced(scene, held)
    return None


# ---- where it comes from ---------------------------------------------------------------------
def _factor(scene: Scene, seq: str, dist: str, operand: str | None) -> Factor | None:
    """The factor that makes the distributed tensor another than sequential one ``seq``."""
    for mine, theirs, of, value, right in scene.rows(_OPERANDS, seq, dist):
        viewed = _viewed(scene, of, value)
        if viewed is not None and theirs:
            terms, right = _again(scene, of, viewed.target), _coefficient(scene, right)
            return Factor(of, mine, viewed.times, viewed.names, viewed.target, right, terms)
    held = _multiplied(scene, operand or dist)
    return None if held is None else _traced(scene, held)


def _again(scene: Scene, dist: str, target: str) -> tuple[str, ...]:
    """A tensor that a reduction multiplies has been the same on all ranks before it."""
    reduced = scene.kinds.get(dist) and "reduce" in target and scene.sums.get(dist)
    return (dist,) if reduced else ()


class Viewed(NamedTuple):
    """Nodes that are ``times`` times a tensor; ``scales``: they do nothing but multiply it."""

    names: tuple[str, ...]
    target: str
    times: Coefficient
    scales: bool


def _viewed(scene: Scene, dist: str, times: str) -> Viewed | None:
    """The first nodes that are ``times`` times a tensor."""
    if times == "1":
        return None
    found = scene.rows(_VIEWED, dist, times)
    if not found:
        return None
    first = found[0]
    names = tuple(f"r{rank}.{name}" for name, rank, *_ in found if name == first[0])
    return Viewed(names, first[2], _coefficient(scene, times), not first[3])


def _coefficient(scene: Scene, scale: str) -> Coefficient:
    found = scene.rows("SELECT num, den, over, under FROM scale_of WHERE id = ?", scale)
    return Coefficient(*found[0]) if found else ONE


def _multiplied(scene: Scene, dist: str) -> Held | None:
    """What a tensor holds with another coefficient than 1, where that is all that it holds."""
    held = scene.held([dist])
    if not held or any(h.once for h in held):
        return None
    return min(held, key=lambda h: not h.whole)


def _traced(scene: Scene, held: Held) -> Factor:
    """Back to where the coefficient comes in."""
    for _ in range(STEPS):
        needs = scene.rows(_NEEDS, held.dist)
        before = [h for (n,) in needs if (h := _multiplied(scene, n))]
        if not before or held.dist in scene.sums:
            break
        held = before[0]
    (thing,) = scene.things("dist", [held.dist])
    terms = tuple(scene.sums.get(held.dist, ()))
    names, target, scales = tuple(thing.names), thing.target, False
    for of, value in scene.rows(_SCALED, held.dist):
        viewed = _viewed(scene, of, value)
        if viewed is not None:
            names, target, scales = viewed.names, viewed.target, viewed.scales
    times = scene.coefficient(held)
    return Factor(held.dist, held.seq, times, names, target, ONE, terms, scales)


_NEEDS = """
    SELECT DISTINCT needs FROM tensor_needs WHERE side = 'dist' AND tensor = ? ORDER BY needs"""

_OPERANDS = """
    SELECT x."of", EXISTS (SELECT 1 FROM holds h WHERE h.seq = x."of" AND h.dist = y."of"),
           y."of", y.times, x.times
    FROM result_of s JOIN result_of d ON s.gives = ? AND d.gives = ?
    JOIN operand_of x ON x."by" = s."by" JOIN operand_of y ON y."by" = d."by" AND y.place = x.place
    WHERE x.times <> y.times ORDER BY x.place"""

_VIEWED = """
    SELECT n.name, n.rank, n.target,
           EXISTS (SELECT 1 FROM base_tensor b
                   WHERE b.side = 'dist' AND b.tensor = n.tensor AND b.node = n.name)
    FROM graph_node n
    WHERE n.side = 'dist' AND n.tensor = ? AND n.times = ? ORDER BY n.position, n.rank"""

_SCALED = """
    SELECT o."of", o.times FROM result_of r JOIN operand_of o ON o."by" = r."by"
    WHERE r.gives = ? AND o.times <> '1' ORDER BY o.place"""
