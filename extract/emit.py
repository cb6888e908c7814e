"""From lowered sides to rows: interning shapes and scales, leaving out what no output needs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from gg_datalog.extract.blanks import fades, operand_half
from gg_datalog.extract.dtypes import PLAIN_IDS
from gg_datalog.extract.flatten import flat_sums, uses
from gg_datalog.extract.halves import Half
from gg_datalog.extract.notes import Counted
from gg_datalog.extract.records import Concat, DigitMap, Label, Lookup, OneHot, Operator, Slice, Sum
from gg_datalog.extract.scale import ONE, Scale
from gg_datalog.extract.side import Side
from gg_datalog.extract.view import Base, View, identity

Rows = dict[str, list[tuple[Any, ...]]]
PARALLEL = "e", "parallel"
WORD = 2**30
SAME = re.compile(r"(eq|ne)\(%, (-?\d+)\)")


class Emitter:
    """Collects the rows of both sides."""

    def __init__(self) -> None:
        self.rows: Rows = defaultdict(list)
        self._shapes: dict[Any, str] = {}
        self._scales: set[str] = set()
        self.scale(ONE)

    def add(self, relation: str, *row: Any) -> None:
        """One row."""
        self.rows[relation].append(row)

    def scale(self, value: Scale) -> str:
        """The id of a coefficient."""
        row = value.row()
        if row[0] not in self._scales:
            self._scales.add(row[0])
            self.add("scale_of", *row)
        return row[0]

    def shape(
        self,
        labels: Sequence[Label],
        maps: Sequence[DigitMap],
        results: Sequence[Sequence[int]],
        faded: Sequence[Half] = (),
    ) -> str:
        """The id of a shape, its rows written once. ``faded``: where nothing is added up."""
        key = (tuple(labels), tuple(maps), tuple(map(tuple, results)), tuple(faded))
        if key in self._shapes:
            return self._shapes[key]
        name = self._shapes[key] = f"f{len(self._shapes)}"
        self.add("label_count", name, len(labels))
        for i, row in enumerate(labels):
            self.add("label_of", name, i, row.extent, row.factor, row.kind)
        for place, digit_map in enumerate(maps):
            for dim, digits in enumerate(digit_map):
                self.add("digit_count", name, place, dim, len(digits))
                for level, digit in enumerate(digits):
                    self.add("digit_of", name, place, dim, level, *digit)
        for place, result in enumerate(results):
            self.add("result_rank", name, place, len(result))
            for dim, label in enumerate(result):
                self.add("result_dim", name, place, dim, label)
        for half in faded:
            self.add("label_fades", name, *half)
        return name

    def view_shape(
        self, view: View, extents: Sequence[int], without: int | None = None, results: int = 1
    ) -> str:
        """The shape of a term: one label per dimension, of which ``without`` leaves the result."""
        labels = [Label(e, *PARALLEL) for e in extents]
        digits: list[list[tuple[int, tuple[int, int, int]]]] = [[] for _ in view.base.shape]
        for label, dim in enumerate(view.dims):
            step = extents[label]
            for digit in dim:
                step //= digit.extent
                if digit.dim >= 0:
                    digits[digit.dim].append((digit.stride, (digit.extent, label, step)))
        maps = tuple(tuple(d for _, d in sorted(rows)) for rows in digits)
        result = [i for i in range(len(labels)) if i != without]
        return self.shape(labels, [maps], [result] * results)


def live_bases(roots: Iterable[Base]) -> set[Base]:
    """Bases that the roots are computed from, the roots included; tensors of no elements are left
    out: there is nothing to say of them."""
    found: set[Base] = set()
    todo = list(roots)
    while todo:
        base = todo.pop()
        if base not in found and 0 not in base.shape:
            found.add(base)
            todo += base.needs
    return found


def lead_orders(sides: Sequence[tuple[Side, set[Base], Counter[Base]]]) -> dict[str, list[int]]:
    """Per signature the order of its operands: those that few operators share come first, so that
    the rules start from an operand that tells operators apart."""
    fan: dict[str, list[int]] = {}
    masks: set[tuple[str, int]] = set()  # they are known by their positions: others come first
    for side, live, count in sides:
        for op in (*side.operators, *side.alternatives):
            if not any(b in live for b, _ in op.gives):
                continue
            mine = [count[v.base] for v in op.operands]
            halves = side.notes.halves
            masks |= {(op.signature, i) for i, v in enumerate(op.operands) if v.base in halves}
            worst = fan.setdefault(op.signature, mine)
            fan[op.signature] = [max(p) for p in zip(worst, mine, strict=False)]

    def worth(signature: str, place: int) -> tuple[bool, int]:
        return (signature, place) in masks, fan[signature][place]

    return {s: sorted(range(len(f)), key=partial(worth, s)) for s, f in fan.items()}


def in_word(count: Counted) -> bool:
    """Are the numbers such as both engines can add and subtract?"""
    return all(abs(n) < WORD for n in (count.start, count.start + count.step * count.extent))


class SideEmitter:
    """Writes the rows of one side."""

    def __init__(
        self,
        out: Emitter,
        side: Side,
        live: set[Base],
        count: Counter[Base],
        order: dict[str, list[int]],
        commutative: frozenset[str],
    ) -> None:
        self.out, self.side, self.live, self.count = out, side, live, count
        self.order, self.commutative = order, commutative

    def write(self) -> None:
        """All rows of the side."""
        for base in self.side.bases:
            if base in self.live:
                self._base(base)
        for op in self.side.operators:
            if any(b in self.live for b, _ in op.gives):
                self._operator(op)
        for add in (*self.side.sums, *flat_sums(self.side, self.live, self.count)):
            if add.gives in self.live:
                self._sum(add)
        for block in (*self.side.blocks, *self.side.spread.values()):
            if block.gives in self.live:
                self._sum(block, reported=False)
        for cut in self.side.slices:
            if cut.gives in self.live:
                self._slice(cut)
        for cat in self.side.concats:
            if cat.gives in self.live:
                self._concat(cat)
        for found in self.side.lookups:
            if found.gives in self.live:
                self._lookup(found)
        for hot in self.side.onehots.values():
            if hot.gives in self.live:
                self._onehot(hot)
        for op in self.side.alternatives:
            if op.gives[0][0] in self.live:
                self._operator(op)
        for base, count in self.side.notes.counted.items():
            if base in self.live and count.step > 0 and in_word(count):
                first, phase = divmod(count.start, count.step)
                row = base.name, count.step, phase, first, count.extent
                self.out.add(f"{self.side.name}_counting", *row)
        self._integers()

    def _base(self, base: Base) -> None:
        labels = [Label(e, *PARALLEL) for e in base.shape]
        maps: DigitMap = tuple(((e, i, 1),) for i, e in enumerate(base.shape))
        shape = self.out.shape(labels, [maps], [range(len(labels))])
        self.out.add(f"{self.side.name}_tensor", base.name, shape)
        if self.side.name == "seq":
            self.out.add("seq_rank", base.name, len(base.shape))
        size = "x".join(map(str, base.shape))
        self.out.add(
            "base_tensor",
            self.side.name,
            base.name,
            base.rank,
            base.node,
            base.kind,
            size,
            base.dtype,
        )
        if base.made is None and base.kind != "input":
            for place, needed in enumerate(base.needs):
                self.out.add(
                    "tensor_needs", self.side.name, base.name, base.name, needed.name, place
                )

    def _needs(self, by: str, gives: Base, of: Sequence[View], record: Any) -> None:
        for place, view in enumerate(of):
            self.out.add("tensor_needs", self.side.name, by, gives.name, view.base.name, place)
        self.out.add(
            "operator_node",
            by,
            self.side.name,
            record.rank,
            record.node,
            record.target,
            getattr(record, "signature", ""),
        )

    def _operator(self, op: Operator) -> None:
        stream = self.side.streams.get((op.rank, op.node))
        if op.signature in self.side.draws and stream is not None:
            self.out.add("drawn_as", op.name, *stream)
        order = self.order.get(op.signature, range(len(op.operands)))
        self._one(op, op.name, list(order), op.labels)
        swappable = self._swappable(op.signature)
        if self.side.name == "seq" and swappable and len(op.operands) == 2:
            swap = {"i": "j", "j": "i", "x": "x"}
            labels = op.labels
            if op.signature == "contract":
                labels = tuple(
                    Label(x.extent, swap.get(x.factor, x.factor), x.kind) for x in labels
                )
            self._one(op, f"{op.name}?swapped", list(order)[::-1], labels)
        if op.made_as is not None:
            names = [op.name, f"{op.name}?swapped"] if self.side.name == "seq" else [op.name]
            for name in names:
                self.out.add("alternative", name)
            return
        for base, _ in op.gives:
            self._needs(op.name, base, op.operands, op)

    def _swappable(self, signature: str) -> bool:
        """May its two tensors change places? `contract`, `mul`, `eq(%, %)`."""
        name, _, rest = signature.partition("(")
        plain = not rest or rest.startswith("%, %)")
        return signature == "contract" or (plain and name in self.commutative)

    def _one(self, op: Operator, name: str, order: list[int], labels: tuple[Label, ...]) -> None:
        notes = self.side.notes
        faded = list(fades(notes, op)) if notes.blanks or notes.halves else []
        digits = [op.maps[i] for i in order]
        shape = self.out.shape(labels, digits, [r for _, r in op.gives], faded)
        self.out.add(f"{self.side.name}_operator", name, op.signature, shape)
        self.out.add("operand_count", name, len(order))
        for place, i in enumerate(order):
            view = op.operands[i]
            self.out.add("operand_of", name, place, view.base.name, self.out.scale(view.scale))
            half = operand_half(notes, op, i) if notes.halves else None
            if half is not None:
                self.out.add("operand_half", name, place, *half)
                if op.signature.startswith("masked_fill(") and (order[0], i) == (0, 1):
                    self.out.add("hidden_by", name, *half)
        for place, (base, _) in enumerate(op.gives):
            self.out.add("result_of", name, place, base.name)

    def _sum(self, add: Sum, reported: bool = True) -> None:
        terms = sorted(add.terms, key=lambda t: self.count[t.base])
        self.out.add(f"{self.side.name}_sum", add.name, add.kind, len(terms), add.gives.name)
        for place, term in enumerate(terms):
            shape = self.out.view_shape(term, add.gives.shape)
            self.out.add(
                "term_of", add.name, place, term.base.name, self.out.scale(term.scale), shape
            )
        if add.other:
            self.out.add("alternative", add.name)
        if reported and not add.name.endswith("?flat"):
            self._needs(add.name, add.gives, terms, add)

    def _slice(self, cut: Slice) -> None:
        extents = list(_extents(cut.of))
        gone = cut.dim if cut.size == 1 else None
        shape = self.out.view_shape(cut.of, extents, gone)
        self.out.add(
            f"{self.side.name}_slice",
            cut.name,
            cut.of.base.name,
            shape,
            cut.dim,
            cut.start,
            cut.size,
            cut.gives.name,
        )
        if cut.other:
            self.out.add("alternative", cut.name)
        else:
            self._needs(cut.name, cut.gives, [cut.of], cut)

    def _concat(self, cat: Concat) -> None:
        local = [int(cat.local)] if self.side.name == "dist" else []
        self.out.add(f"{self.side.name}_concat", cat.name, len(cat.members), cat.gives.name, *local)
        for place, (view, start) in enumerate(cat.members):
            shape = self.out.view_shape(view, _extents(view))
            self.out.add(
                f"{self.side.name}_member",
                cat.name,
                place,
                view.base.name,
                self.out.scale(view.scale),
                shape,
                cat.dim,
                start,
            )
        if cat.other:
            self.out.add("alternative", cat.name)
            return
        self._needs(cat.name, cat.gives, [v for v, _ in cat.members], cat)

    def _lookup(self, found: Lookup) -> None:
        shape = self.out.shape(found.labels, found.maps, [found.result])
        table, ids = found.operands
        self.out.add(
            f"{self.side.name}_lookup",
            found.name,
            table.base.name,
            ids.base.name,
            shape,
            found.label,
            found.gives.name,
        )
        if found.mask is not None:
            self.out.add("lookup_masked", found.name, found.mask.name)

    def _onehot(self, hot: OneHot) -> None:
        shape = self.out.shape(hot.labels, hot.maps, [hot.result])
        ids, gives = hot.ids.base.name, hot.gives.name
        self.out.add(f"{self.side.name}_onehot", hot.name, ids, shape, hot.label, gives)
        if hot.mask is not None:
            self.out.add("lookup_masked", hot.name, hot.mask.name)

    def _ignored(self) -> Iterator[tuple[Base, Base, int, int]]:
        """Comparisons with a number that decide where integers are filled."""
        facts = self.side.integers
        masks = {mask for _, _, mask, _ in facts.fills}
        masks |= {of for gives, of in facts.nots if gives in masks}
        for op in self.side.operators:
            found = SAME.fullmatch(op.signature)
            gives = op.gives[0][0]
            if found is None or gives not in masks or gives not in self.live:
                continue
            (x,) = op.operands
            number = int(found[2])
            plain = x.scale == ONE and x.dims == identity(x.base).dims and abs(number) < WORD
            if plain and x.base.shape == gives.shape and x.base.dtype in ("", *PLAIN_IDS):
                yield gives, x.base, number, int(found[1] == "eq")

    def _integers(self) -> None:
        facts, live = self.side.integers, self.live
        for gives, of, kind, bound in facts.tests:
            if gives in live:
                self.out.add("integer_test", gives.name, of.name, kind, bound)
        for gives, op, a, b in facts.pairs:
            if gives in live:
                self.out.add("integer_pair", gives.name, op, a.name, b.name)
        for gives, of in facts.nots:
            if gives in live:
                self.out.add("integer_not", gives.name, of.name)
        for gives, of, number, truth in self._ignored():
            self.out.add("integer_same", gives.name, of.name, number, truth)
        for gives, of, mask, value in facts.fills:
            if gives in live:
                self.out.add("integer_fill", gives.name, of.name, mask.name, value)
        for gives, of, low, high in facts.clamps:
            if gives in live:
                self.out.add("integer_clamp", gives.name, of.name, low, high)
        for gives, rows in facts.sums:
            if gives in live:
                self.out.add("integer_sum", gives.name, len(rows))
                for place, (of, by) in enumerate(rows):
                    self.out.add("integer_term", gives.name, place, of.name, by)
        for base in live:
            if self.side.is_one(View(base, ())):
                self.out.add("constant_one", base.name)


def _extents(view: View) -> list[int]:
    return list(view.shape)


def write_sides(
    out: Emitter, sides: Sequence[tuple[Side, list[Base]]], commutative: frozenset[str]
) -> dict[str, set[Base]]:
    """Rows of both sides; per side the base tensors that are left."""
    ready = []
    for side, roots in sides:
        live = live_bases(roots)
        ready.append((side, live, uses(side, live, roots)))
    order = lead_orders(ready)
    for side, live, count in ready:
        SideEmitter(out, side, live, count, order, commutative).write()
        made = {op.signature for op in (*side.operators, *side.alternatives)}
        present = {signature: order[signature] for signature in made & set(order)}
        for signature, place in sorted(side.linear):
            if signature in present:
                out.add("linear_in", signature, present[signature].index(place))
        for signature in sorted(side.draws & set(present)):
            out.add("random_draw", signature)
        if "sum" in present:
            out.add("plain_sum", "sum")
        for name in sorted({"max", "min"} & set(present)):
            out.add("plain_extremum", name)
        for signature, place, kind in sorted(side.passes):
            if signature in present:
                out.add("lets_pass", signature, present[signature].index(place), kind)
    return {side.name: live for side, live, _ in ready}
