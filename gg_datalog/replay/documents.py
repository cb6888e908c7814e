"""The files of a case as plain JSON, for programs that are to be changed or executed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from gg_datalog.extract.case import CaseFiles
from gg_datalog.extract.case import load_case as checked_case
from gg_datalog.extract.graph import read_json
from gg_datalog.extract.relations import Row, input_rows

Json = dict[str, Any]


@dataclass(repr=False)
class Documents:
    """A case: graphs (``dist`` by rank), groups, input relations and outputs."""

    seq: Json
    dist: dict[int, Json]
    groups: Json
    relations: list[Json]
    outputs: list[Json]

    def graphs(self) -> list[tuple[str, int, Json]]:
        """All graphs: (side, rank, graph)."""
        return [("seq", 0, self.seq), *(("dist", rank, g) for rank, g in self.dist.items())]

    def write(self, folder: Path) -> CaseFiles:
        """Writes a case folder."""
        folder.mkdir(parents=True, exist_ok=True)
        named: dict[str, Any] = {"seq": self.seq, "groups": self.groups}
        named |= {"relations": self.relations, "outputs": self.outputs}
        named |= {f"dist.r{rank}": graph for rank, graph in self.dist.items()}
        for name, document in named.items():
            (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
        dist = [folder / f"dist.r{rank}.json" for rank in self.dist]
        groups, relations, outputs = (
            folder / f"{n}.json" for n in ("groups", "relations", "outputs")
        )
        return CaseFiles(folder / "seq.json", dist, groups, relations, outputs)


def load(files: CaseFiles) -> Documents:
    """The documents of a case that was found to be sound: guessed relations and outputs are written
    out."""
    case = checked_case(files)
    ranks = list(case.dist)
    graphs = {g.rank: read_json(Path(g.file), "graph") for g in case.dist.values()}
    groups = {"seq": [], "dist": []} if files.groups is None else read_json(files.groups, "groups")
    if files.groups is None:
        groups = _everyone(ranks, [read_json(Path(case.seq.file), "graph")], graphs)
    outputs = [
        {
            "seq": o.seq,
            "dist": {str(r): n for r in ranks if (n := o.dist.get(r, o.dist.get(-1))) is not None},
            "partial": o.partial,
        }
        | ({"kind": o.kind} if o.kind == "gradient" else {})
        for o in case.outputs
    ]
    relations = [_row(r) for r in input_rows(case)]
    seq = read_json(Path(case.seq.file), "graph")
    for node in (n for graph in (seq, *graphs.values()) for n in graph["nodes"]):
        node.setdefault("args", [])
        node.setdefault("kwargs", {})
    return Documents(seq, {r: graphs[r] for r in ranks}, groups, relations, outputs)


def _row(row: Row) -> Json:
    boxes = {
        "seq_box": [list(b) for b in row.seq_box],
        "dist_box": [list(b) for b in row.dist_box],
    }
    found: Json = {"seq": row.seq, "rank": row.rank, "dist": row.dist, **boxes}
    return found | ({"permute": list(row.permute)} if row.permute else {})


def _everyone(ranks: list[int], seq: list[Json], dist: dict[int, Json]) -> Json:
    """Every name that a collective may say, as a group of all ranks."""
    return {
        "seq": [{"ranks": [0], "names": {"0": n}} for n in sorted(_words(seq))],
        "dist": [
            {"ranks": ranks, "names": {str(r): n for r in ranks}}
            for n in sorted(_words(list(dist.values())))
        ],
    }


def _words(graphs: list[Json]) -> set[str]:
    found = set()
    for graph in graphs:
        for node in graph["nodes"]:
            given = [*node.get("args", []), *node.get("kwargs", {}).values()]
            found |= {a for a in given if isinstance(a, str)}
    return found


def nodes_of(graph: Json) -> dict[str, Json]:
    """Nodes by name."""
    return {node["name"]: node for node in graph["nodes"]}


def layouts(case: Documents, ranks: list[int]) -> list[tuple[int, tuple[tuple[int, ...], ...]]]:
    """The orders in which inputs are cut along one dimension, where it is not that of the ranks:
    the extent, and which positions each rank has, in the order of what it holds."""
    shapes = {name: node.get("shape") for name, node in nodes_of(case.seq).items()}
    found: dict[tuple[int, tuple[tuple[int, ...], ...]], None] = {}
    for name in dict.fromkeys(row["seq"] for row in case.relations):
        mine = [r for r in case.relations if r["seq"] == name and "permute" not in r]
        for dim, extent in enumerate(shapes.get(name) or ()):
            runs = [
                sorted((r["dist_box"][dim], r["seq_box"][dim]) for r in mine if r["rank"] == rank)
                for rank in ranks
            ]
            held = tuple(tuple(i for _, (lo, hi) in run for i in range(lo, hi)) for run in runs)
            if any(len(set(at)) < len(at) for at in held):
                continue  # the rows cut another dimension
            if any(list(at) != sorted(at) or _gaps(at) for at in held):
                found[extent, held] = None
    return list(found)


def padding(
    shape: Sequence[int], whole: Sequence[int], rows: Sequence[Json]
) -> tuple[int, int] | None:
    """(dimension, position) from where on an input of a rank has padding: the rows say that it is
    the end of a sequential tensor before. None where they leave out something else, or nothing."""
    rows = [row for row in rows if "permute" not in row]
    boxes = {tuple(map(tuple, row["dist_box"])) for row in rows}
    names = {row["seq"] for row in rows}
    for dim, extent in enumerate(shape if len(names) == 1 and len(shape) == len(whole) else ()):
        first, last = max((row["dist_box"][dim][1], row["seq_box"][dim][1]) for row in rows)
        held = sum(prod(hi - lo for lo, hi in box) for box in boxes)
        inside = prod(first if k == dim else e for k, e in enumerate(shape))
        if first < extent and last == whole[dim] and held == inside:
            return dim, first
    return None


def _gaps(at: tuple[int, ...]) -> bool:
    return bool(at) and at[-1] - at[0] + 1 != len(at)
