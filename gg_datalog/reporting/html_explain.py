"""Why something holds, as trees of limited size, for the tensors that a report speaks of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from gg_datalog.foundation.errors import GGError
from gg_datalog.reporting.wording import clipped
from gg_datalog.result.names import ranked
from gg_datalog.result.printable import printable
from gg_datalog.result.report import Finding, Report

if TYPE_CHECKING:
    import duckdb

DEPTH = 6
MOST_FINDINGS, MOST_OUTPUTS = 10, 12
MOST_NODES = 80  # of one tree
LONG = 400  # characters of one text

Explain = Callable[..., Any]


@dataclass(frozen=True)
class Tree:
    """The explanations of one tensor."""

    title: str
    side: str
    mapped: bool
    nodes: list[dict[str, Any]]


@dataclass(frozen=True)
class Explanations:
    """Trees by number of the finding, and by name of the output."""

    findings: Mapping[int, list[Tree]]
    outputs: Mapping[str, Tree]


def explanations(report: Report, database: duckdb.DuckDBPyConnection) -> Explanations:
    """Trees for the first findings and outputs."""
    explain = _explainer(database)
    tree = cache(partial(_tree, explain))
    findings = {
        index: [found for name, rank in _told(finding) if (found := tree(name, rank)) is not None]
        for index, finding in enumerate(report.findings[:MOST_FINDINGS])
    }
    outputs = {
        row.seq: found
        for row in report.outputs[:MOST_OUTPUTS]
        if (found := tree(row.seq, None)) is not None
    }
    return Explanations(findings, outputs)


def _explainer(database: duckdb.DuckDBPyConnection) -> Explain:
    """What explains the tensors of a result."""
    from gg_datalog.proofs.explaining import Explainer

    return partial(Explainer(database).explain, depth=DEPTH)


def _told(found: Finding) -> Iterable[tuple[str, int | None]]:
    """The sequential tensor of a finding, and the first one of the ranks."""
    if found.seq:
        yield found.seq, None
    for name in found.dist[:1]:
        rank, node = ranked(name)
        if rank >= 0:
            yield node, rank


def _tree(explain: Explain, tensor: str, rank: int | None) -> Tree | None:
    """None where there is nothing to say."""
    try:
        document = printable(explain(tensor, rank).document())
    except GGError:
        return None
    room = [MOST_NODES]
    nodes, _ = _pruned(document["explanations"], room)
    name = tensor if rank is None else f"r{rank}.{tensor}"
    return Tree(name, document["side"], document["mapped"], nodes) if nodes else None


def _pruned(
    nodes: Iterable[Mapping[str, Any]], room: list[int]
) -> tuple[list[dict[str, Any]], int]:
    """The nodes that there is room for, and the number of those that were left out."""
    kept, more = [], 0
    for node in nodes:
        if room[0] <= 0:
            more += 1
            continue
        room[0] -= 1
        premises, cut = _pruned(node.get("premises", ()), room)
        more_below = int(node.get("more") or 0) + cut
        text = clipped(node["text"], LONG)
        kept.append({**node, "text": text, "premises": premises, "more": more_below})
    return kept, more
