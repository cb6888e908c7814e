"""Sums that both sides have, but that count some terms differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gg_datalog.diagnosis.scene import Scene, Thing
from gg_datalog.result.reasons import Term


class Weighed(NamedTuple):
    """A term of a sequential sum (base tensor ``base``), how the ranks' sum has it, how often."""

    term: str
    base: str
    state: str
    times: str


@dataclass(frozen=True)
class Uneven:
    """Sums ``dists`` of the ranks that come closest to sequential sum ``tensor``; ``terms`` are
    those that they do not have once each."""

    scene: Scene
    tensor: str
    dists: Sequence[str]
    terms: Sequence[Weighed]

    @property
    def of(self) -> Thing:
        """The sequential sum."""
        return self.scene.seq(self.tensor)

    @property
    def lacks(self) -> bool:
        """Is all that is wrong with it that no rule finds some terms?"""
        return all(one.state == Term.MISSING for one in self.terms)

    def follows(self, explained: set[str]) -> bool:
        """Is all that is wrong with it that these sequential tensors are there only in part?"""
        opened = {one.base for one in self.terms if one.state == Term.OPEN}
        rest = all(one.state in (Term.OPEN, Term.MISSING) for one in self.terms)
        return rest and bool(opened) and opened <= explained


def uneven_sums(scene: Scene) -> Iterator[Uneven]:
    """Sums that the ranks have, too, but with other coefficients or without some terms. A sum that
    has none of the terms as often as it should is another one."""
    for tensor, dists, terms in scene.rows(_SUMS):
        yield Uneven(scene, tensor, dists, [Weighed(*term) for term in terms])


_SUMS = """
    SELECT seq, list(dist ORDER BY dist), any_value(terms)
    FROM (
        SELECT d.seq, s.gives AS dist,
               list((d.term, d.base, d.state, d.times) ORDER BY d.term) AS terms
        FROM sum_difference d JOIN dist_sum s ON s."by" = d.by
        WHERE d.seq IN (SELECT tensor FROM seq_break)
          AND EXISTS (
              SELECT 1 FROM sum_found c JOIN seq_sum q ON q."by" = c.seq
              WHERE c.dist = d.by AND q.gives = d.seq AND c.state = 'complete' AND is_one(c.times))
        GROUP BY d.seq, s.gives
    )
    GROUP BY seq, terms::VARCHAR ORDER BY seq, min(dist)"""
