"""Outputs that are computed, and come back in a form that is not right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gg_datalog.diagnosis.scene import Held, Scene
from gg_datalog.diagnosis.sites.factors import Counted, Factor, returned_factor
from gg_datalog.result.placement import names_text
from gg_datalog.result.reasons import Returned


@dataclass(frozen=True)
class Output:
    """Output number ``wants`` of sequential node ``seq``, which the program calls ``name``; where
    the case says what it is, that is its ``kind``. Tensors ``dist`` come back for it in the form
    ``state`` (see ``returned_state``), ``times`` of it. ``broken``: its chain breaks;
    ``all_right``: every rank returns it, or a whole share of it."""

    scene: Scene
    wants: int
    seq: str
    name: str
    kind: str | None
    state: str
    times: str
    dist: tuple[str, ...]
    broken: bool
    all_right: bool

    @property
    def names(self) -> str:
        """What comes back, as a text."""
        return names_text(self.dist)

    @property
    def where(self) -> dict[str, Any]:
        """What every finding about it says."""
        return {"seq": self.seq, "dist": self.dist, "outputs": (self.seq,)}

    @cached_property
    def base(self) -> str:
        """The sequential base tensor."""
        sql = 'SELECT "of" FROM wanted WHERE wants = ?'
        ((base,),) = self.scene.rows(sql, self.wants)
        return str(base)

    @cached_property
    def held(self) -> list[Held]:
        """What the ranks return of it."""
        sql = 'SELECT DISTINCT "of" FROM returned WHERE wants = ?'
        dists = [d for (d,) in self.scene.rows(sql, self.wants)]
        return self.scene.held(dists, self.base)

    @property
    def told(self) -> str:
        """The output as the program calls it."""
        return self.name or self.seq

    @cached_property
    def factor(self) -> Factor | None:
        """What brings in the factor with which it comes back, where that is known."""
        return returned_factor(self.scene, self.wants, self.base)

    @property
    def counted(self) -> Counted | None:
        """That factor, as one that may come from a reduction over ranks."""
        return None if self.factor is None else Counted(self.scene, self.factor, [self.seq])

    @property
    def shares(self) -> tuple[Any, ...]:
        """Which shares of a reduction come back on which ranks."""
        things = {t.tensor: t for t in self.scene.things("dist", [h.dist for h in self.held])}
        parts = [(things[h.dist].ranks, self.scene.part(h.parts)) for h in self.held]
        return tuple(sorted({(ranks, part.share) for ranks, part in parts if part is not None}))

    @property
    def is_part(self) -> bool:
        """Does a part of a reduction come back?"""
        return self.state == Returned.PART

    @property
    def part(self) -> dict[str, Any]:
        """What findings say of a part that comes back."""
        found = self.relation([h for h in self.held if not h.whole])
        return {
            "trigger": f"nothing adds up {found}"
            if found
            else "no reduction over the ranks follows",
            "expected": self.scene.seq(self.base).node,
            "found": found,
            **self.where,
        }

    def relation(self, held: Sequence[Held]) -> str | None:
        """In words what rows say of it."""
        return self.scene.relation(self.base, held)


def outputs(scene: Scene) -> Iterator[Output]:
    """Outputs that are not rebuilt, by the form in which they come back."""
    for wants, seq, name, kind, state, times, dist, *more in scene.rows(_RETURNED):
        yield Output(scene, wants, seq, name, kind, state, times, tuple(dist), *more)


_RETURNED = """
    SELECT o.wants, o.seq, n.name, k.kind, s.state, s.times, list(s.dist ORDER BY s.rank),
           o.wants IN (SELECT wants FROM chain_break WHERE telling),
           bool_and(s.state = 'right') OVER (PARTITION BY o.wants)
    FROM output_status o JOIN returned_state s USING (wants)
    JOIN output_name n ON n.wants = o.wants LEFT JOIN output_kind k ON k.wants = o.wants
    WHERE o.status <> 'mapped' AND o.wants NOT IN (SELECT wants FROM output_mapped)
    GROUP BY o.wants, o.seq, n.name, k.kind, s.state, s.times ORDER BY o.wants, s.state, s.times"""
