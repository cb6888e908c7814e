"""One side of a case as base tensors and what gives them, value-numbered as it is built."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate, groupby
from math import prod
from typing import Any

from gg_datalog.extract import pieces
from gg_datalog.extract.blanks import Blank, learn
from gg_datalog.extract.dtypes import ring
from gg_datalog.extract.halves import Half
from gg_datalog.extract.labels import Letters, Naming, Space, space
from gg_datalog.extract.notes import Cut, Notes
from gg_datalog.extract.piecewise import sliced
from gg_datalog.extract.records import (
    Concat,
    DigitMap,
    IntegerFacts,
    Label,
    Lookup,
    OneHot,
    Operator,
    Slice,
    Sum,
)
from gg_datalog.extract.scale import ONE, Scale
from gg_datalog.extract.view import Base, Digit, Dims, View, compose, cut, identity, merge

Record = Operator | Sum | Slice | Concat


@dataclass
class At:
    """The node that is being lowered, for names and messages."""

    rank: int = 0
    node: str = ""
    target: str = ""
    attributes: str = ""


@dataclass
class Side:
    """Everything one side computes: ``name`` is ``seq`` or ``dist``."""

    name: str
    prefix: Callable[[int], str]
    operators: list[Operator] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    concats: list[Concat] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)
    onehots: dict[Base, OneHot] = field(default_factory=dict)
    alternatives: list[Operator] = field(default_factory=list)
    # integers that programs of the other side are written with: they cannot ignore others. None
    # where those have a loss operator themselves, which ignores what it is told to
    told: frozenset[int] | None = None
    samples: tuple[tuple[int, int], ...] = ()  # between what integers lie that were tried
    exponentials: bool = False  # does some program write exponentials out?
    late: bool = False  # does a rank divide tensors by numbers that depend on data?
    # dimensions in space, from the last one on, that one program cuts or pads in another way
    shifted: frozenset[int] = frozenset()
    taps: set[Base] = field(default_factory=set)  # sums over the taps of a convolution
    moments: bool = False  # does one program take variances, or norm, in another way?
    single: bool = False  # does no program compute in more than float32?
    fills: bool = False  # does some program fill in numbers under a mask?
    bounds: bool = False  # does the sequential program keep numbers above others?
    mesh: bool = False  # are tensors cut in more than one way?
    padding: bool = False  # do inputs end behind the sequential ones that they hold?
    # member by member: the widths of what products are put together from, and of those of the other
    # side (None: not known yet, or there are none)
    widths: set[tuple[int, ...]] = field(default_factory=set)
    others: set[tuple[int, ...]] | None = None
    blocks: list[Sum] = field(default_factory=list)  # other forms of sums, and what they need
    spread: dict[Base, Sum] = field(default_factory=dict)  # multiples of sums, term by term
    integers: IntegerFacts = field(default_factory=IntegerFacts)
    bases: list[Base] = field(default_factory=list)
    at: At = field(default_factory=At)
    notes: Notes = field(default_factory=Notes)
    draws: set[str] = field(default_factory=set)  # signatures of random operators
    # by rank and node: which numbers it draws (`-` without a seed), and the form that they get
    streams: dict[tuple[int, str], tuple[str, str]] = field(default_factory=dict)
    linear: set[tuple[str, int]] = field(default_factory=set)
    passes: set[tuple[str, int, str]] = field(default_factory=set)
    _numbered: dict[Any, Any] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _formed: set[Base] = field(default_factory=set)  # noted in another form

    # ---- base tensors ------------------------------------------------------------------------
    def base(self, shape: Sequence[int], kind: str, needs: Sequence[Base] = ()) -> Base:
        """A new base tensor of the current node, without its dimensions of one position."""
        name = self._fresh(f"{self.prefix(self.at.rank)}{plain_name(self.at.node)}")
        kept = tuple(e for e in shape if e != 1)
        base = Base(name, kept, kind, "", self.at.rank, self.at.node, list(needs))
        if kind in ("sum", "slice", "concat"):  # of formal integers they are formal
            base.ring = ring(needs)
        self.bases.append(base)
        return base

    def _fresh(self, stem: str) -> str:
        """An id that no other base tensor has."""
        name, count = stem, 0
        while name in self._names:
            count += 1
            name = f"{stem}#{count}"
        self._names.add(name)
        return name

    def source(self, shape: Sequence[int], kind: str, needs: Sequence[Base] = ()) -> View:
        """A tensor that no operator describes: an input, uninitialised memory, something opaque
        that is computed in an unknown way from ``needs``."""
        return View(base := self.base(shape, kind, needs), _dims_of(shape, base))

    def constant(self, value: Scale) -> View:
        """A scalar constant: times the base whose value is 1, or the base 0."""
        key = ("constant", value.zero)
        if key not in self._numbered:
            at, self.at = self.at, At(node="zero" if value.zero else "one", target="constant")
            base = self.base((), "constant")
            signature = "constant 0" if value.zero else "constant 1"
            made = Operator(base.name, signature, [], (), [], [(base, ())], "constant", base.node)
            self._made(made, [base], self.operators)
            base.range = (0, 0) if value.zero else (1, 1)
            self._numbered[key], self.at = base, at
        view = View(self._numbered[key], ())
        return view if value.zero else view.scaled(value)

    def is_one(self, view: View) -> bool:
        """Is it a constant (times the base 1)?"""
        return view.base is self._numbered.get(("constant", False))

    def is_zero(self, view: View) -> bool:
        """Is it the constant 0?"""
        return view.base is self._numbered.get(("constant", True))

    def _made(self, record: Record, gives: Sequence[Base], into: list[Any]) -> None:
        record.target, record.node, record.rank = self.at.target, self.at.node, self.at.rank
        for base in gives:
            base.made = record
        into.append(record)
        learn(self.notes, record)

    # ---- operators
    def operator(
        self,
        signature: str,
        operands: Sequence[tuple[View, Letters]],
        results: Sequence[Letters],
        naming: Naming,
        created: dict[str, int] | None = None,
        numbered: bool = True,
        linear: Sequence[int] = (),
        passes: Sequence[tuple[int, str]] = (),
        formal: bool = False,
    ) -> list[View] | None:
        """The results of an operator (None where the operands' digits do not fit together).

        ``linear`` lists operands that open sums and scalar factors may pass, ``passes`` those that
        open maxima or minima may pass: (place, kind).
        """
        of = ring(v.base for v, _ in operands)
        if of and not formal:
            raise ValueError(f"formal integers of type {of} as numbers")
        made = space(operands, naming, created)
        if made is None:
            return None
        unused = [f"{x.factor}:{x.extent}" for x in made.labels if x.kind == "created"]
        signature += f" over {', '.join(unused)}" if unused and operands else ""
        self.linear.update((signature, i) for i in linear)
        self.passes.update((signature, i, kind) for i, kind in passes)
        outs = [made.result(letters) for letters in results]
        key = self._operator_key(signature, [v for v, _ in operands], made, [o[0] for o in outs])
        bases = self._numbered.get(key) if numbered else None
        if bases is None:
            bases = self._new_operator(signature, [v for v, _ in operands], made, outs)
            for base in bases:
                base.ring = of
            coarse = space(operands, naming, created, ("parallel",))
            if coarse is not None and coarse.labels != made.labels:
                results_of = [coarse.result(letters)[0] for letters in results]
                self._other_form(bases, coarse, results_of)
            if numbered:
                self._numbered[key] = bases
        return [View(b, dims) for b, (_, dims) in zip(bases, outs, strict=True)]

    def _operator_key(
        self, signature: str, views: Sequence[View], made: Space, outs: Sequence[tuple[int, ...]]
    ) -> Any:
        of = tuple((v.base, v.scale) for v in views)
        return ("operator", signature, of, made.labels, tuple(made.maps), tuple(outs))

    def _new_operator(
        self, signature: str, views: list[View], made: Space, outs: Sequence[Any]
    ) -> list[Base]:
        needs = [v.base for v in views]
        gives = [
            (self.base([made.labels[k].extent for k in labels], "operator", needs), labels)
            for labels, _ in outs
        ]
        name = gives[0][0].name
        record = Operator(name, signature, views, made.labels, made.maps, gives)
        self._made(record, [b for b, _ in gives], self.operators)
        return [b for b, _ in gives]

    def _other_form(
        self, bases: Sequence[Base], made: Space, results: Sequence[tuple[int, ...]]
    ) -> None:
        """The operator that gives ``bases`` with a reduced dimension as one label, however many
        digits it shows: a range of heads may be no range of groups and of heads in a group."""
        given = bases[0].made
        assert isinstance(given, Operator)
        gives = list(zip(bases, results, strict=True))
        self._form(given, given.signature, given.operands, made, gives)

    def _form(
        self,
        given: Operator | Concat,
        signature: str,
        operands: list[View],
        made: Space,
        gives: list[tuple[Base, tuple[int, ...]]],
    ) -> None:
        """One more operator that gives what ``given`` does."""
        name = f"{given.name}?other{len(self.alternatives)}"
        record = Operator(name, signature, operands, made.labels, made.maps, gives)
        record.target, record.node, record.rank = given.target, given.node, given.rank
        record.made_as = given
        self.alternatives.append(record)

    def as_contraction(self, product: Base) -> None:
        """Notes a product, element by element, as a contraction over no dimension: what is left of
        one where a rank has a single position of what is contracted."""
        made = product.made
        if not isinstance(made, Operator) or product in self._formed or made.signature != "mul":
            return  # (a product of flat buffers is put together from pieces)
        self._formed.add(product)
        ours, theirs = ({label for row in m for _, label, _ in row} for m in made.maps)
        labels = tuple(
            Label(x.extent, "b" if k in ours & theirs else "i" if k in ours else "j", x.kind)
            for k, x in enumerate(made.labels)
        )
        self._form(made, "contract", made.operands, Space(labels, made.maps, {}), made.gives)

    def alternative(self, given: View, other: View) -> None:
        """Notes that ``other`` is ``given`` computed in another way, where both are results of
        operators and lie over their bases in the same way."""
        made = other.base.made
        other = replace(other, dims=tuple(map(merge, other.dims)))
        order = _order(given, other)
        known = any(o.gives[0][0] is given.base and o.made_as is made for o in self.alternatives)
        if not isinstance(made, Operator) or given.scale != other.scale or known:
            return
        if order is None:
            return
        if given.base is other.base:
            return
        forms = [o for o in self.alternatives if o.gives[0][0] is other.base]
        for form in (made, *forms):
            self._also(given, form, order)

    def _also(self, given: View, made: Operator, order: Sequence[int]) -> None:
        """``made`` as one more operator that gives ``given``, its dimensions in this order."""
        name = f"{given.base.name}?other{len(self.alternatives)}"
        gives = [(given.base, tuple(made.gives[0][1][i] for i in order))]
        record = Operator(name, made.signature, made.operands, made.labels, made.maps, gives)
        record.target, record.node, record.rank = made.target, made.node, made.rank
        record.made_as = made
        given.base.needs += [v.base for v in made.operands if v.base is not given.base]
        self.alternatives.append(record)

    # ---- sums
    def sum(self, terms: Sequence[View], kind: str = "sum", integers: bool = False) -> View | None:
        """The sum (max, min) of terms of one shape (already broadcast)."""
        terms = [t for t in terms if kind != "sum" or not self.is_zero(t)] or list(terms[:1])
        if kind != "sum":
            terms = list(dict.fromkeys(terms))
        if len(terms) == 1:
            return terms[0]
        if kind == "sum" and (merged := collected(terms)) is not None:
            terms = merged
        if len(terms) == 1:
            return terms[0]
        over, back = floated(terms)
        letters = [str(i) for i in range(len(over[0].dims))]
        made = space([(t, letters) for t in over], _elementwise)
        if made is None:
            return None
        labels, dims = made.result(letters)
        of = ((t.base.name, str(t.scale), repr(m)) for t, m in zip(over, made.maps, strict=True))
        key = ("sum", kind, tuple(sorted(of)), made.labels)
        base = self._numbered.get(key)
        if base is None:
            base = self.base([made.labels[k].extent for k in labels], "sum", [t.base for t in over])
            rows = [_as_term(t, m, made.labels) for t, m in zip(over, made.maps, strict=True)]
            record = Sum(base.name, kind, rows, base)
            self._made(record, [base], self.sums)
            self._numbered[key] = base
            if integers:
                self._integer_sum(base, rows)
        return View(base, dims if back is None else back)

    def sum_in_blocks(self, total: View, terms: Sequence[View]) -> None:
        """Notes other forms of a sum over ranks: of sums over neighbours. Where each rank has a
        cell of a grid, neighbours complete one of its axes, and their sums the other."""
        made = total.base.made
        known = any(block.gives is total.base for block in self.blocks)
        if not self.mesh or known or not isinstance(made, Sum) or len(made.terms) != len(terms):
            return
        for width in (k for k in range(2, len(terms) // 2 + 1) if len(terms) % k == 0):
            sums = []
            for start in range(0, len(terms), width):
                rows = made.terms[start : start + width]
                base = self.base(total.base.shape, "sum", [t.base for t in rows])
                base.made = self._block(Sum(f"{base.name}?block", "sum", rows, base), made)
                self.blocks.append(base.made)
                sums.append(identity(base))
            other = Sum(f"{total.base.name}?by{width}", "sum", sums, total.base)
            self.blocks.append(self._block(other, made))
            total.base.needs += [v.base for v in sums]

    def other_sum(self, given: Base, terms: Sequence[View]) -> None:
        """Notes that ``given`` is the sum of ``terms``, which have its dimensions, as well."""
        made = given.made
        key = ("other sum", given, frozenset(terms))
        if len(terms) < 2 or not isinstance(made, (Operator, Sum)) or key in self._numbered:
            return
        self._numbered[key] = given
        found = Sum(f"{given.name}?sum{len(self.blocks)}", "sum", list(terms), given, other=True)
        if isinstance(made, Sum) and set(made.terms) == set(found.terms):
            return
        found.target, found.node, found.rank = made.target, made.node, made.rank
        self.blocks.append(found)
        given.needs += [v.base for v in terms]

    def sum_of_multiples(self, multiple: Base, terms: list[View]) -> None:
        """Notes a multiple (or a quotient) of a sum as the sum of the multiples of its terms."""
        made = multiple.made
        if isinstance(made, Operator) and multiple not in self.spread:
            self.spread[multiple] = Sum(f"{multiple.name}?spread", "sum", terms, multiple)
            multiple.needs += [v.base for v in terms]

    @staticmethod
    def _block(block: Sum, made: Sum) -> Sum:
        block.target, block.node, block.rank = made.target, made.node, made.rank
        return block

    def _integer_sum(self, base: Base, terms: Sequence[View]) -> None:
        whole = identity(base).dims
        rows: list[tuple[Base, int]] = []
        for term in sorted(terms, key=self.is_one):
            factor = term.scale.integer
            if factor is None or not (self.is_one(term) or term.dims == whole):
                return
            rows.append((term.base, factor))
        self.integers.sums.append((base, rows))

    # ---- slices and concatenations
    def slice(self, view: View, dim: int, start: int, size: int) -> View | None:
        """Positions [start, start+size) of dimension ``dim``."""
        if size == view.shape[dim]:
            return view
        digits = view.dims[dim]
        if digits[0].dim < 0:
            inner = view.shape[dim] // digits[0].extent
            if start % inner == 0 and size % inner == 0:
                kept = (Digit(-1, size // inner, 1),) if size > inner else ()
                return _with_dim(view, dim, (*kept, *digits[1:]))
        found = self._member(view, dim, start, size) or sliced(self, view, dim, start, size)
        return found or self.plain_slice(view, dim, start, size)

    def plain_slice(self, view: View, dim: int, start: int, size: int) -> View | None:
        """The same, whatever the view is put together from."""
        if size == view.shape[dim]:
            return view
        if any(d.dim < 0 for d in view.dims[dim]):
            return None
        letters = [str(i) for i in range(len(view.dims))]
        made = space([(View(view.base, view.dims), letters)], _elementwise, fine=())
        if made is None:
            return None
        labels, dims = made.result(letters)
        label = made.segments[str(dim)][0][0]
        key = ("slice", view.base, made.labels, tuple(made.maps), label, start, size)
        base = self._numbered.get(key)
        shape = [size if k == label else made.labels[k].extent for k in labels]
        if base is None:
            base = self.base(shape, "slice", [view.base])
            of = _as_term(View(view.base, view.dims), made.maps[0], made.labels)
            self._made(Slice(base.name, of, label, start, size, base), [base], self.slices)
            self._numbered[key] = base
            dims_of = tuple(k for k, e in zip(labels, shape, strict=True) if e != 1)
            self.notes.cuts[base] = Cut(of, label, start, size, dims_of)
        out = View(base, _resized(dims, label, shape)).scaled(view.scale)
        if (flat := pieces.line(view)) is not None:
            pieces.note_origin(self, pieces.flattened(out), pieces.Span(flat, start, size))
        return out

    def _member(self, view: View, dim: int, start: int, size: int) -> View | None:
        """A slice of a concatenation that lies inside one member is a slice of that member."""
        record = view.base.made
        digits = view.dims[dim]
        if not isinstance(record, Concat) or len(digits) != 1:
            return None
        digit = digits[0]
        if digit.dim != record.dim or digit.extent != view.base.shape[record.dim]:
            return None
        for member, offset in record.members:
            width = member.shape[record.dim]
            if offset <= start and start + size <= offset + width:
                kept = (Digit(digit.dim, width, 1),) if width > 1 else ()
                inside = compose(_with_dim(view, dim, kept), member.dims, member.base, member.scale)
                return None if inside is None else self.slice(inside, dim, start - offset, size)
        return None

    def concat(self, views: Sequence[View], dim: int, local: bool = True) -> View | None:
        """Views one after the other along ``dim``; flat ones as the pieces of which they are."""
        flat = [pieces.flattened(v) for v in views]
        if len(views) > 1 and all(
            v.shape[dim] == f.shape[0] for v, f in zip(views, flat, strict=True)
        ):
            found = [pieces.spans_of(self, f) for f in flat]
            local = local and all(alike for _, alike in found)
            made = pieces.in_line(self, [s for spans, _ in found for s in spans], local)
            shape = [
                sum(v.shape[dim] for v in views) if k == dim else 1
                for k in range(len(views[0].dims))
            ]
            return None if made is None else made.reshaped(shape)
        return self.plain_concat(views, dim, local)

    def plain_concat(
        self, views: Sequence[View], dim: int, local: bool, spans: pieces.Spans = ()
    ) -> View | None:
        """Views one after the other, as they are. It is noted that they are ``spans``."""
        if len(views) == 1:
            return views[0]
        if (whole := self._regrouped(views, dim)) is not None:
            return whole
        repeats = [k for k in range(len(views[0].dims)) if k != dim and _repeated(views, k)]
        if repeats:
            once = [_with_dims(v, dict.fromkeys(repeats, ())) for v in views]
            made = self.plain_concat(once, dim, local)
            return made and _with_dims(made, {k: views[0].dims[k] for k in repeats})
        common = views[0].scale if len({v.scale for v in views}) == 1 else ONE
        members = [View(v.base, v.dims, ONE if common == v.scale else v.scale) for v in views]
        if any(d.dim < 0 for v in members for one in v.dims for d in one):
            return None
        shape = list(members[0].shape)
        shape[dim] = sum(v.shape[dim] for v in members)
        key = ("concat", dim, tuple((v.base, v.dims, v.scale) for v in members))
        base = self._numbered.get(key)
        if base is None:
            base = self.base(shape, "concat", [v.base for v in members])
            kept = [i for i, e in enumerate(shape) if e != 1]
            rows, offset = [], 0
            for v in members:
                rows.append((View(v.base, tuple(v.dims[i] for i in kept), v.scale), offset))
                offset += v.shape[dim]
            record = Concat(base.name, rows, kept.index(dim), base, local)
            self._made(record, [base], self.concats)
            self._also_flat(record)
            self._numbered[key] = base
            back = common.inverse()
            noted = [s._replace(of=s.of.scaled(back)) for s in spans]
            self._note_pieces(
                base, _dims_of(shape, base), dim, noted or _as_spans(members, dim), local
            )
        return View(base, _dims_of(shape, base)).scaled(common)

    def _also_flat(self, made: Concat) -> None:
        """Notes a rank's concatenation of concatenations along the same dimension as one of all
        their members, which may lie at equal steps: a cache into which head by head is put."""
        members = pieces.members_of(made, pieces.MOST)
        if self.name != "dist" or not made.local or len(members) == len(made.members):
            return
        record = Concat(f"{made.name}?flat", members, made.dim, made.gives, True, other=True)
        record.target, record.node, record.rank = made.target, made.node, made.rank
        made.gives.needs += [view.base for view, _ in members]
        self.concats.append(record)

    def opaque_concat(
        self, views: Sequence[View], dim: int, local: bool, spans: pieces.Spans = ()
    ) -> View | None:
        """Views one after the other, some of which repeat: an operator that needs them whole. What
        lies between zeros is put together first, in however many pieces it came."""
        if any(v.base.ring for v in views):  # what is no number yet
            return None
        signature, given, out, created = _as_opaque(self._between_zeros(views, dim, local), dim)
        made = self.operator(signature, given, [out], _whole, created)
        if made is None:
            return None
        self._note_pieces(made[0].base, made[0].dims, dim, spans or _as_spans(views, dim), local)
        if self.padding and local:
            self._among_zeros(made[0], views, dim)
        return made[0]

    def _among_zeros(self, made: View, views: Sequence[View], dim: int) -> None:
        """Notes views between zeros as members of a concatenation, and from where on it is 0."""
        kept = [k for k, digits in enumerate(made.dims) if digits]
        ends = list(accumulate(v.shape[dim] for v in views))
        inside = [(v, end) for v, end in zip(views, ends, strict=True) if not self.is_zero(v)]
        plain = not any(d.dim < 0 for v, _ in inside for one in v.dims for d in one)
        lies = tuple(made.dims[k] for k in kept) == identity(made.base).dims and dim in kept
        if not (plain and lies and inside) or made.base in self._formed:
            return
        self._formed.add(made.base)
        rows = [
            (View(v.base, tuple(v.dims[k] for k in kept), v.scale), end - v.shape[dim])
            for v, end in inside
        ]
        name, given = f"{made.base.name}?members", made.base.made
        assert isinstance(given, Operator)
        record = Concat(name, rows, kept.index(dim), made.base, True, other=True)
        record.target, record.node, record.rank = given.target, given.node, given.rank
        made.base.needs += [v.base for v, _ in inside]
        self.concats.append(record)
        behind = Half(-1, kept.index(dim), inside[-1][1])
        if inside[-1][1] < ends[-1]:
            self.notes.blanks.setdefault(made.base, Blank(0, (behind,), False))

    def _between_zeros(self, views: Sequence[View], dim: int, local: bool) -> list[View]:
        """Views with those in one where they follow each other without zeros between them."""
        found: list[View] = []
        for zero, run in groupby(views, key=self.is_zero):
            row = list(run)
            made = None if zero else self.plain_concat(row, dim, local)
            found += row if made is None else [made]
        return found

    def as_opaque(self, joined: View, views: Sequence[View], dim: int) -> None:
        """Notes a concatenation as the operator that it is where a member is repeated along a
        dimension: of that a rank may have a single position."""
        given = joined.base.made
        if not isinstance(given, Concat) or joined.base in self._formed:
            return
        self._formed.add(joined.base)
        signature, operands, out, created = _as_opaque(views, dim)
        made = space(operands, _whole, created)
        if made is None or joined.base.ring or joined.scale != ONE:
            return
        labels, dims = made.result(out)
        if (dims, joined.base.shape) != (joined.dims, tuple(made.labels[k].extent for k in labels)):
            return
        signature += f" over c:{created['c']}"
        self._form(given, signature, list(views), made, [(joined.base, labels)])

    def _note_pieces(
        self, base: Base, dims: Dims, dim: int, spans: Sequence[pieces.Span], local: bool
    ) -> None:
        note = pieces.Pieces(dims, dim, tuple(spans), local)
        self.notes.pieces.setdefault(base, note)

    def _regrouped(self, views: Sequence[View], dim: int) -> View | None:
        """All equal slices of one tensor, in order, put one after the other along ``dim``: the
        tensor itself, its dimensions in other digits (as a chunk along one dimension and a
        concatenation along another make it)."""
        cuts = [self.notes.cuts.get(view.base) for view in views]
        first = cuts[0]
        if first is None or len({(v.dims, v.scale) for v in views}) > 1:
            return None
        size = first.size
        expected = [first._replace(start=i * size) for i in range(len(views))]
        sliced = first.of.dims[first.label]
        outer = cut(sliced, size, len(views))
        if cuts != expected or prod(d.extent for d in sliced) != size * len(views) or not outer:
            return None
        if any(digit.dim < 0 for digit in outer):
            return None
        dims: list[list[Digit]] = []
        for one in views[0].dims:
            under = [first.under(digit) for digit in one]
            if any(digits is None for digits in under):
                return None
            dims.append([digit for digits in under if digits is not None for digit in digits])
        dims[dim] = [*outer, *dims[dim]]
        return View(first.of.base, tuple(map(tuple, dims)), views[0].scale)


def _order(given: View, other: View) -> tuple[int, ...] | None:
    """The dimensions of the base of ``other`` in the order of those of ``given``, where both views
    show the same positions of their bases; None where they do not."""
    ours, theirs = ([d for dim in v.dims for d in dim] for v in (given, other))
    if [(d.extent, d.stride) for d in ours] != [(d.extent, d.stride) for d in theirs]:
        return None
    if [len(dim) for dim in given.dims] != [len(dim) for dim in other.dims]:
        return None
    pairs = {a.dim: b.dim for a, b in zip(ours, theirs, strict=True)}
    same = all(pairs[a.dim] == b.dim for a, b in zip(ours, theirs, strict=True))
    order = tuple(pairs.get(i, -1) for i in range(len(given.base.shape)))
    if not same or sorted(order) != list(range(len(other.base.shape))):
        return None
    shapes = [other.base.shape[i] for i in order]
    return order if tuple(shapes) == given.base.shape else None


# Ids become fields of records, which are read back as text: brackets, commas, blanks at the ends,
# a number or the word for no record would be taken for something else.
MARKS = re.compile(r"[\[\],?#\s]")
RESERVED = re.compile(r"r\d+\.|-?[0-9]+$|nil$")


def plain_name(node: str) -> str:
    """A node's name as part of an id: marks of our own and prefixes of ranks may not occur."""
    name = MARKS.sub("_", node)
    return f"_{name}" if RESERVED.match(name) else name


def _as_opaque(
    views: Sequence[View], dim: int
) -> tuple[str, list[tuple[View, Letters]], Letters, dict[str, int]]:
    """A concatenation as an operator: signature, operands, the letters of its result, and the
    extent of what it makes."""
    letters = [
        [f"c{i}" if k == dim else str(k) for k in range(len(v.dims))] for i, v in enumerate(views)
    ]
    out = ["c" if k == dim else str(k) for k in range(len(views[0].dims))]
    sizes = [v.shape[dim] for v in views]
    signature = f"cat({','.join(map(str, sizes))})"
    return signature, list(zip(views, letters, strict=True)), out, {"c": sum(sizes)}


def _whole(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
    if letter == "c":
        return "c", "created"
    return (letter, "whole") if letter.startswith("c") else ("e", "parallel")


def floated(views: Sequence[View]) -> tuple[list[View], Any]:
    """Views of one shape. Where all of them (scalars aside) lie over their bases in the same way,
    the bases themselves and the dims that lead back: movement floats outwards."""
    tensors = [v for v in views if v.base.shape]
    same = len({v.dims for v in tensors}) == 1 and len({v.base.shape for v in tensors}) == 1
    if not same or tensors[0].shape != max((v.shape for v in views), key=prod):
        return list(views), None
    scalar = ((),) * len(tensors[0].base.shape)
    over = [
        identity(v.base).scaled(v.scale) if v.base.shape else View(v.base, scalar, v.scale)
        for v in views
    ]
    return over, tensors[0].dims


def _as_spans(views: Sequence[View], dim: int) -> list[pieces.Span]:
    return [pieces.Span(view, 0, view.shape[dim]) for view in views]


def _elementwise(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
    return "e", "parallel"


def collected(terms: Sequence[View]) -> list[View] | None:
    """Equal views added up; None where something cancels (left to the rules as it is)."""
    total: dict[tuple[Base, Dims, tuple[tuple[str, int], ...]], Fraction] = {}
    for term in terms:
        key = (term.base, term.dims, term.scale.atoms)
        total[key] = total.get(key, Fraction(0)) + term.scale.ratio
    if any(ratio == 0 for ratio in total.values()):
        return None
    return [View(b, dims, Scale(r, atoms)) for (b, dims, atoms), r in total.items()]


def _dims_of(shape: Sequence[int], base: Base) -> tuple[tuple[Digit, ...], ...]:
    """Dims of the identity view with the dimensions of one position put back."""
    dims: list[tuple[Digit, ...]] = []
    place = 0
    for extent in shape:
        dims.append((Digit(place, extent, 1),) if extent != 1 else ())
        place += extent != 1
    assert place == len(base.shape)
    return tuple(dims)


def _with_dim(view: View, dim: int, digits: tuple[Digit, ...]) -> View:
    return View(view.base, (*view.dims[:dim], digits, *view.dims[dim + 1 :]), view.scale)


def _with_dims(view: View, dims: Mapping[int, tuple[Digit, ...]]) -> View:
    return replace(view, dims=tuple(dims.get(k, dim) for k, dim in enumerate(view.dims)))


def _repeated(views: Sequence[View], dim: int) -> bool:
    """Does what lies along a dimension only recur, in all of them?"""
    return all(v.dims[dim] and all(d.dim < 0 for d in v.dims[dim]) for v in views)


def _resized(dims: Any, label: int, shape: Sequence[int]) -> Any:
    """Dims after dimension ``label`` of the base got another extent (1: it is dropped)."""
    gone = shape[label] == 1
    out = []
    for dim in dims:
        digits = []
        for d in dim:
            if d.dim == label:
                digits += [] if gone else [Digit(d.dim, shape[label], 1)]
            else:
                digits.append(Digit(d.dim - (gone and d.dim > label), d.extent, d.stride))
        out.append(tuple(digits))
    return tuple(out)


def _as_term(view: View, digit_map: DigitMap, labels: tuple[Label, ...]) -> View:
    """The view with one dimension per label (repetitions where it does not carry the label)."""
    dims: list[list[tuple[int, Digit]]] = [[] for _ in labels]
    for base_dim, digits in enumerate(digit_map):
        step = 1
        for extent, label, stride in digits:
            dims[label].append((stride, Digit(base_dim, extent, step)))
            step *= extent
    done = tuple(
        tuple(d for _, d in sorted(rows, key=lambda r: -r[0]))
        if rows
        else (Digit(-1, label.extent, 1),)
        for rows, label in zip(dims, labels, strict=True)
    )
    return View(view.base, done, view.scale)
