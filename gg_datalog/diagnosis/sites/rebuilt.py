"""The outputs as they are judged, with the relations by which they are rebuilt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.report import OutputRow


@dataclass(frozen=True)
class Rebuilt:
    """By number: the outputs, how the ranks' tensors make them up, and what the ranks return for
    them (node with rank, and the rank)."""

    scene: Scene
    outputs: Mapping[int, OutputRow]
    relations: Mapping[int, str]
    shares: Mapping[int, Mapping[str, int]]
