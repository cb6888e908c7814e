"""Random draws of several ranks for one sequential draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.placement import names_text

MANY = 6


@dataclass(frozen=True)
class Draws:
    """The draws ``dist`` of the ranks for sequential draw ``seq``, with these ``seeds``."""

    seq: str
    dist: tuple[str, ...]
    seeds: tuple[str, ...]

    @property
    def names(self) -> str:
        """The draws as a text."""
        return names_text(self.dist)

    @property
    def given(self) -> str:
        """The seeds as a text."""
        return f"{'seed' if len(self.seeds) == 1 else 'seeds'} {', '.join(self.seeds[:MANY])}"


def draws(scene: Scene, relation: str) -> Iterator[Draws]:
    """The draws in a relation of pairs, ``draw_repeated`` or ``draw_unequal``."""
    for seq, dist, streams in scene.rows(_DRAWS.format(relation=relation)):
        seeds = dict.fromkeys(stream.partition(":")[0] for stream in streams)
        yield Draws(seq, tuple(dist), tuple(seeds))


_DRAWS = """
    SELECT d.seq, list(DISTINCT d.a ORDER BY d.a), list(DISTINCT f.stream ORDER BY f.stream)
    FROM {relation} d JOIN result_of r ON r.gives = d.a JOIN drawn_as f ON f."by" = r."by"
    JOIN result_of s ON s.gives = d.seq
    WHERE (s."by", s.place) IN (
        SELECT ("by", min(place)) FROM result_of
        WHERE gives IN (SELECT seq FROM {relation}) GROUP BY "by"
    )
    GROUP BY d.seq ORDER BY d.seq"""
