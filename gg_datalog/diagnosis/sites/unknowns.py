"""What no rule describes: nodes that the report lists, and those that stand in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gg_datalog.diagnosis.scene import Scene


@dataclass(frozen=True)
class Obstacle:
    """What a break goes back to: ``subject`` is not described for ``reason``, as ``detail`` says;
    ``where`` is what a finding about it says besides."""

    reason: str
    subject: str
    detail: str
    where: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The sentence about it."""
        return f"{self.subject} stands in the way: {self.detail}"


@dataclass(frozen=True)
class Unknown:
    """Nodes that a relation lists under one subject and reason: a sequential one, and those of the
    ranks."""

    subject: str
    reason: str
    seq: str | None
    dist: tuple[str, ...]


def unknowns(scene: Scene, relation: str, column: str) -> Iterator[Unknown]:
    """The nodes of a relation (``unsupported_operator``, ``opaque_input``) by what ``column`` says
    of them."""
    sql = f"""
        SELECT {column}, reason, min(node) FILTER (side = 'seq'),
               list_sort(list('r' || rank || '.' || node) FILTER (side = 'dist'))
        FROM {relation} GROUP BY {column}, reason ORDER BY {column}, reason"""
    for subject, reason, seq, dist in scene.rows(sql):
        yield Unknown(subject, reason, seq, tuple(dist or ()))
