"""A case in memory, as the JSON documents that docs/format.md describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gg_datalog.extract.case import CaseFiles

Json = dict[str, Any]


@dataclass(repr=False)
class CaseDocuments:
    """The graphs of both sides (``dist`` by rank), and what is known of groups, inputs, outputs.

    None means not known: groups are then all ranks, relations are guessed from names and shapes,
    outputs are paired by position or name. ``about`` says how the graphs were made: ``route``,
    ``assumptions`` (kind and text, for the verdict) and ``warnings``.
    """

    seq: Json
    dist: dict[int, Json]
    groups: Json | None = None
    relations: list[Json] | None = None
    outputs: list[Json] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> CaseFiles:
        """Writes a case folder, which must not hold another case."""
        folder.mkdir(parents=True, exist_ok=True)
        _write_graph(folder / "seq.json", self.seq)
        for rank, graph in self.dist.items():
            _write_graph(folder / f"dist.r{rank}.json", graph)
        found: dict[str, Path] = {}
        for name in ("groups", "relations", "outputs"):
            document = getattr(self, name)
            if document is not None:
                found[name] = folder / f"{name}.json"
                found[name].write_text(_lines(document), encoding="utf-8")
        about = None
        if self.about:
            about = folder / "capture.json"
            about.write_text(json.dumps(self.about, indent=1) + "\n", encoding="utf-8")
        dist = [folder / f"dist.r{rank}.json" for rank in sorted(self.dist)]
        return CaseFiles(
            folder / "seq.json",
            dist,
            groups=found.get("groups"),
            relations=found.get("relations"),
            outputs=found.get("outputs"),
            about=about,
        )


def _write_graph(path: Path, graph: Json) -> None:
    """One node per line, so that two ranks can be compared with diff."""
    head = {key: value for key, value in graph.items() if key != "nodes"}
    text = json.dumps(head, allow_nan=False).rstrip("}")
    path.write_text(f'{text}, "nodes": {_lines(graph["nodes"]).rstrip()}}}\n', encoding="utf-8")


def _lines(document: Any) -> str:
    if not isinstance(document, list):
        return json.dumps(document, indent=1, allow_nan=False) + "\n"
    rows = ",\n".join(json.dumps(row, allow_nan=False) for row in document)
    return f"[\n{rows}\n]\n"
