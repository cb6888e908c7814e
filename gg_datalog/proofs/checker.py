"""Checks a certificate step by step: what each rule says is told here once more, by other means.

Nothing is shared with the engines or the rules' translator. They work on records, this works on
sets of positions: a mistake has to be made twice to stay unseen. Whatever does not fit is refused.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from gg_datalog.proofs.places import misplaced
from gg_datalog.proofs.positions import (
    Block,
    Digit,
    Digits,
    Refused,
    Run,
    covered,
    drawn_apart,
    merged,
    need,
    normal,
    only,
)

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
FREE = ("parallel", "created")  # kinds of labels that may be cut
# What `holds` is concluded from, under the names that datalog/ has for it, and of how many things a
# step says that it is applied to.
RULES: Mapping[str, int] = {
    **{"related_input": 1, "operator_holds": 3, "alone_holds": 3, "sum_holds": 5},
    **{"seq_slice_holds": 1, "dist_slice_holds": 1, "seq_member_holds": 2, "dist_concat_holds": 2},
    **{"lookup_holds": 3, "onehot_holds": 3, "counted_range": 2},
    **{"part_closes": 1, "seq_bare": 1, "dist_bare": 1},
}


class Coefficient(NamedTuple):
    """A number, times the scalar `over`, divided by the scalar `under`."""

    number: Fraction
    over: str
    under: str


ONE = Coefficient(Fraction(1), "", "")


class Part(NamedTuple):
    """Of an axis only [lo, lo + n) of `extent` positions has been reduced. The axis is a label of
    an operator, (by, label), behind the operands that passed it on."""

    axis: tuple[tuple[str, int], ...]
    kind: str
    lo: int
    n: int
    extent: int


class Statement(NamedTuple):
    """A step says: dist[positions] = times * Part(seq)[positions]; the outermost part first."""

    dist: str
    seq: str
    times: Coefficient
    parts: tuple[Part, ...]
    block: Block

    def written(self) -> str:
        """As a certificate has it."""
        (seq, dist, runs), times = self.block, self.times.number.as_integer_ratio()
        block = [*seq.values()], [*dist.values()], runs
        return json.dumps([*self[:2], [*times, *self.times[1:]], self.parts, block])


class Label(NamedTuple):
    """A dimension that an operator works along."""

    extent: int
    factor: str
    kind: str


class Half(NamedTuple):
    """Positions with `position(col) - position(row) >= least`, along labels (-1: position 0)."""

    row: int
    col: int
    least: int


class Shape(NamedTuple):
    """How dimensions carry labels: of each operand its digits, of each result its labels."""

    labels: list[Label]
    digits: dict[int, list[Digits]]
    results: dict[int, list[int]]
    faded: Sequence[Half] = ()  # where nothing is added up


class Operand(NamedTuple):
    """A tensor, the scale that it is read with, and how it is seen."""

    tensor: str
    scale: str
    shape: Shape


class Seen(NamedTuple):
    """What statements say of an operand, on labels."""

    times: Coefficient
    parts: tuple[Part, ...]
    block: Block


Uses = Sequence[Sequence[Statement]]  # for each operand the statements that speak of it


class Tally(NamedTuple):
    """How often each range (lo, n) of an axis counts in a sum, under the parts `inner`."""

    axis: tuple[tuple[str, int], ...]
    extent: int
    inner: tuple[Part, ...]
    ranges: dict[tuple[int, int], Coefficient]

    def add(self, kind: str, lo: int, n: int, times: Coefficient) -> None:
        """Counts one more term: of a sum equal ranges are added up, others may not overlap."""
        for a, m in self.ranges:
            need((a, m) == (lo, n) or a + m <= lo or lo + n <= a, "ranges overlap")
        before = self.ranges.get((lo, n))
        if before is not None and kind == "sum":
            total = before.number + times.number
            need(before[1:] == times[1:] and total, "terms cancel")
            times = times._replace(number=total)
        self.ranges[lo, n] = times

    def left(self, kind: str) -> tuple[Part, ...]:
        """What is still open once all ranges are added up."""
        spans = sorted(self.ranges)
        need(all(a + m == b for (a, m), (b, _) in pairwise(spans)), "a range is left out")
        lo, n = spans[0][0], sum(m for _, m in spans)
        whole = n == self.extent
        return self.inner if whole else (Part(self.axis, kind, lo, n, self.extent), *self.inner)


def sole(uses: Uses) -> Statement:
    """The one statement that a step uses."""
    return only(only(uses, "one operand is used"), "one statement is used")


def together(blocks: Sequence[Block]) -> Block:
    """Blocks as one: each continues those before it, or as many at a time as do so are one."""
    whole = blocks[0]
    for k, block in enumerate(blocks[1:], 1):
        try:
            whole = whole.joined(block)
        except Refused:
            need(k > 1 and len(blocks) % k == 0, "pieces do not continue each other")
            return together([together(blocks[i : i + k]) for i in range(0, len(blocks), k)])
    return whole


def add_up(every: Sequence[Statement]) -> bool:
    """Are these the parts of one sum, one after the other, of the same positions?"""
    first = every[0]
    parts = [only(x.parts, "the parts do not add up") for x in every]
    alike = all(
        (part.axis, part.kind, part.extent, x.block)
        == (parts[0].axis, "sum", parts[0].extent, first.block)
        for part, x in zip(parts, every, strict=True)
    )
    spans = sorted((part.lo, part.lo + part.n) for part in parts)
    ends, begins = [0, *(b for _, b in spans)], [*(a for a, _ in spans), parts[0].extent]
    return alike and ends == begins


def multiplied(a: Coefficient, b: Coefficient) -> Coefficient:
    """The product; of scalars at most one may be left above and one below the line."""
    over, under = (Counter(x for x in pair if x) for pair in zip(a[1:], b[1:], strict=True))
    above, below = [*(over - under).elements()], [*(under - over).elements()]
    need(len(above) < 2 and len(below) < 2, "two scalars are multiplied")
    return Coefficient(a.number * b.number, "".join(above), "".join(below))


def line(block: Block, label: int, on: int) -> tuple[range, int]:
    """The sequential positions of a label, and where those of label `on` of the ranks, which is
    paired with it, begin (-1: the label is position 0)."""
    runs = [run for run in block.runs if (run.seq, run.dist) in ((label, on), (label, -1))]
    beside = [run for run in block.runs if (run.seq == label) != (run.dist == on)]
    need(len(runs) < 2 and not beside and (label in block.seq or label < 0), "other positions")
    need(on in block.dist or on < 0, "other positions of the ranks")
    need(all((run.step, run.stride) == (1, 1) for run in runs), "positions that are apart")
    lo, n = block.seq.get(label, 0), runs[0].n if runs else 1
    return range(lo, lo + n), block.dist.get(on, 0)


def of_seq(block: Block, label: int) -> range:
    """The sequential positions of a label."""
    run = next((run for run in block.runs if run.seq == label), None)
    return line(block, label, -1 if run is None else run.dist)[0]


def fades(shape: Shape, label: int, at: range, where: Callable[[int], range]) -> bool:
    """Does an operator add up nothing of a label beside these positions? `where`: the positions of
    its other labels."""
    behind = at.stop == shape.labels[label].extent
    before = at.start == 0
    for row, col, least in shape.faded:
        if col == label:
            behind |= at.stop - (where(row)[-1] if row >= 0 else 0) >= least
        if row == label:
            before |= (where(col)[0] if col >= 0 else 0) - at.start + 1 >= least
    return behind and before


def counting(dist: Shape, block: Block) -> dict[int, tuple[int, int]]:
    """Per label of the ranks the positions (first, how many) that count."""
    extents = {at: (0, label.extent) for at, label in enumerate(dist.labels)}
    other = block.turned()
    for at in {k for half in dist.faded for k in half[:2]}:
        if at >= 0 and dist.labels[at].kind not in FREE and at in other.seq:
            there = of_seq(other, at)
            if fades(dist, at, there, partial(of_seq, other)):
                extents[at] = there.start, len(there)
    return extents


def opened(
    seq: Shape, dist: Shape, block: Block, by: str, counts: Mapping[int, int] | None = None
) -> tuple[Part, ...]:
    """What an operator leaves open under `block`; refused where it may not be applied. Of labels of
    the ranks only so many positions count."""
    parts, digits = list[Part](), dict[int, str]()
    extents = counting(dist, block) | {at: (0, n) for at, n in (counts or {}).items()}
    for at, label in enumerate(seq.labels):
        if label.kind not in FREE:
            mine = [run for run in block.runs if run.seq == at]
            if any(run.step > 1 for run in mine):
                parts.append(digit(seq, dist, block, at, extents)._replace(axis=((by, at),)))
                digits |= {run.dist: label.kind for run in mine}
                continue
            lo, n = block.seq[at], mine[0].n if mine else 1
            for run in mine:
                beside = [other for other in block.runs if other.dist == run.dist]
                alone = len(mine) == len(beside) == 1
                at_dist = block.dist[run.dist], n
                whole = (run.step, run.stride) == (1, 1) and at_dist == extents[run.dist]
                need(alone and whole, "the ranks reduce another range")
            fits = lo + n <= label.extent and (n == label.extent or label.kind != "whole")
            need(fits, "a dimension is not whole")
            one = Part(((by, at),), label.kind, lo, n, label.extent)
            parts += [one] if n < label.extent else []
    for at, label in enumerate(dist.labels):
        if label.kind not in FREE and label.extent > 1:
            other = "the ranks reduce something else"
            if (block.dist.get(at), 1) == extents[at]:  # (of one position no run is told)
                told = {run.seq for run in block.runs}
                alike = (
                    x.factor == label.factor for k, x in enumerate(seq.labels) if k not in told
                )
                need(sum(alike) == 1 and not any(run.dist == at for run in block.runs), other)
                continue
            if at in digits:
                need(digits[at] == label.kind, other)
                continue
            run = only((run for run in block.runs if run.dist == at), other)
            whole = (run.stride, (block.dist[at], run.n)) == (1, extents[at])
            need(whole and seq.labels[run.seq].kind == label.kind, other)
    return tuple(parts)


def digit(
    seq: Shape, dist: Shape, block: Block, at: int, extents: Mapping[int, tuple[int, int]]
) -> Part:
    """A label of which the ranks have the same range out of every so many positions, and reduce
    that as one dimension of their own."""
    label, lo, why = seq.labels[at], block.seq[at], "the ranks reduce another range"
    mine = sorted((run for run in block.runs if run.seq == at), key=lambda run: -run.step)
    outer, n = mine[0], mine[1].n if len(mine) > 1 else 1
    beside = sorted((run for run in block.runs if run.dist == outer.dist), key=lambda r: -r.step)
    need(label.kind not in (*FREE, "whole") and beside == mine and len(mine) < 3, why)
    need(all((run.step, run.stride) == (1, 1) for run in mine[1:]) and outer.stride == n, why)
    need((block.dist[outer.dist], outer.n * n) == extents[outer.dist], why)
    every = outer.n * outer.step == label.extent
    need(every and n < outer.step and lo + n <= outer.step, why)
    return Part((), label.kind, lo, n, outer.step)


def given(seq: Shape, dist: Shape, block: Block, at: int = 0) -> Block:
    """Result `at` under `block`: from labels to the dimensions of both base tensors."""
    ours = {label: dim for dim, label in enumerate(seq.results[at])}
    theirs = {label: dim for dim, label in enumerate(dist.results[at])}
    left, right, runs = dict(block.seq), dict(block.dist), list(block.runs)
    for label in ours.keys() - left.keys():
        same = [k for k in theirs.keys() - right.keys() if dist.labels[k] == seq.labels[label]]
        need(same and seq.labels[label].kind == "created", "a dimension is not spoken of")
        left[label] = right[same[0]] = 0
        runs.append(Run(label, 1, seq.labels[label].extent, same[0], 1))
    need(theirs.keys() <= right.keys(), "a dimension of the ranks' result is not spoken of")
    need(all((r.seq in ours) == (r.dist in theirs) for r in runs), "a dimension is lost")
    lost = [left[k] for k in left if k not in ours and seq.labels[k].kind in FREE]
    lost += [right[k] for k in right if k not in theirs and dist.labels[k].kind in FREE]
    need(not any(lost), "a position is lost")
    kept = [r._replace(seq=ours[r.seq], dist=theirs[r.dist]) for r in runs if r.seq in ours]
    seq_at, dist_at = ({own[k]: x[k] for k in own} for own, x in ((ours, left), (theirs, right)))
    return normal(seq_at, dist_at, kept)


def drawn_alike(pieces: Sequence[tuple[str, Block, str, str]]) -> None:
    """The last of the pieces of one sequential draw, by seed, state and form: equal ones draw the
    same numbers, different ones others."""
    *before, (last, block, stream, form) = pieces
    for of, other, drawn, other_form in before:
        alike = (drawn, other_form) == (stream, form) if other == block else drawn != stream
        need(of == last or alike or drawn == stream == "-", "seeds of draws do not fit")


class Checker:
    """The rules, over the rows of a facts folder."""

    def __init__(self, rows: Mapping[str, Iterable[Sequence[Any]]]) -> None:
        self.rows = {name: sorted(tuple(row) for row in found) for name, found in rows.items()}
        given = self.rows.get("related_input", ())
        self.rows["input_of"] = sorted((*pair, row) for row, *pair in given)
        found = cache(self._shape), cache(self._column), cache(self._indexed)
        self.shape, self.column, self._index = found

    def _indexed(self, name: str, size: int) -> dict[Any, list[Any]]:
        found = groupby(self.rows.get(name, ()), lambda row: row[:size])
        return {key: [row[size:] for row in rows] for key, rows in found}

    def all(self, name: str, *key: Any) -> list[Any]:
        """The rest of every row of relation `name` that begins with `key`, in order."""
        return self._index(name, len(key)).get(key, [])

    def one(self, name: str, *key: Any) -> Any:
        """The rest of the one row that begins with `key`."""
        keys = ", ".join(map(str, key))
        return only(self.all(name, *key), f"the facts have no {name}({keys}, ...)")

    def scale(self, scale: str) -> Coefficient:
        """A scalar of the facts."""
        num, den, over, under = self.one("scale_of", scale)
        return Coefficient(Fraction(num, den), over, under)

    def rises(self, scale: str) -> bool:
        """Is a scalar above 0?"""
        return self.scale(scale).number > 0

    def effect(self, dist: str, times: Coefficient, seq: str) -> Coefficient:
        """What a distributed operand, `dist` times the tensor, is of the sequential one."""
        asked = self.scale(seq)
        inverse = Coefficient(1 / asked.number, asked.under, asked.over)
        return multiplied(multiplied(self.scale(dist), inverse), times)

    def _shape(self, name: str) -> Shape:
        labels = [Label(*row[1:]) for row in self.all("label_of", name)]
        faded = [Half(*row) for row in self.all("label_fades", name)]
        found = Shape(labels, defaultdict(list), {}, faded)
        for at, dim, _ in self.all("digit_count", name):
            found.digits[at].append([])
            weight = 1
            for _, extent, label, unit in self.all("digit_of", name, at, dim):
                found.digits[at][-1].append(Digit(extent, label, unit, weight))
                weight *= extent
        for at, _ in self.all("result_rank", name):
            found.results[at] = [label for _, label in self.all("result_dim", name, at)]
        return found

    def own(self, side: str, tensor: str) -> Operand:
        """A base tensor as it is: one label per dimension."""
        return Operand(tensor, "1", self.shape(self.one(f"{side}_tensor", tensor)[0]))

    def seen(self, used: Sequence[Statement], dist: Operand, seq: Operand, at: int = 0) -> Seen:
        """Statements about operand `at` as one, on labels."""
        first, ours, theirs, whole = used[0], dist.shape, seq.shape, list[Block]()
        for x in used:
            about = x[:4] == (dist.tensor, seq.tensor, first.times, first.parts)
            need(about, "statements about other tensors")
            half = x.block.unfolded(theirs.digits[at]).turned()
            view = half.unfolded(ours.digits[at]).turned()
            pairs = ((theirs.labels[run.seq], ours.labels[run.dist]) for run in view.runs)
            need(all(a.factor == b.factor for a, b in pairs), "unlike dimensions are paired")
            whole = [whole[0].joined(view) if whole else view]
        return Seen(self.effect(dist.scale, first.times, seq.scale), first.parts, whole[0])

    def related_input(self, by: Any, uses: Uses) -> Statement:
        """A row of the input relations."""
        need(not uses, "a row of the input relations rests on nothing")
        (row,), (d, t) = by, self.one("related_input", *by)
        seq, dist, runs = dict[int, int](), dict[int, int](), list[Run]()
        for p, lo, n, q, to in self.all("related_range", row):
            need(q >= 0 or n == 1, "a range without a dimension on the ranks")
            seq[p], dist[q] = lo, to
            runs.append(Run(p, 1, n, q, 1))
            for stride, first, times, dist_stride, start in self.all("related_repeat", row, p):
                seq[p], dist[q] = lo + stride * first, to + dist_stride * start
                runs.append(Run(p, stride, times, q, dist_stride))
        dist.pop(-1, None)
        return Statement(d, t, ONE, (), normal(seq, dist, runs))

    def counted_range(self, by: Any, uses: Uses) -> Statement:
        """Numbers that count with one step: where both have the same ones."""
        need(not uses, "numbers that count rest on nothing")
        d, t = by
        (step, phase, first, n), ours = self.one("dist_counting", d), self.one("seq_counting", t)
        need(ours[:2] == (step, phase), "the numbers differ in their steps")
        both = range(max(first, ours[2]), min(first + n, ours[2] + ours[3]))
        whole = ours[3] > 1 and len(both) in (n, ours[3])
        need(both and whole, "no range of one is the other")
        seq, dist = {0: both[0] - ours[2]}, {0: both[0] - first} if n > 1 else dict[int, int]()
        runs = [Run(0, 1, len(both), 0, 1)] if len(both) > 1 else []
        return Statement(d, t, ONE, (), normal(seq, dist, runs))

    def operator_holds(self, by: Any, uses: Uses) -> Statement:
        """Operators whose operands hold each other."""
        o, s, at = by
        (same, g), (signed, f) = self.one("dist_operator", o), self.one("seq_operator", s)
        need(same == signed, "the operators differ")
        dist = [Operand(of, scale, self.shape(g)) for _, of, scale in self.all("operand_of", o)]
        seen = self._operands(s, dist, uses, o)
        seq = self.shape(f)
        parts = opened(seq, self.shape(g), seen.block, s) + seen.parts
        block, (d,) = given(seq, self.shape(g), seen.block, at), self.one("result_of", o, at)
        return Statement(d, self.one("result_of", s, at)[0], seen.times, parts, block)

    def part_closes(self, by: Any, uses: Uses) -> Statement:
        """A part of what an operator adds up is all of it, where what is left adds nothing."""
        x, (s,) = sole(uses), by
        need(self.one("result_of", s, 0) == (x.seq,) and x.parts, "the part is of something else")
        first, *rest = x.parts
        seq = self.shape(self.one("seq_operator", s)[1])
        ((of, label),) = first.axis
        need(of == s, "the part is of something else")
        own = {own: dim for dim, own in enumerate(seq.results[0])}
        there = range(first.lo, first.lo + first.n)
        need(
            fades(seq, label, there, lambda k: of_seq(x.block, own[k])),
            "what is left out adds something",
        )
        return x._replace(parts=tuple(rest))

    def seq_bare(self, by: Any, uses: Uses) -> Statement:
        """What holds an operand holds what is left of it where a mask hides nothing."""
        x, (s,) = sole(uses), by
        (f,), (of, scale) = self.one("seq_operator", s)[1:], self.one("operand_of", s, 0)
        seq, dist = Operand(of, scale, self.shape(f)), self.own("dist", x.dist)
        times, parts, block = self.seen([x], dist, seq)
        need(not parts and not self._hidden(s, block), "the mask hides some of it")
        (t,) = self.one("result_of", s, 0)
        return Statement(x.dist, t, times, (), given(seq.shape, dist.shape, block))

    def dist_bare(self, by: Any, uses: Uses) -> Statement:
        """What is left of an operand on the ranks, where a mask hides nothing, holds what that
        holds."""
        x, (o,) = sole(uses), by
        (g,), (of, scale) = self.one("dist_operator", o)[1:], self.one("operand_of", o, 0)
        seq, dist = self.own("seq", x.seq), Operand(of, scale, self.shape(g))
        times, parts, block = self.seen([x], dist, seq)
        need(not parts and not self._hidden(o, block.turned()), "the mask hides some of it")
        (d,) = self.one("result_of", o, 0)
        return Statement(d, x.seq, times, (), given(seq.shape, dist.shape, block))

    def _hidden(self, by: str, block: Block) -> bool:
        """Does the mask of an operator hide something of a block?"""
        row, col, least = self.one("hidden_by", by)
        rows, cols = (of_seq(block, k) if k >= 0 else range(1) for k in (row, col))
        return cols[-1] - rows[0] >= int(least)

    def _masks_alike(self, o: str, s: str, at: int, block: Block) -> None:
        """Masks of both sides compare positions, and are the same on a block."""
        mine, theirs = (Half(*self.one("operand_half", by, at)) for by in (o, s))
        (rows, down), (cols, across) = (
            line(block, label, on) for label, on in ((theirs.row, mine.row), (theirs.col, mine.col))
        )
        far, near = cols.start - rows.start, across - down
        alike = theirs.least - far == mine.least - near
        within = len(rows) - 1, len(cols) - 1
        true = [x - within[0] >= k for x, k in ((far, theirs.least), (near, mine.least))]
        false = [x + within[1] < k for x, k in ((far, theirs.least), (near, mine.least))]
        need(alike or all(true) or all(false), "the masks differ")

    def alone_holds(self, by: Any, uses: Uses) -> Statement:
        """Of what a sequential sum adds up (or takes the maximum of) the ranks have a tensor of one
        position: a part."""
        (o, s, at), (signed, f) = by, self.one("seq_operator", by[1])
        plain = self.all("plain_sum", signed) or self.all("plain_extremum", signed)
        need(o is None and plain, "the operators differ")
        dist, seq = self.own("dist", uses[0][0].dist), self.shape(f)
        seen = self._operands(s, [dist], uses)
        parts = opened(seq, dist.shape, seen.block, s)
        need(parts, "nothing is left open")
        block, (t,) = given(seq, dist.shape, seen.block, at), self.one("result_of", s, at)
        return Statement(dist.tensor, t, seen.times, parts + seen.parts, block)

    def _operands(self, s: str, dist: Sequence[Operand], uses: Uses, o: str = "") -> Seen:
        """What operands are together of those of a sequential operator: at most one of them is
        scaled or open, and the operator lets that pass. Of a mask that compares positions (of
        operator `o` as well) nothing has to be said."""
        (signed, f), theirs = self.one("seq_operator", s), self.all("operand_of", s)
        need(len(dist) == len(theirs) == len(uses), "operands are missing, or there are too many")
        times, left, views = ONE, tuple[Part, ...](), list[Block]()
        for ours, (i, of, scale), used in zip(dist, theirs, uses, strict=True):
            if not used:
                continue
            found = self.seen(used, ours, Operand(of, scale, self.shape(f)), i)
            views.append(found.block)
            if found.times != ONE or found.parts:
                need(times == ONE and not left, "two operands are scaled or open")
                kinds = {part.kind for part in found.parts} or {"sum"}
                kind = only(kinds, "reductions of two kinds are open")
                passes = kind == "sum" and (i,) in self.all("linear_in", signed)
                if kind != "sum" and (i, kind) in self.all("lets_pass", signed):
                    passes = found.times == ONE and self.rises(scale)
                need(passes, "the operator does not let pass what is scaled or open")
                times = found.times
                left = tuple(part._replace(axis=((s, i), *part.axis)) for part in found.parts)
        whole = merged(views)
        for at, used in enumerate(uses):
            if not used:
                self._masks_alike(o, s, at, whole)
        return Seen(times, left, whole)

    def sum_holds(self, by: Any, uses: Uses) -> Statement:
        """A sum over the ranks, term by term, of the terms of a sequential one or of one tensor."""
        o, aim, whole, places, exchanged = by  # which term each counts for, and if two parts swap
        kind, _, d = self.one("dist_sum", o)
        same, _, t = (kind, 1, aim) if whole else self.one("seq_sum", aim)
        mine = [Operand(of, scale, self.shape(g)) for _, of, scale, g in self.all("term_of", o)]
        found = [Operand(of, scale, self.shape(f)) for _, of, scale, f in self.all("term_of", aim)]
        terms = [self.own("seq", aim)] if whole else found
        fits = len(mine) == len(places) == len(exchanged) == len(uses)
        need(fits, "terms are missing, or there are too many")
        tally, views = dict[int, Tally](), list[Block]()
        for term, j, swap, used in zip(mine, places, exchanged, uses, strict=True):
            seen = self.seen(used, term, terms[j])
            views.append(seen.block)
            first, *inner = seen.parts or [Part((), kind, 0, 1, 1)]
            if swap:
                alike = inner and first.kind == inner[0].kind
                need(alike, "reductions of two kinds do not commute")
                first, inner = inner[0], [first, *inner[1:]]
            rises = seen.times == ONE and self.rises(terms[j].scale)
            need(same == kind == first.kind and (kind == "sum" or rises), "another kind of sum")
            count = tally.setdefault(j, Tally(first.axis, first.extent, tuple(inner), {}))
            alike = count[:3] == (first.axis, first.extent, tuple(inner))
            need(alike, "parts of different reductions are added up")
            count.add(kind, first.lo, first.n, seen.times)
        every = {times for count in tally.values() for times in count.ranges.values()}
        counted = tally.keys() == {*range(len(terms))} and len(every) == 1
        need(counted, "terms do not count alike")
        left = [count.left(kind) for count in tally.values()]
        need(len(left) == 1 or not any(left), "a term is complete only in part")
        seq, dist, block = terms[0].shape, mine[0].shape, merged(views)
        need(not opened(seq, dist, block, o), "a sum leaves nothing else open")
        return Statement(d, t, every.pop(), left[0], given(seq, dist, block))

    def seq_slice_holds(self, by: Any, uses: Uses) -> Statement:
        """What holds a tensor holds what lies in a slice of it."""
        x, (of, f, label, start, size, t) = sole(uses), self.one("seq_slice", *by)
        seq, dist = Operand(of, "1", self.shape(f)), self.own("dist", x.dist)
        block = self.seen([x], dist, seq).block.clipped(label, start, size)
        return Statement(x.dist, t, x.times, x.parts, given(seq.shape, dist.shape, block))

    def dist_slice_holds(self, by: Any, uses: Uses) -> Statement:
        """A slice on a rank holds what its operand holds there."""
        x, (of, g, label, start, size, d) = sole(uses), self.one("dist_slice", *by)
        seq, dist = self.own("seq", x.seq), Operand(of, "1", self.shape(g))
        block = self.seen([x], dist, seq).block.turned().clipped(label, start, size).turned()
        return Statement(d, x.seq, x.times, x.parts, given(seq.shape, dist.shape, block))

    def seq_member_holds(self, by: Any, uses: Uses) -> Statement:
        """What holds a member of a sequential concatenation holds a piece of the whole."""
        x, (of, scale, f, label, start) = sole(uses), self.one("seq_member", *by)
        seq, dist = Operand(of, scale, self.shape(f)), self.own("dist", x.dist)
        times, parts, block = self.seen([x], dist, seq)
        sums = all(part.kind == "sum" for part in parts)
        need(sums or self.scale(scale).number >= 0, "a maximum of what is negative")
        at = {**block.seq, label: block.seq.get(label, 0) + start}
        block = given(seq.shape, dist.shape, normal(at, block.dist, block.runs))
        return Statement(x.dist, self.one("seq_concat", by[0])[1], times, parts, block)

    def dist_concat_holds(self, by: Any, uses: Uses) -> Statement:
        """A concatenation on the ranks holds what its members hold, each in its place."""
        (o, first), found = by, list[Statement]()
        for k, used in enumerate(uses, first):
            x, (of, scale, g, label, start) = sole([used]), self.one("dist_member", o, k)
            seq, dist = self.own("seq", x.seq), Operand(of, scale, self.shape(g))
            times, parts, block = self.seen([x], dist, seq)
            at = {**block.dist, label: block.dist.get(label, 0) + start}
            block = given(seq.shape, dist.shape, normal(block.seq, at, block.runs))
            found.append(Statement(self.one("dist_concat", o)[1], x.seq, times, parts, block))
            need(found[-1][:4] == found[0][:4], "the members hold different things")
        return found[0]._replace(block=together([x.block for x in found]))

    def lookup_holds(self, by: Any, uses: Uses) -> Statement:
        """A lookup in a shard of a table, masked outside of it."""
        o, s, lo = by
        need(len(uses) == 2, "a lookup has a table and ids")
        table, read, g, k, d = self.one("dist_lookup", o)
        whole, there, f, label, t = self.one("seq_lookup", s)
        seq, dist, ids = self.shape(f), self.shape(g), sole(uses[1:])
        mine, theirs = Operand(table, "1", dist), Operand(whole, "1", seq)
        rows = self._as_it_is(sole(uses[:1]), mine, theirs, 0)
        block = merged([rows, self._ids(ids, dist, seq, 1)])
        need(rows.seq[label] == lo, "a rank has other rows of the table")
        n = next((run.n for run in rows.runs if run.seq == label), 1)
        shard = range(lo, lo + n), dist.labels[k].extent
        self._reads((o, read, ids.dist), (s, there, ids.seq), shard, seq.labels[label].extent)
        parts = opened(seq, dist, block, s, {k: n})
        return Statement(d, t, ONE, parts, given(seq, dist, block))

    def onehot_holds(self, by: Any, uses: Uses) -> Statement:
        """One-hot ids, of which a rank has some columns."""
        (o, s, lo), ids = by, sole(uses)
        read, g, k, d = self.one("dist_onehot", o)
        there, f, label, t = self.one("seq_onehot", s)
        seq, dist = self.shape(f), self.shape(g)
        table, extent = seq.labels[label].extent, dist.labels[k].extent
        shard = range(lo, min(lo + extent, table))
        rows = normal({label: lo}, {k: 0}, [Run(label, 1, len(shard), k, 1)])
        block = merged([rows, self._ids(ids, dist, seq, 0)])
        self._reads((o, read, ids.dist), (s, there, ids.seq), (shard, extent), table)
        need(not opened(seq, dist, block, s), "one-hot ids leave nothing open")
        return Statement(d, t, ONE, (), given(seq, dist, block))

    def _as_it_is(self, x: Statement, dist: Operand, seq: Operand, at: int) -> Block:
        """What an operand of a lookup holds, on labels."""
        seen = self.seen([x], dist, seq, at)
        need(seen.times == ONE and not seen.parts, "table and ids are whole")
        return seen.block

    def _ids(self, x: Statement, dist: Shape, seq: Shape, at: int) -> Block:
        return self._as_it_is(x, Operand(x.dist, "1", dist), Operand(x.seq, "1", seq), at)

    def _reads(self, dist: Any, seq: Any, shard: tuple[range, int], size: int) -> None:
        """Two lookups, each (operator, what it reads, ids), read the same row for every id: the
        rank row `id - lo` of the rows of its shard (`shard`: which they are of the table, and of
        how many rows) where the id lies there, and else a row that is hidden."""
        mine, extent = shard
        need(mine and mine.start >= 0 and mine.stop <= size, "a rank has other rows of the table")
        _, rows, of = seq
        ids = (*range(size), *([] if rows == of else self._beside(of, size)))
        for (op, rows, of), own, there in (dist, mine, extent), (seq, range(size), size):
            masks = [self.column(mask, of, ids) for (mask,) in self.all("lookup_masked", op)]
            hidden = map(any, zip(*masks, strict=True)) if masks else [False] * len(ids)
            for i, row, hide in zip(ids, self.column(rows, of, ids), hidden, strict=True):
                read = 0 <= row < there or (hide and i not in range(size))
                inside = hide != (i in own) and read
                right = inside and (hide or row == i - own.start)
                if not right and (masks or row != i or i < there):  # ids lie in the table
                    raise Refused(f"id {i} does not read row {i - own.start} of {len(own)}")

    def _beside(self, of: str, size: int) -> list[int]:
        """The numbers beside [0, size) that ids may be of which others are made: what is filled."""
        same = {number for _, u, number, _ in self.rows.get("integer_same", ()) if u == of}
        return sorted(same.difference(range(size)))

    def _column(self, tensor: str, of: str, ids: tuple[int, ...]) -> list[int]:
        """The value of an integer tensor for each of the ids that `of` may hold."""
        value = partial(self.column, of=of, ids=ids)
        if tensor == of or self.all("constant_one", tensor):
            return list(ids) if tensor == of else [1] * len(ids)
        for u, number, truth in self.all("integer_same", tensor):
            return [int((x == number) == bool(truth)) for x in value(u)]
        for u, compare, bound in self.all("integer_test", tensor):
            return [int((x < bound) == (compare == "lt")) for x in value(u)]
        for op, a, b in self.all("integer_pair", tensor):
            use = {"and": int.__and__, "or": int.__or__, "mul": int.__mul__}[op]
            return list(map(use, value(a), value(b)))
        for (u,) in self.all("integer_not", tensor):
            return [1 - x for x in value(u)]
        for u, mask, number in self.all("integer_fill", tensor):
            return [number if hit else x for x, hit in zip(value(u), value(mask), strict=True)]
        for u, low, high in self.all("integer_clamp", tensor):
            return [min(max(x, low), high) for x in value(u)]
        terms = [[times * x for x in value(u)] for _, u, times in self.all("integer_term", tensor)]
        need(terms, f"nothing says what {tensor} is for an id of {of}")
        return [sum(values) for values in zip(*terms, strict=True)]

    def extents(self, side: str, tensor: str) -> list[int]:
        """The dimensions of a base tensor."""
        return [label.extent for label in self.own(side, tensor).shape.labels]

    def accounted(self, wants: int, rank: int, found: Sequence[Statement]) -> bool:
        """Are statements about all that a rank returns for an output, but for what is 0 behind?"""
        extents, blocks = self.extents("dist", found[0].dist), [x.block.turned() for x in found]
        return covered(extents, [*blocks, *self.padding(wants, rank, extents)])

    def padding(self, wants: int, rank: int, extents: Sequence[int]) -> Iterator[Block]:
        """What is 0 where a weight was padded, of which a gradient comes back."""
        for dim, first in self.all("zero_from", wants, rank):
            at = {k: first if k == dim else 0 for k in range(len(extents))}
            yield normal(at, {}, [Run(k, 1, n - at[k], k, 1) for k, n in enumerate(extents)])

    def output_mapped(self, wants: int, shares: Mapping[str, Sequence[Statement]]) -> None:
        """Every rank's share is accounted for, and the shares make up the output."""
        t, scale = self.one("wanted", wants)
        returned = {str(rank): rest for rank, *rest in self.all("returned", wants)}
        need(returned and shares.keys() == returned.keys(), "the shares are not those of the ranks")
        for rank, found in shares.items():
            d, times = returned[rank]
            for x in found:
                fits = (x.dist, x.seq, self.effect(times, x.times, scale)) == (d, t, ONE)
                need(fits, "another tensor comes back, or a multiple")
            need(self.accounted(wants, int(rank), found), "more is returned")
        every = [x for found in shares.values() for x in found]
        if any(x.parts for x in every):
            need(self.all("may_be_partial", wants), "a part of the output comes back")
            need(len(every) == len(shares) and add_up(every), "the parts do not add up")
        whole = covered(self.extents("seq", t), [x.block for x in every])
        need(whole, "a share is left out")
        why = misplaced(self, wants, shares)
        need(not why, why)

    def certificate(self, document: Any) -> list[int]:
        """The outputs that a certificate proves; `Refused` names the step that does not follow."""
        said, used, proved, where = dict[int, Statement](), set[int](), list[int](), "it"
        draws = Draws(self)
        try:
            for number, line in enumerate(document["steps"]):
                where = f"step {number}"
                rule, by = line["rule"], line["by"]
                known = line["step"] == number and len(line) == 5 and len(by) == RULES.get(rule)
                need(known, "it is missing, or of no known rule")
                used.update(*line["uses"])
                uses = [[said[k] for k in group] for group in line["uses"]]
                found = said[number] = getattr(self, rule)(by, uses)
                need(found.written() == json.dumps(line["says"]), f"it is {found.written()}")
                draws.add(by[0], found)
            for line in document["outputs"]:
                where, wants = f"output {line['wants']}", line["wants"]
                need(type(wants) is int and len(line) == 2, "it is no output")
                need(wants not in proved, "it is there twice")
                used.update(*line["shares"].values())
                shares = {rank: [said[k] for k in ids] for rank, ids in line["shares"].items()}
                self.output_mapped(wants, shares)
                proved.append(wants)
        except MALFORMED as error:
            why = error if isinstance(error, Refused) else f"it names what is not there: {error!r}"
            raise Refused(f"{where}: {why}"[:500]) from None
        left = said.keys() - used
        need(not left, f"step {min(left, default=0)}: nothing uses it")
        return proved


class Draws:
    """The random draws that steps speak of."""

    def __init__(self, facts: Checker) -> None:
        self.facts = facts
        self.pairs = defaultdict[tuple[str, str], list[Block]](list)
        self.seeded = defaultdict[str, list[tuple[str, Block, str, str]]](list)

    def add(self, by: Any, x: Statement) -> None:
        """What operator `by` gives, refused where draws do not fit."""
        pieces = self.pairs[x.dist, x.seq]
        for signed, _ in self.facts.all("dist_operator", by):
            pieces += [x.block] if self.facts.all("random_draw", signed) else []
        drawn_apart(pieces)
        for drawn in self.facts.all("drawn_as", by) if pieces else ():
            self.seeded[x.seq].append((x.dist, x.block, *drawn))
            drawn_alike(self.seeded[x.seq])
