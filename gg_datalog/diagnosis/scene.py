"""What findings look up in the database of a result: tensors, nodes, and what holds what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gg_datalog.result.blocks import Box
from gg_datalog.result.names import ranked
from gg_datalog.result.placement import (
    dtype_text,
    merged,
    placement,
    prefix,
    range_of,
    ranks_text,
    shape_of,
    spans_text,
    tensor_text,
)
from gg_datalog.result.records import ONE_KEY, WHOLE, Records
from gg_datalog.result.terms import Coefficient

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Thing:
    """A base tensor with the node that computes it, on all ``ranks`` that compute the same."""

    tensor: str
    name: str
    node: str
    kind: str
    target: str
    dtype: str
    shape: tuple[int, ...]
    base: tuple[int, ...]
    ranks: tuple[int, ...]
    position: int

    @property
    def names(self) -> list[str]:
        """The node on each of the ranks."""
        return [f"r{rank}.{self.node}" for rank in self.ranks]


@dataclass(frozen=True)
class Held:
    """A row of ``holds``, its records by their keys."""

    dist: str
    seq: str
    times: str
    parts: str
    block: str

    @property
    def whole(self) -> bool:
        """Is it no part of a reduction?"""
        return self.parts == WHOLE

    @property
    def plain(self) -> bool:
        """Is it just the tensor, or a piece of it: no part, and no multiple?"""
        return self.whole and self.once

    @property
    def once(self) -> bool:
        """Is its coefficient 1?"""
        return self.times == ONE_KEY


@dataclass(frozen=True)
class Part:
    """An open reduction: of ``along`` only [lo, hi) of ``extent`` has been reduced by ``kind``. Of
    the rows of a ``lookup`` at most one counts."""

    kind: str
    along: str
    lo: int
    hi: int
    extent: int
    lookup: bool

    @property
    def share(self) -> tuple[str, Fraction, Fraction]:
        """Which part of a reduction of this kind it is, whatever the extent."""
        return self.kind, Fraction(self.lo, self.extent), Fraction(self.hi, self.extent)


class Scene:
    """Looks things up; what is asked for twice is remembered."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self.database = database
        self.records = Records(database)
        self._things: dict[tuple[str, str], Thing] = {}
        self._axes: dict[tuple[str, int], tuple[str, bool]] = {}

    def rows(self, sql: str, *given: Any) -> list[tuple[Any, ...]]:
        """All rows of a query; ``?`` are the given values, lists to be unnested."""
        return self.database.execute(sql, list(given)).fetchall()

    # ---- tensors ---------------------------------------------------------------------------
    def things(self, side: str, tensors: Iterable[str]) -> list[Thing]:
        """These base tensors."""
        wanted = list(dict.fromkeys(tensors))
        unknown = [t for t in wanted if (side, t) not in self._things]
        if unknown:
            for tensor, name, node, kind, target, dtype, *rest in self.rows(_THINGS, side, unknown):
                shape, base, ranks, position = rest
                extents = shape_of(shape) or shape_of(base)
                self._things[side, tensor] = Thing(
                    tensor, name, node, kind, target, dtype,
                    extents, shape_of(base), tuple(ranks), position,
                )  # fmt: skip
        return [self._things[side, t] for t in wanted if (side, t) in self._things]

    def seq(self, tensor: str) -> Thing:
        """A sequential base tensor."""
        (found,) = self.things("seq", [tensor])
        return found

    def names(self, dists: Iterable[str]) -> list[str]:
        """The nodes of these distributed tensors on all ranks that have them, by rank and place."""
        found = {n: t.position for t in self.things("dist", dists) for n in t.names}
        return sorted(found, key=lambda name: (ranked(name)[0], found[name]))

    # ---- facts -----------------------------------------------------------------------------
    def held(self, dists: Iterable[str], seq: str | None = None) -> list[Held]:
        """What these distributed tensors hold (of one sequential tensor)."""
        sql = "SELECT dist, seq, times, parts, block FROM holds WHERE dist IN (SELECT unnest(?))"
        given: list[Any] = [list(dists)]
        if seq is not None:
            sql += " AND seq = ?"
            given.append(seq)
        return [Held(*row) for row in self.rows(f"{sql} ORDER BY ALL", *given)]

    def coefficient(self, held: Held) -> Coefficient:
        """How often a row counts the tensor."""
        return self.records.coefficient(held.times)

    @cached_property
    def sums(self) -> dict[str, list[str]]:
        """The terms of every sum over ranks, by what it gives."""
        return dict(self.rows(_SUMS))

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of every collective, by what it gives."""
        return dict(self.rows(_COLLECTIVES))

    @cached_property
    def outputs(self) -> dict[int, str]:
        """The sequential node of every output."""
        return dict(self.rows("SELECT wants, seq FROM output_name ORDER BY wants"))

    @cached_property
    def broken(self) -> bool:
        """Does a chain break anywhere?"""
        return bool(self.rows("SELECT 1 FROM chain_break LIMIT 1"))

    @cached_property
    def fades(self) -> bool:
        """Are there sums of which some is 0 for its position? Then a part may be all of it."""
        return bool(self.rows("SELECT 1 FROM label_fades LIMIT 1"))

    def spoiled(self, seqs: Iterable[str]) -> tuple[str, ...]:
        """The outputs whose chains break at these sequential tensors."""
        sql = (
            "SELECT DISTINCT wants FROM chain_break WHERE seq IN (SELECT unnest(?)) ORDER BY wants"
        )
        return tuple(dict.fromkeys(self.outputs[w] for (w,) in self.rows(sql, list(seqs))))

    # ---- relations -------------------------------------------------------------------------
    def box(self, held: Held) -> Box | None:
        """The range per dimension of the sequential node that a row reaches."""
        thing = self.seq(held.seq)
        box = self.range_of(held)
        return None if box is None else merged(box, thing.base, thing.shape)

    def range_of(self, held: Held) -> Box | None:
        """The range per dimension of the sequential base tensor that a row reaches."""
        return range_of(self.records.block(held.block), self.seq(held.seq).base)

    def part(self, parts: str) -> Part | None:
        """The outermost open reduction."""
        if parts == WHOLE:
            return None
        through, kind, lo, n, extent = self.records.parts(parts)[0]
        along, lookup = self._axis(*through[-1])
        return Part(kind, along, lo, lo + n, extent, lookup)

    def finest(self, rows: Sequence[Held]) -> list[Held]:
        """Of each tensor the part whose reduced dimension is known in the finest positions."""
        best: dict[str, tuple[int, Held]] = {}
        for row in rows:
            part = self.part(row.parts)
            if part is not None and part.extent > best.get(row.dist, (0, row))[0]:
                best[row.dist] = part.extent, row
        return [row for _, row in best.values()]

    def _axis(self, by: str, label: int) -> tuple[str, bool]:
        """What is reduced: a dimension of an operand, of an input where there is one; and whether
        that is the rows of a lookup."""
        if (by, label) not in self._axes:
            found = self.rows(_AXIS, by, label)
            text, lookup = "the reduced dimension", False
            if found:
                of, dim, lookup = found[0]
                thing = self.seq(of)
                where = [d for d, e in enumerate(thing.shape) if e != 1]
                plain = [e for e in thing.shape if e != 1] == list(thing.base)
                text = f"dim {where[dim] if plain else dim} of {thing.node}"
                text = f"rows of {thing.node}" if lookup else text
            self._axes[by, label] = text, bool(lookup)
        return self._axes[by, label]

    def relation(self, seq: str, held: Sequence[Held]) -> str | None:
        """In words what rows say that the ranks have of a sequential tensor; None if they say
        nothing that is short."""
        thing = self.seq(seq)
        held = self.finest(held) or held
        rows = [(h, self.box(h), self.part(h.parts)) for h in held]
        ranks = {t.tensor: t.ranks for t in self.things("dist", [h.dist for h in held])}
        boxes = {r: b for h, b, _ in rows if b is not None for r in ranks.get(h.dist, ())}
        dtypes = {t.dtype for t in self.things("dist", [h.dist for h in held])}
        if not boxes or len(dtypes) != 1:
            return None
        text = tensor_text(dtypes.pop(), thing.shape or ())
        factors = list(dict.fromkeys(prefix(self.coefficient(h)) for h in held))
        text = f"{factors[0] if len(factors) == 1 else ''}{text}"
        spans = dict.fromkeys((p.kind, p.along, p.lo, p.hi, p.extent) for _, _, p in rows if p)
        words = [] if len(spans) and _whole(boxes, thing.shape) else [placement(boxes, thing.shape)]
        if spans:
            kind, along, *_ = next(iter(spans))
            ends = spans_text([(lo, hi) for _, _, lo, hi, _ in sorted(spans, key=lambda s: s[2])])
            words.append(f"Partial({kind} over {along}: {ends} of {next(iter(spans))[4]})")
        return f"{text} {' '.join(words)} of {thing.node} on {ranks_text(boxes)}"

    def wanted(self, seq: str, ranks: Iterable[int]) -> str:
        """The whole sequential tensor on these ranks, in words."""
        thing = self.seq(seq)
        text = tensor_text(dtype_text(thing.dtype), thing.shape)
        return f"{text} Replicate of {thing.node} on {ranks_text(ranks)}"


def _whole(boxes: dict[int, Box], shape: Sequence[int]) -> bool:
    return all(
        piece == (0, e) for box in boxes.values() for piece, e in zip(box, shape, strict=True)
    )


_THINGS = """
    SELECT b.tensor, any_value(CASE b.side WHEN 'seq' THEN b.node
                                           ELSE 'r' || b.rank || '.' || b.node END),
           any_value(b.node), any_value(b.kind),
           coalesce(any_value(n.target), ''),
           coalesce(any_value(n.dtype), ''), coalesce(any_value(n.shape), ''),
           any_value(b.shape),
           coalesce(list_sort(list(DISTINCT g.rank) FILTER (g.rank IS NOT NULL)),
                    [any_value(b.rank)]),
           coalesce(any_value(n.position), 0)
    FROM base_tensor b
    LEFT JOIN graph_node n ON n.side = b.side AND n.rank = b.rank AND n.name = b.node
    LEFT JOIN graph_node g ON g.side = b.side AND g.tensor = b.tensor AND g.name = b.node
    WHERE b.side = ? AND b.tensor IN (SELECT unnest(?)) GROUP BY b.tensor"""

_SUMS = """
    SELECT s.gives, list(t."of" ORDER BY t.place)
    FROM dist_sum s JOIN term_of t ON t."by" = s."by"
    JOIN base_tensor b ON b.side = 'dist' AND b.tensor = s.gives
    WHERE EXISTS (SELECT 1 FROM collective c WHERE c.rank = b.rank AND c.node = b.node)
    GROUP BY s.gives ORDER BY s.gives"""

_COLLECTIVES = """
    SELECT DISTINCT g.tensor, c.kind FROM collective c
    JOIN graph_node g ON g.side = 'dist' AND g.rank = c.rank AND g.name = c.node"""

# An input comes before what is computed: parameters are what people know.
_AXIS = """
    SELECT p."of", d.dim, p.lookup FROM (
        SELECT s."by", s.shaped, o.place, o."of", false AS lookup
        FROM seq_operator s JOIN operand_of o ON o."by" = s."by"
        UNION SELECT "by", shaped, 0, "table", true FROM seq_lookup
    ) p JOIN digit_of d ON d.shaped = p.shaped AND d.place = p.place
    JOIN base_tensor b ON b.side = 'seq' AND b.tensor = p."of"
    WHERE p."by" = ? AND d.label = ? ORDER BY b.kind <> 'input', p.place, d.dim LIMIT 1"""
