"""Sequential inputs of which a rank holds several parts, or copies, in inputs of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

from gg_datalog.tracing.pairing import Held, Related
from gg_datalog.tracing.pieces import Box
from gg_datalog.tracing.record import InputRecord, unused

Json = dict[str, Any]


@dataclass(frozen=True)
class Share:
    """The box of a sequential input that the ranks hold under one name.

    ``ours`` is the sequential input, called as the ranks call it; ``of`` as it is called itself.
    """

    of: InputRecord
    ours: InputRecord
    box: Box
    holders: Mapping[int, InputRecord]


def shares(related: Related) -> Iterator[Share]:
    """The shares of every sequential input of which some rank has more than one, where together
    they are all of it."""
    held: dict[str, list[Held]] = {}
    for row in related.held:
        held.setdefault(row[0].update, []).append(row)
    boxes = _boxes(related.rows)
    taken = {ours.update for ours, _, _ in related.held}
    for rows in held.values():
        alike = [row for row in rows if (row[2].kind == "input") == (row[0].kind == "input")]
        if len(alike) > len({rank for _, rank, _ in alike}):
            found = list(_shares(alike, boxes))
            named = {one.ours.update for one in found} - {rows[0][0].update}
            if _covered(rows[0][0].shape, [one.box for one in found]) and not named & taken:
                yield from found


def _shares(
    rows: Sequence[Held],
    boxes: Mapping[tuple[int, str], Sequence[Box | None]],
) -> Iterator[Share]:
    """Those of one sequential input, by what the ranks call it."""
    groups: dict[str, dict[int, InputRecord]] = {}
    for _, rank, one in rows:
        groups.setdefault(one.update, {})[rank] = one
    of = rows[0][0]
    everything: Any = [[0, extent] for extent in of.shape]
    for holders in groups.values():
        one = next(iter(holders.values()))
        parts = [
            box or everything for r, h in holders.items() for box in boxes.get((r, h.node), ())
        ]
        if parts:
            ours = replace(of, name=one.name, kind=one.kind)
            yield Share(of, ours, _around(parts), holders)


def _boxes(rows: Sequence[Json]) -> dict[tuple[int, str], list[Box | None]]:
    """What inputs of ranks hold, by rank and node; None: all of it."""
    found: dict[tuple[int, str], list[Box | None]] = {}
    for row in rows:
        found.setdefault((row["rank"], row["dist"]), []).append(row.get("seq_box"))
    return found


def _around(parts: Sequence[Box]) -> Box:
    """The smallest box with all of these in it."""
    return [
        [min(lo for lo, _ in sides), max(hi for _, hi in sides)]
        for sides in zip(*parts, strict=True)
    ]


def _covered(shape: Sequence[int | str], parts: Sequence[Box]) -> bool:
    """Do the boxes together hold every element?"""
    if not parts or any(isinstance(extent, str) for extent in shape):
        return False
    cuts = [
        sorted({0, int(extent), *(end for box in parts for end in box[dim])})
        for dim, extent in enumerate(shape)
    ]
    return all(
        any(
            all(lo <= a and b <= hi for (a, b), (lo, hi) in zip(cell, box, strict=True))
            for box in parts
        )
        for cell in product(*(pairwise(ends) for ends in cuts))
    )


def cut(graph: Json, node: str, share: Share) -> tuple[Json, str]:
    """The graph with the part of a node that a share is of, and what it is called."""
    *nodes, output = graph["nodes"]
    names = {one["name"] for one in nodes}
    row = next(one for one in nodes if one["name"] == node)
    shape = list(row["shape"])
    for dim, (lo, hi) in enumerate(share.box):
        if [lo, hi] == [0, shape[dim]]:
            continue
        shape[dim] = hi - lo
        args = [{"node": row["name"]}, dim, lo, hi]
        row = {
            **{key: row[key] for key in ("dtype", "source", "module") if key in row},
            "name": unused(f"{node}_{dim}_{lo}_{hi}", names),
            "op": "call_function", "target": "aten.slice.Tensor", "args": args, "kwargs": {},
            "shape": list(shape),
        }  # fmt: skip
        names.add(row["name"])
        nodes.append(row)
    return {**graph, "nodes": [*nodes, output]}, str(row["name"])
