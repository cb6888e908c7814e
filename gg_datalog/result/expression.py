"""The relation of an output as one expression: ``concat(dim=0, [r0.y, r1.y])``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from gg_datalog.result.blocks import (
    Box,
    Dims,
    NoExpression,
    between_bases,
    between_nodes,
    expression,
    parse_view,
    shape_of,
)
from gg_datalog.result.records import Records
from gg_datalog.result.terms import Block, Part, Parts

if TYPE_CHECKING:
    import duckdb

Held = tuple[int, str, Parts, Block]  # rank, name, and what it holds


@dataclass(frozen=True)
class Relation:
    """What an output is made of: an expression, and the ranks whose nodes it names, in order."""

    text: str
    ranks: tuple[int, ...]


def output_relations(database: duckdb.DuckDBPyConnection) -> dict[int, Relation]:
    """For every mapped output what it is made of."""
    views = {
        (wants, side, rank): parse_view(digits)
        for wants, side, rank, digits in database.execute("SELECT * FROM output_view").fetchall()
    }
    held: dict[int, list[Held]] = {}
    records = Records(database)
    for wants, rank, name, parts, block in database.execute(_HELD).fetchall():
        row = rank, name, records.parts(parts), records.block(block)
        held.setdefault(wants, []).append(row)
    found = {}
    for wants, rows in held.items():
        dist = {rank: views[wants, "dist", rank] for rank, *_ in rows}
        found[wants] = relation_of(rows, views[wants, "seq", 0], dist)
    return found


_HELD = """
    SELECT h.wants, h.rank, 'r' || h.rank || '.' || n.dist, h.parts, h.block
    FROM returned_holds h JOIN returned_name n USING (wants, rank)
    WHERE h.wants IN (SELECT wants FROM output_mapped) AND is_one(h.times)
      AND (NOT is_open(h.parts) OR h.wants IN (SELECT wants FROM may_be_partial))
    ORDER BY h.wants, is_open(h.parts), h.rank, h.block"""


def relation_of(rows: Sequence[Held], seq: Dims, dist: Mapping[int, Dims]) -> Relation:
    """One expression for the sequential node; a list of what it is made of where there is none."""
    whole: Box = tuple((0, extent) for extent in shape_of(seq))
    try:
        pieces = _pieces(rows, seq, dist)
        return _assembled(whole, _needed(whole, pieces))
    except NoExpression:
        names = {name: rank for rank, name, _, _ in rows}
        return Relation(f"rearranged({', '.join(names)})", tuple(names.values()))


def _pieces(rows: Sequence[Held], seq: Dims, dist: Mapping[int, Dims]) -> dict[Box, Relation]:
    """What is known of each box: the first rank's expression, or an open sum over ranks."""
    complete: dict[Box, Relation] = {}
    parts: dict[Box, list[tuple[Parts, Relation]]] = {}
    for rank, name, part, block in rows:
        try:
            found = between_nodes(between_bases(block), seq, dist[rank])
            box, text = expression(name, found, seq, dist[rank])
        except NoExpression:
            continue
        made = Relation(text, (rank,))
        if part:
            parts.setdefault(box, []).append((part, made))
        elif box not in complete or _calls(made) < _calls(complete[box]):
            complete[box] = made
    return {box: _open(terms) for box, terms in parts.items()} | complete


def _calls(made: Relation) -> int:
    return made.text.count("(")


def _open(terms: Sequence[tuple[Parts, Relation]]) -> Relation:
    """``sum(r0.y, r1.y)`` where the parts make up the reduction, else which part it is."""
    spans: dict[tuple[int, int], tuple[Relation, str, int, list[Part]]] = {}
    for part, made in terms:
        (_, kind, lo, n, extent), *inner = part
        spans.setdefault((lo, lo + n), (made, kind, extent, inner))
    order = sorted(spans)
    first, kind, extent, inner = spans[order[0]]
    meet = all(a[1] == b[0] for a, b in pairwise(order))
    if meet and not inner and (order[0][0], order[-1][1]) == (0, extent):
        return _joined(f"{kind}({{}})", [spans[span][0] for span in order])
    lo, hi = order[0]
    return _joined(f"part({{}}, {kind} over [{lo}, {hi}) of {extent})", [first])


def _joined(form: str, members: Sequence[Relation]) -> Relation:
    """The members, put into a form one after the other."""
    text = form.format(", ".join(made.text for made in members))
    return Relation(text, tuple(rank for made in members for rank in made.ranks))


def _needed(whole: Box, pieces: Mapping[Box, Relation]) -> dict[Box, Relation]:
    """Pieces that lie in no larger one."""
    kept: dict[Box, Relation] = {}
    for box in sorted(pieces, key=_size, reverse=True):
        if not any(_inside(box, other) for other in kept):
            kept[box] = pieces[box]
    return kept


def _assembled(target: Box, pieces: Mapping[Box, Relation]) -> Relation:
    """Concatenations, one inside the other, that fill the target."""
    if target in pieces:
        return pieces[target]
    inside = {box: made for box, made in pieces.items() if _inside(box, target)}
    for dim, (low, high) in enumerate(target):
        ends = {at for box in inside for at in box[dim]} | {low, high}
        cuts = sorted(
            at for at in ends if not any(box[dim][0] < at < box[dim][1] for box in inside)
        )
        if len(cuts) > 2:
            spans = [(*target[:dim], span, *target[dim + 1 :]) for span in pairwise(cuts)]
            return _joined(f"concat(dim={dim}, [{{}}])", [_assembled(s, inside) for s in spans])
    raise NoExpression


def _inside(box: Box, other: Box) -> bool:
    return all(a[0] >= b[0] and a[1] <= b[1] for a, b in zip(box, other, strict=True))


def _size(box: Box) -> int:
    size = 1
    for low, high in box:
        size *= high - low
    return size
