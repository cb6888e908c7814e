"""A captured pair: the sequential program and every rank of the distributed one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gg_datalog.extract.case import CaseFiles
from gg_datalog.extract.documents import CaseDocuments
from gg_datalog.foundation.folders import replaced_folder, write_manifest
from gg_datalog.tracing.constants import known_values, with_values
from gg_datalog.tracing.export import groups_document
from gg_datalog.tracing.flattened import told_as_rows
from gg_datalog.tracing.override import Override
from gg_datalog.tracing.pairing import counterparts, relate
from gg_datalog.tracing.record import SEQUENTIAL, InputRecord, RankRecord
from gg_datalog.tracing.results import pair_results

Json = dict[str, Any]


class Pair:
    """What :func:`gg_datalog.capture` gives: save it, or hand it to :func:`gg_datalog.verify`.

    ``documents`` are the JSON documents of the case format; ``records`` the captures, the
    sequential one first, with what each cost.
    """

    def __init__(self, documents: CaseDocuments, records: Sequence[RankRecord]) -> None:
        self.documents = documents
        self.records = records

    def save(self, folder: str | Path) -> CaseFiles:
        """Writes the case into a folder, complete or not at all; the files in it."""
        target = Path(folder)
        with replaced_folder(target, "case") as fresh:
            files = self.documents.write(fresh)
            write_manifest(fresh, "case", {"route": self.documents.about.get("route")})
        return files.below(fresh, target)

    def __repr__(self) -> str:
        about = self.documents.about
        return f"<Pair of {len(self.documents.dist)} ranks, {about.get('route')}>"


def paired(
    sequential: RankRecord,
    ranks: Sequence[RankRecord],
    override: Override,
    world_size: int,
    about: Mapping[str, Any],
) -> Pair:
    """The documents of a case: graphs, groups, input relations and outputs."""
    ranks = [told_as_rows(r, counterparts(sequential, r, override)) for r in ranks]
    related = relate(sequential, ranks, override, world_size)
    notes = {note: None for record in ranks for note in record.notes}
    results = pair_results(sequential, ranks, related, world_size)
    said = (*_left_out(ranks, world_size), *notes, *results.assumptions)
    assumptions = [("capture", text) for text in said] + related.assumptions()
    pieces = {(rank, one.node) for ours, rank, one in related.held if ours.shape != one.local}
    valued = {r.rank: known_values(r, _on(r.rank, pieces)) for r in (sequential, *ranks)}
    graphs = {r.rank: _returning(r.graph, results.unchanged.get(r.rank, [])) for r in ranks}
    documents = CaseDocuments(
        seq=with_values(results.graph, valued[SEQUENTIAL]),
        dist={rank: with_values(graph, valued[rank]) for rank, graph in graphs.items()},
        groups={
            "seq": groups_document({0: sequential.groups}),
            "dist": groups_document({record.rank: record.groups for record in ranks}),
        },
        relations=[row for row in related.rows if not _of_constants(row, valued)],
        outputs=results.rows,
        about={
            **about,
            "assumptions": [{"kind": kind, "text": text} for kind, text in assumptions],
            "warnings": [*_alone(ranks), *results.warnings, *related.warnings],
        },
    )
    return Pair(documents, [sequential, *ranks])


def _on(rank: int, nodes: Iterable[tuple[int, str]]) -> set[str]:
    """The nodes of a rank."""
    return {node for where, node in nodes if where == rank}


def _of_constants(row: Json, valued: Mapping[int, Mapping[str, Any]]) -> bool:
    """Is one of both a number of the graph now, and no input?"""
    held = valued[SEQUENTIAL].get(row["seq"]), valued[row["rank"]].get(row["dist"])
    return any(isinstance(value, (int, float)) for value in held)


def _left_out(ranks: Sequence[RankRecord], world_size: int) -> list[str]:
    """A verdict speaks of the ranks that were captured."""
    numbers = [record.rank for record in ranks]
    if len(numbers) == world_size:
        return []
    shown = ", ".join(map(str, numbers))
    return [f"of {world_size} ranks only {shown} were captured: the others are not looked at"]


def _alone(ranks: Sequence[RankRecord]) -> list[str]:
    """Collectives with ranks that were not captured do not line up."""
    captured = {record.rank for record in ranks}
    members = {rank for record in ranks for group, _ in record.groups.values() for rank in group}
    missing = ", ".join(map(str, sorted(members - captured)))
    if not missing:
        return []
    return [f"ranks {missing} take part in collectives and were not captured: capture them, too"]


def _returning(graph: Json, kept: Sequence[InputRecord]) -> Json:
    """The graph, which returns these inputs, too."""
    *nodes, output = graph["nodes"]
    (values,) = output["args"]
    known = {value["node"] for value in values if isinstance(value, dict)}
    more = [{"node": one.node} for one in kept if one.node not in known]
    return {**graph, "nodes": [*nodes, {**output, "args": [[*values, *more]]}]}
