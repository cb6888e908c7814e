"""The outputs as they are judged, with the relations by which they are rebuilt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.expression import Relation
from gg_datalog.result.report import OutputRow


@dataclass(frozen=True)
class Rebuilt:
    """By number: the outputs, how the ranks' tensors make them up, and the nodes that the ranks
    return for them."""

    scene: Scene
    outputs: Mapping[int, OutputRow]
    relations: Mapping[int, Relation]
    returned: Mapping[int, Sequence[str]]

    def told(self, wants: int) -> str:
        """How the ranks' tensors make up an output, as a text; empty where that is not known."""
        relation = self.relations.get(wants)
        return "" if relation is None else relation.text
