"""What every finding gets in the end: modules, lines and ranks of its nodes, and its fingerprint.

A fingerprint is a hash over what the mistake is and where it was written: code, operators, source
lines, modules, the kind of relation. It has no names or numbers of nodes, no sizes, and no line
numbers where the text of the line is known, so that it stays when other code changes, and with
another number of layers or ranks. Findings that agree in all of that are numbered in the order of
the graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.names import ranked
from gg_datalog.result.report import Finding

LENGTH = 16
_PLACE = re.compile(r"^(?P<file>.*?):(?P<line>\d+)(?: in (?P<function>[^:]*))?(?:: (?P<text>.*))?$")


@dataclass(frozen=True)
class Node:
    """A node of a captured graph, as far as findings speak of it."""

    position: int
    target: str
    source: str
    module: str


Users = dict[str, list[Node]]
"""The nodes that use an input, by its name with the rank."""


def located(scene: Scene, findings: Sequence[Finding]) -> list[Finding]:
    """The findings with modules, lines and ranks."""
    nodes = _nodes(scene, findings)
    users = _users(scene, findings, nodes)
    return [_located(found, nodes, users) for found in findings]


def finished(scene: Scene, findings: Sequence[Finding]) -> list[Finding]:
    """The findings with modules, lines, ranks and fingerprints."""
    nodes = _nodes(scene, findings)
    found = located(scene, findings)
    keys = [_key(one, nodes) for one in found]
    order = sorted(range(len(found)), key=lambda i: (_position(found[i], nodes), i))
    seen: Counter[str] = Counter()
    prints = {}
    for i in order:
        seen[keys[i]] += 1
        prints[i] = sha256(f"{keys[i]}\n{seen[keys[i]]}".encode()).hexdigest()[:LENGTH]
    return [replace(one, fingerprint=prints[i]) for i, one in enumerate(found)]


def _nodes(scene: Scene, findings: Sequence[Finding]) -> dict[str, Node]:
    """All nodes that findings name, sequential ones by their name, others by that with the rank.
    What has no line has that of what computes it."""
    if not findings:
        return {}
    named = {name for f in findings for name in (f.seq, *f.dist) if name}
    return {name: Node(*row) for name, *row in scene.rows(_NODES, sorted(named))}


def _users(scene: Scene, findings: Sequence[Finding], nodes: dict[str, Node]) -> Users:
    """What uses the inputs that findings name: these have no line of their own."""
    named = {name for f in findings for name in f.dist if name in nodes}
    silent = sorted(name for name in named if not nodes[name].source)
    found: dict[str, list[Node]] = {}
    for name, *row in scene.rows(_USERS, silent) if silent else ():
        found.setdefault(name, []).append(Node(*row))
    return found


def _located(found: Finding, nodes: dict[str, Node], users: Users) -> Finding:
    seq = nodes.get(found.seq or "")
    dist = [nodes[name] for name in found.dist if name in nodes]
    # The line that runs first: the others may only follow from it.
    lines = [node for node in dist if node.source] or [
        node for n in found.dist for node in users.get(n, ())
    ]
    source = min(lines, key=lambda node: node.position).source if lines else None
    module = next((n.module for n in dist if n.module), None)
    return replace(
        found,
        seq_source=found.seq_source or (seq.source or None if seq else None),
        module=found.module or (seq.module or None if seq else None),
        dist_source=found.dist_source or source,
        dist_module=found.dist_module or module,
        ranks=found.ranks or tuple(sorted({ranked(n)[0] for n in found.dist})),
    )


def _position(found: Finding, nodes: dict[str, Node]) -> int:
    places = [nodes[n].position for n in (found.seq or "", *found.dist) if n in nodes]
    return min(places, default=0)


def _key(found: Finding, nodes: dict[str, Node]) -> str:
    """What does not change when nodes are numbered anew."""
    targets = sorted({nodes[n].target for n in found.dist if n in nodes})
    seq = nodes[found.seq].target if found.seq in nodes else ""
    places = [place(found.seq_source or ""), place(found.dist_source or "")]
    modules = [_indexed(found.module or ""), _indexed(found.dist_module or "")]
    relation = [_kind_of(found.expected or ""), _kind_of(found.found or "")]
    known = [*places, *modules, *targets, seq]
    words = "" if any(known) else re.sub(r"\d+", "#", found.message)
    return "\n".join([found.code, *known, *relation, words])


def place(source: str) -> str:
    """A source location without its line number, where the text of the line is known."""
    match = _PLACE.match(source)
    if match is None:
        return source
    tail = "/".join(match["file"].split("/")[-2:])
    known = match["text"] or match["line"]
    return "|".join([tail, match["function"] or "", known.strip()])


def _indexed(module: str) -> str:
    """A module's name without the number of its layer."""
    return re.sub(r"\d+", "#", module)


def _kind_of(relation: str) -> str:
    """The kind of a relation, without sizes and names."""
    return " ".join(re.findall(r"\b(?:Replicate|Shard|Partial|concat|sum|max|min)\b", relation))


_NODES = """
    SELECT key, position, target, coalesce(nullif(n.source, ''), t.line, ''), module FROM (
        SELECT CASE side WHEN 'seq' THEN name ELSE 'r' || rank || '.' || name END AS key, *
        FROM graph_node
    ) n
    LEFT JOIN (
        SELECT side, tensor, min_by(source, rank) AS line FROM tensor_node GROUP BY side, tensor
    ) t USING (side, tensor)
    WHERE key IN (SELECT unnest(?))"""

_USERS = """
    SELECT 'r' || i.rank || '.' || i.name, u.position, u.target, u.source, u.module
    FROM graph_node i
    JOIN tensor_needs n ON n.side = 'dist' AND n.needs = i.tensor
    JOIN graph_node u ON u.side = 'dist' AND u.rank = i.rank AND u.tensor = n.tensor
    WHERE i.side = 'dist' AND i.op = 'placeholder' AND u.op = 'call_function' AND u.source <> ''
      AND 'r' || i.rank || '.' || i.name IN (SELECT unnest(?))
    ORDER BY ALL"""
