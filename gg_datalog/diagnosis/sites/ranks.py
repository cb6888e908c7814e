"""A break on single ranks that no break of the sequential chain accounts for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.diagnosis.sites.unknowns import Obstacle
from gg_datalog.result.placement import names_text


@dataclass(frozen=True)
class RankBreak:
    """Distributed tensors ``dists``, which come closest to sequential tensor ``seq`` (node
    ``near``) but for ``reason``, by ``operands``. ``opaque`` and ``detail`` say why no rule
    describes them, where that is so."""

    scene: Scene
    dists: Sequence[str]
    seq: str | None
    near: str | None
    opaque: str | None
    detail: str | None
    reason: str | None
    operands: Sequence[str]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The nodes of the ranks."""
        return tuple(self.scene.names(self.dists))

    @property
    def target(self) -> str:
        """The operator of the ranks."""
        return self.scene.things("dist", self.dists)[0].target

    @property
    def told(self) -> str:
        """The nodes as a text."""
        return names_text(self.names)

    @cached_property
    def where(self) -> dict[str, Any]:
        """What every finding about it says."""
        wants = [number for (number,) in self.scene.rows(_WANTS, list(self.dists))]
        outputs = tuple(dict.fromkeys(self.scene.outputs[number] for number in wants))
        return {"seq": self.near, "dist": self.names, "outputs": outputs}

    @property
    def obstacle(self) -> Obstacle | None:
        """The tensors, where no rule describes them."""
        if self.opaque is None:
            return None
        return Obstacle(self.opaque, self.told, self.detail or "", self.where)

    @property
    def place(self) -> Break:
        """The break at the sequential tensor that comes closest."""
        operand = self.operands[0] if self.operands else None
        blocked = [(self.reason or "", dist, operand) for dist in self.dists]
        return Break(self.scene, self.seq or "", blocked)


def rank_breaks(scene: Scene) -> Iterator[RankBreak]:
    """All of them, with the sequential operators that come closest."""
    for row in scene.rows(_BREAKS):
        yield RankBreak(scene, *row)


_WANTS = "SELECT DISTINCT wants FROM chain_break WHERE dist IN (SELECT unnest(?)) ORDER BY wants"

_BREAKS = """
    WITH broken AS (
        SELECT DISTINCT b.dist, b.seq FROM chain_break b
        WHERE b.rank IS NOT NULL AND b.telling
          AND coalesce(b.seq NOT IN (SELECT tensor FROM seq_break), true)
    )
    SELECT list(DISTINCT b.dist ORDER BY b.dist), b.seq, s.node, o.reason, o.detail, k.reason,
           coalesce(list(DISTINCT k.operand ORDER BY k.operand)
                    FILTER (k.operand IS NOT NULL), [])
    FROM broken b
    LEFT JOIN tensor_node s ON s.side = 'seq' AND s.tensor = b.seq
    LEFT JOIN tensor_opaque o ON o.side = 'dist' AND o.tensor = b.dist
    LEFT JOIN blocked k ON k.seq = b.seq AND k.dist = b.dist
    GROUP BY b.seq, s.node, o.reason, o.detail, k.reason
    ORDER BY s.node, o.detail, k.reason, b.seq"""
