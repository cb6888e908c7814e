"""Which dimensions an operator lines up, from its lowering: dimensions with one label are one size.

The graphs are lowered as ``extract`` does it, by a side that notes for every operator which
dimensions of its operands and results have a letter in common, and for sums, slices and
concatenations how their dimensions follow from each other. What is only repeated has no digits in a
base tensor; it gets a place of its own, so that it, too, is one size wherever it appears.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gg_datalog.extract.case import load_case
from gg_datalog.extract.collectives import World
from gg_datalog.extract.context import Context, Notes
from gg_datalog.extract.graph import is_symbolic
from gg_datalog.extract.labels import Letters, Naming
from gg_datalog.extract.relations import input_rows
from gg_datalog.extract.side import Side
from gg_datalog.extract.table import Table
from gg_datalog.extract.view import Base, Digit, View
from gg_datalog.replay.atoms import Dim, cut, extent, fix, fixed, fresh, off_by, unify
from gg_datalog.replay.documents import Documents

Dims = list[Dim]
NOBODY = -1  # the place of a repetition in a view as lowering makes it


@dataclass(repr=False)
class Lined:
    """The dimensions of base tensors and of repetitions as products of sizes."""

    bases: dict[Base, Dims] = field(default_factory=dict)
    spans: dict[int, Dim] = field(default_factory=dict)
    parts: dict[tuple[Base | None, Digit], Dim] = field(default_factory=dict)

    def dims(self, view: View) -> Dims:
        """The dimensions of a view."""
        return [[a for digit in dim for a in self._part(view.base, digit)] for dim in view.dims]

    def _part(self, base: Base, digit: Digit) -> Dim:
        if digit.dim == NOBODY:
            return size_of(digit.extent)
        key = (base if digit.dim >= 0 else None, digit)
        if key not in self.parts:
            self.parts[key] = self._cut(base, digit)
        return self.parts[key]

    def _cut(self, base: Base, digit: Digit) -> Dim:
        if digit.dim >= 0:
            whole = self.bases.setdefault(base, list(map(size_of, base.shape)))[digit.dim]
        else:
            whole = self.spans[digit.dim]
        outer = extent(whole) // (digit.stride * digit.extent)
        if outer == digit.stride == 1:
            return whole
        part = fresh(digit.extent)
        unify(whole, [*fresh(outer), *part, *fresh(digit.stride)])
        return part

    def named(self, value: Any) -> Any:
        """A view whose repetitions have places of their own."""
        if isinstance(value, tuple):
            return tuple(map(self.named, value))
        if not isinstance(value, View) or not any(d.dim == NOBODY for x in value.dims for d in x):
            return value
        return replace(value, dims=tuple(tuple(map(self._placed, dim)) for dim in value.dims))

    def _placed(self, digit: Digit) -> Digit:
        if digit.dim != NOBODY:
            return digit
        place = NOBODY - 1 - len(self.spans)
        self.spans[place] = size_of(digit.extent)
        return Digit(place, digit.extent, 1)


def size_of(number: int) -> Dim:
    """A size of which nothing is known yet; one that depends on data stays."""
    return fixed(number) if is_symbolic(number) else fresh(number)


@dataclass(repr=False)
class Made:
    """What one operator makes of nothing (classes, positions), and what has to be whole for it;
    ``blind`` where nothing else is known of it."""

    node: str
    created: Dims
    whole: Dims
    blind: bool


@dataclass
class Watched(Side):
    """A side that notes what its operators line up."""

    lined: Lined = field(default_factory=Lined)
    made: dict[int, list[Made]] = field(default_factory=dict)
    letters: dict[tuple[int, str], dict[str, Dim]] = field(default_factory=dict)

    def operator(
        self,
        signature: str,
        operands: Sequence[tuple[View, Letters]],
        results: Sequence[Letters],
        naming: Naming,
        created: dict[str, int] | None = None,
        *rest: Any,
        **more: Any,
    ) -> list[View] | None:
        """Dimensions with one letter are one."""
        outs = super().operator(signature, operands, results, naming, created, *rest, **more)
        if outs is None:
            return None
        known: dict[str, Dim] = {}
        for view, letters in operands:
            _join(known, letters, self.lined.dims(view))
        carried = set(known)
        for letter, number in (created or {}).items():
            known.setdefault(letter, size_of(number))
        outs = [self.lined.named(view) for view in outs]
        for view, letters in zip(outs, results, strict=True):
            _join(known, letters, self.lined.dims(view))
        self.letters.setdefault((self.at.rank, self.at.node), {}).update(known)
        if created and operands:
            self._note(known, carried, created, naming)
        return outs

    def _note(
        self, known: dict[str, Dim], carried: set[str], created: Mapping[str, int], naming: Naming
    ) -> None:
        kinds = {n: naming(n, (0,))[1] for n in carried - set(created)}
        whole = [known[n] for n, kind in kinds.items() if kind == "whole"]
        new = [known[n] for n in created]
        blind = all(kind == "whole" for n, kind in kinds.items() if known[n])
        self.made.setdefault(self.at.rank, []).append(Made(self.at.node, new, whole, blind))

    def sum(self, terms: Sequence[View], kind: str = "sum", integers: bool = False) -> View | None:
        """Terms are of one shape."""
        out: View | None = self.lined.named(super().sum(terms, kind, integers))
        if out is not None:
            _equal([self.lined.dims(v) for v in (*terms, out)])
        return out

    def slice(self, view: View, dim: int, start: int, size: int) -> View | None:
        """All dimensions but one stay."""
        out: View | None = self.lined.named(super().slice(view, dim, start, size))
        if out is not None and out is not view:
            dims = self.lined.dims(view)
            dims[dim] = piece(dims[dim], start, size)
            _equal([dims, self.lined.dims(out)])
        return out

    def concat(self, views: Sequence[View], dim: int, local: bool = True) -> View | None:
        """All dimensions but one are the same."""
        out: View | None = self.lined.named(super().concat(views, dim, local))
        if out is not None and len(views) > 1:
            every = [self.lined.dims(v) for v in views]
            along = joined([dims[dim] for dims in every])
            for dims in every:
                dims[dim] = []
            last = self.lined.dims(out)
            unify(last[dim], along)
            last[dim] = []
            _equal([*every, last])
        return out


def _join(known: dict[str, Dim], letters: Letters, dims: Dims) -> None:
    for letter, dim in zip(letters, dims, strict=True):
        if letter not in known or extent(known[letter]) == 1:
            known[letter] = dim
        elif extent(dim) != 1:
            unify(known[letter], dim)


def _equal(every: Sequence[Dims]) -> None:
    for dims in every[1:]:
        for a, b in zip(every[0], dims, strict=True):
            if extent(a) == extent(b):
                unify(a, b)


def piece(dim: Dim, start: int, size: int) -> Dim:
    """Positions from ``start`` on: counted in units of a size; the first or the last one is what
    it is in any size."""
    if size == 1 and start in (0, extent(dim) - 1):
        return []
    ends = [start, start + size]
    by = off_by(dim, ends)
    unit = cut(dim, [end - by for end in ends])
    return [*fixed(size // extent(unit)), *unit]


def joined(along: Sequence[Dim]) -> Dim:
    """Dimensions one after the other: in units of one size."""
    widths = [extent(d) for d in along]
    units = [cut(d, widths) for d in along]
    for unit in units[1:]:
        unify(units[0], unit)
    return [*fixed(sum(widths) // extent(units[0])), *units[0]]


class Noted(dict[str, Any]):
    """The values of nodes as they were made, whatever was written into them afterwards."""

    def __init__(self, lined: Lined) -> None:
        super().__init__()
        self.lined = lined
        self.first: dict[str, Any] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        named = self.lined.named(value)
        self.first.setdefault(name, named)
        super().__setitem__(name, named)


@dataclass(repr=False)
class Lowered:
    """What is known of one graph."""

    side: Watched
    rank: int
    values: Mapping[str, Any]

    def dims(self, name: str) -> Any:
        """The dimensions of a node: of one tensor, of several, or None."""
        return self._dims(self.values.get(name))

    def _dims(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._dims, value))
        return self.side.lined.dims(value) if isinstance(value, View) else None

    def unknown(self, name: str) -> bool:
        """Did nothing describe the node?"""
        value = self.values.get(name)
        found = [v for v in (value if isinstance(value, tuple) else (value,)) if v is not None]
        return not found or any(map(_is_opaque, found))

    def open(self, name: str, item: int | None = None) -> list[bool]:
        """Per dimension of a node: does nothing say what it is one with? It is repeated, or
        memory that nobody has written."""
        value = self.values.get(name)
        value = value[item] if isinstance(value, tuple) and item is not None else value
        if not isinstance(value, View):
            return []
        empty = value.base.kind == "uninitialised"
        return [empty or any(d.dim < 0 for d in dim) for dim in value.dims]

    def letters(self, name: str) -> Mapping[str, Dim]:
        """The dimensions of the operators that a node was lowered to, by letter."""
        return self.side.letters.get((self.rank, name), {})

    def made(self) -> list[Made]:
        """What its operators made of nothing."""
        return self.side.made.get(self.rank, [])


def _is_opaque(value: Any) -> bool:
    return isinstance(value, View) and value.base.kind in ("opaque", "mismatch")


def lower(case: Documents, table: Table) -> dict[tuple[str, int], Lowered]:
    """All graphs of a case."""
    with tempfile.TemporaryDirectory() as folder:
        checked = load_case(case.write(Path(folder)))
    related = input_rows(checked)
    found: dict[tuple[str, int], Lowered] = {}
    for name, graphs in (("seq", {0: checked.seq}), ("dist", checked.dist)):
        prefix = (lambda _: "") if name == "seq" else (lambda rank: f"r{rank}.")
        side = Watched(name, prefix)
        contexts = {}
        for rank, graph in graphs.items():
            mine = {r.seq if name == "seq" else r.dist for r in related
                    if name == "seq" or r.rank == rank}  # fmt: skip
            values = Noted(side.lined)
            contexts[rank] = Context(graph, side, table, Notes(), frozenset(mine), values=values)
            found[name, rank] = Lowered(side, rank, values.first)
        World(contexts, checked.groups[name]).run()
    return found


__all__ = ["Dims", "Lowered", "fix", "joined", "lower", "piece"]
