"""Checks a certificate step by step: what each rule says is told here once more, by other means.

Nothing is shared with the engines or the rules' translator. They work on records, this works on
sets of positions: a mistake has to be made twice to stay unseen. A statement says: dist[positions]
= times * Part(seq)[positions]. A part (axis, kind, lo, n, extent), the outermost comes first, has
reduced [lo, lo + n) of `extent` positions. An axis is a label of an operator, (by, label), behind
the operands that passed it on. Whatever does not fit is refused.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, groupby, pairwise, product
from typing import Any, NamedTuple

from gg_datalog.proofs.places import misplaced

Coefficient = tuple[Fraction, str, str]  # a number, times the scalar `over`, divided by `under`
Run = tuple[int, int, int, int, int]
Digits = list[tuple[int, int, int, int]]  # (extent, label, step of it, weight), innermost first
Operand = tuple[str, str, "Shape"]  # a tensor, the scale that it is read with, and how it is seen
ONE: Coefficient = (Fraction(1), "", "")
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
FREE = ("parallel", "created")  # kinds of labels that may be cut
RULES = (  # what `holds` is concluded from, under the names that datalog/ has for it
    *("related_input", "operator_holds", "alone_holds", "sum_holds", "seq_slice_holds"),
    *("dist_slice_holds", "seq_member_holds", "dist_concat_holds", "lookup_holds", "onehot_holds"),
)


class Refused(ValueError):
    """Something does not follow."""


def need(condition: object, reason: str) -> None:
    """Refuses where the condition does not hold."""
    if not condition:
        raise Refused(reason)


class Part(NamedTuple):
    """Of an axis only [lo, lo + n) of `extent` positions has been reduced."""

    axis: Any
    kind: str
    lo: int
    n: int
    extent: int


class Block(NamedTuple):
    """Pairs of positions. Counters run, each on its own, from the offsets on: run (p, s, n, d, t)
    takes n steps, of s positions along sequential dimension p and t along distributed one d."""

    seq: Mapping[int, int]
    dist: Mapping[int, int]
    runs: tuple[Run, ...]

    def turned(self) -> Block:
        """The block with its sides exchanged."""
        return normal(self.dist, self.seq, ((d, t, n, p, s) for p, s, n, d, t in self.runs))

    def unfolded(self, digits: Sequence[Digits]) -> Block:
        """Sequential dimensions as the labels of their digits; no run may leave its digit."""
        todo, runs, reach = list(self.runs), list[Run](), defaultdict[Any, int](int)
        while todo:
            p, s, n, d, t = todo.pop()
            fits = [k for k, (e, _, _, w) in enumerate(digits[p]) if w <= s < w * e and s % w == 0]
            need(fits, "a run does not follow the digits of a view")
            extent, label, unit, weight = digits[p][fits[0]]
            step = s // weight
            if self.seq[p] // weight % extent + step * (n - 1) < extent:
                reach[p, fits[0]] += step * (n - 1)
                runs.append((label, step * unit, n, d, t))
                continue
            room = extent // step
            need(extent % step == 0 and 1 < room < n and n % room == 0, "a run leaves a digit")
            todo += [(p, s, room, d, t), (p, s * room, n // room, d, t * room)]
        found = defaultdict[int, int](int)
        for p, inside in zip(self.seq, digits, strict=True):
            size = inside[-1][0] * inside[-1][3] if inside else 1
            need(0 <= self.seq[p] < size, "a position outside of its dimension")
            for at, (extent, label, unit, weight) in enumerate(inside):
                digit = self.seq[p] // weight % extent
                need(digit + reach[p, at] < extent, "runs carry over into the next digit")
                found[label] += digit * unit
        return normal(found, self.dist, runs)

    def joined(self, b: Block) -> Block:
        """With `b`, which continues the block along one dimension of either side, by some run."""
        (p,) = (k for k in self.seq if self.seq[k] != b.seq[k])
        (d,) = (k for k in self.dist if self.dist[k] != b.dist[k])
        by, to = b.seq[p] - self.seq[p], b.dist[d] - self.dist[d]
        steps = {(r[1], r[4]) for r in self.runs + b.runs if (r[0], r[3]) == (p, d)} | {(by, to)}
        for s, t in sorted(steps):
            both = [{r for r in x.runs if (*r[:2], *r[3:]) == (p, s, d, t)} for x in (self, b)]
            n, m = (next((r[2] for r in mine), 1) for mine in both)
            rest = set(self.runs) - both[0]
            if rest == set(b.runs) - both[1] and (by, to) == (s * n, t * n) and by > 0:
                return normal(self.seq, self.dist, [*rest, (p, s, n + m, d, t)])
        raise Refused("pieces do not continue each other")

    def clipped(self, label: int, start: int, size: int) -> Block:
        """Positions [start, start + size) of a sequential label, counted from `start`."""
        mine = sorted((run for run in self.runs if run[0] == label), key=lambda run: run[1])
        at, dist, runs = self.seq[label], self.dist, list(self.runs)
        if mine:
            _, s, n, d, t = mine[-1]
            inside = at % s + sum(run[1] * (run[2] - 1) for run in mine[:-1]) < s
            low, high = max(0, start // s - at // s), min(n, (start + size) // s - at // s)
            need(inside and start % s == size % s == 0 and low < high, "a slice cuts through a run")
            at, dist = at + s * low, {**dist, d: dist[d] + t * low}
            runs = [run for run in runs if run != mine[-1]] + [(label, s, high - low, d, t)]
        need(start <= at < start + size, "the position is cut off")
        return normal({**self.seq, label: at - start}, dist, runs)


class Statement(NamedTuple):  # what one step says
    dist: str
    seq: str
    times: Coefficient
    parts: tuple[Part, ...]
    block: Block

    def written(self) -> str:
        """As a certificate has it."""
        (seq, dist, runs), times = self.block, self.times[0].as_integer_ratio()
        block = [*seq.values()], [*dist.values()], runs
        return json.dumps([*self[:2], [*times, *self.times[1:]], self.parts, block])


class Shape(NamedTuple):  # how dimensions carry labels
    labels: list[tuple[int, str, str]]  # (extent, factor, kind)
    digits: dict[int, list[Digits]]  # of the dimensions of each operand
    results: dict[int, list[int]]  # the label of each dimension of each result


def normal(seq: Mapping[int, int], dist: Mapping[int, int], runs: Iterable[Run]) -> Block:
    """The block with runs that nest on both sides as one run, in order."""
    done: list[Run] = [(-1, 0, 0, -1, 0)]
    for p, s, n, d, t in sorted((r for r in runs if r[2] != 1), key=lambda r: (r[0], r[3], *r)):
        q, w, m, e, v = done[-1]
        nests = (p, d, s, t) == (q, e, w * m, v * m)
        done[-1:] = [(p, w, m * n, d, v)] if nests else [done[-1], (p, s, n, d, t)]
    return Block(dict(sorted(seq.items())), dict(sorted(dist.items())), tuple(sorted(done[1:])))


def merged(blocks: Sequence[Block]) -> Block:
    """One block for all operands; each has to say the same of every label that it carries."""
    seq, dist, runs = dict[int, int](), dict[int, int](), {r for x in blocks for r in x.runs}
    for block in blocks:
        for mine, every in ((block.seq, seq), (block.dist, dist)):
            need(all(every.setdefault(k, v) == v for k, v in mine.items()), "operands differ")
        known = {run for run in runs if run[0] in block.seq or run[3] in block.dist}
        need(known == set(block.runs), "operands pair dimensions differently")
    return normal(seq, dist, runs)


def multiplied(a: Coefficient, b: Coefficient) -> Coefficient:
    """The product; of scalars at most one may be left above and one below the line."""
    over, under = (Counter(x for x in pair if x) for pair in zip(a[1:], b[1:], strict=True))
    above, below = [*(over - under).elements()], [*(under - over).elements()]
    need(len(above) < 2 and len(below) < 2, "two scalars are multiplied")
    return a[0] * b[0], "".join(above), "".join(below)


def opened(seq: Shape, dist: Shape, block: Block, by: str) -> tuple[Part, ...]:
    """What an operator leaves open under `block`; refused where it may not be applied."""
    parts: list[Part] = []
    for label, (extent, _, kind) in enumerate(seq.labels):
        if kind not in FREE:
            mine = [run for run in block.runs if run[0] == label]
            lo, n = block.seq[label], mine[0][2] if mine else 1
            for _, s, _, d, t in mine:
                alone = len(mine) == len([run for run in block.runs if run[3] == d]) == 1
                whole = (s, t, block.dist[d], n) == (1, 1, 0, dist.labels[d][0])
                need(alone and whole, "the ranks reduce another range")
            need(lo + n <= extent and (n == extent or kind != "whole"), "a dimension is not whole")
            parts += [(((by, label),), kind, lo, n, extent)] if n < extent else []
    for label, (extent, _, kind) in enumerate(dist.labels):
        if kind not in FREE and extent > 1:
            ((p, _, n, _, t),) = (run for run in block.runs if run[3] == label)
            whole = (n, t, block.dist[label], seq.labels[p][2]) == (extent, 1, 0, kind)
            need(whole, "the ranks reduce something else")
    return tuple(parts)


def given(seq: Shape, dist: Shape, block: Block, at: int = 0) -> Block:
    """Result `at` under `block`: from labels to the dimensions of both base tensors."""
    ours = {label: dim for dim, label in enumerate(seq.results[at])}
    theirs = {label: dim for dim, label in enumerate(dist.results[at])}
    left, right, runs = dict(block.seq), dict(block.dist), list(block.runs)
    for label in ours.keys() - left.keys():
        same = [k for k in theirs.keys() - right.keys() if dist.labels[k] == seq.labels[label]]
        need(same and seq.labels[label][2] == "created", "a dimension is not spoken of")
        left[label] = right[same[0]] = 0
        runs.append((label, 1, seq.labels[label][0], same[0], 1))
    need(theirs.keys() <= right.keys(), "a dimension of the ranks' result is not spoken of")
    need(all((run[0] in ours) == (run[3] in theirs) for run in runs), "a dimension is lost")
    lost = [left[k] for k in left if k not in ours and seq.labels[k][2] in FREE]
    lost += [right[k] for k in right if k not in theirs and dist.labels[k][2] in FREE]
    need(not any(lost), "a position is lost")
    kept = [(ours[p], s, n, theirs[d], t) for p, s, n, d, t in runs if p in ours]
    seq_at, dist_at = ({own[k]: x[k] for k in own} for own, x in ((ours, left), (theirs, right)))
    return normal(seq_at, dist_at, kept)


def drawn_apart(blocks: Iterable[Block]) -> None:
    """One random draw stands for one: pieces of a pair of draws have no position in common."""
    for pair in combinations(blocks, 2):
        for a, b in (pair, [block.turned() for block in pair]):
            u, v = dict(a.seq), dict(b.seq)
            for last, block in ((u, a), (v, b)):
                for p, s, n, _, _ in block.runs:
                    last[p] += s * (n - 1)
            need(any(u[p] < b.seq[p] or v[p] < a.seq[p] for p in u), "draws are not one to one")


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
        found = self.all(name, *key)
        need(len(found) == 1, f"the facts have no {name}({', '.join(map(str, key))}, ...)")
        return found[0]

    def effect(self, dist: str, times: Coefficient, seq: str) -> Coefficient:
        """What a distributed operand, `dist` times the tensor, is of the sequential one."""
        (num, den, over, under), (a, b, *c) = (self.one("scale_of", x) for x in (dist, seq))
        ratio = multiplied((Fraction(num, den), over, under), (Fraction(b, a), c[1], c[0]))
        return multiplied(ratio, times)

    def _shape(self, name: str) -> Shape:
        found = Shape([row[1:] for row in self.all("label_of", name)], defaultdict(list), {})
        for at, dim, _ in self.all("digit_count", name):
            found.digits[at].append([])
            weight = 1
            for _, extent, label, unit in self.all("digit_of", name, at, dim):
                found.digits[at][-1].append((extent, label, unit, weight))
                weight *= extent
        for at, _ in self.all("result_rank", name):
            found.results[at] = [label for _, label in self.all("result_dim", name, at)]
        return found

    def own(self, side: str, tensor: str) -> Operand:
        """A base tensor as it is: one label per dimension."""
        return tensor, "1", self.shape(self.one(f"{side}_tensor", tensor)[0])

    def seen(self, used: Sequence[Statement], dist: Operand, seq: Operand, at: int = 0) -> Any:
        """Statements about operand `at` as one, on labels: its coefficient, parts and block."""
        (d, ours, g), (t, theirs, f), views = dist, seq, list[Block]()
        for x in used:
            need(x[:4] == (d, t, *used[0][2:4]), "statements about other tensors")
            half = x.block.unfolded(f.digits[at]).turned()
            views.append(half.unfolded(g.digits[at]).turned())
            alike = (f.labels[run[0]][1] == g.labels[run[3]][1] for run in views[-1].runs)
            need(all(alike), "unlike dimensions are paired")
            views[0] = views[0].joined(views[-1]) if x is not used[0] else views[0]
        return self.effect(ours, used[0].times, theirs), used[0].parts, views[0]

    def related_input(self, by: Any, uses: Any) -> Statement:
        """A row of the input relations."""
        (row,), (), (d, t) = by, uses, self.one("related_input", *by)
        seq, dist, runs = dict[int, int](), dict[int, int](), list[Run]()
        for p, lo, n, q, to in self.all("related_range", row):
            need(q >= 0 or n == 1, "a range without a dimension on the ranks")
            seq[p], dist[q] = lo, to
            runs.append((p, 1, n, q, 1))
            for stride, first, times, dist_stride, start in self.all("related_repeat", row, p):
                seq[p], dist[q] = lo + stride * first, to + dist_stride * start
                runs.append((p, stride, times, q, dist_stride))
        dist.pop(-1, None)
        return Statement(d, t, ONE, (), normal(seq, dist, runs))

    def operator_holds(self, by: Any, uses: Any) -> Statement:
        """Operators whose operands hold each other; none on the ranks (`alone_holds`): a part."""
        o, s, at = by
        (signed, f), (t,) = self.one("seq_operator", s), self.one("result_of", s, at)
        if o is None:
            d, scale, dist = self.own("dist", uses[0][0].dist)
            mine, same = [(d, scale)], signed if self.all("plain_sum", signed) else None
        else:
            (same, g), (d,) = self.one("dist_operator", o), self.one("result_of", o, at)
            mine, dist = [row[1:] for row in self.all("operand_of", o)], self.shape(g)
        need(same == signed, "the operators differ")
        times, left, views = ONE, tuple[Part, ...](), list[Block]()
        seq, theirs = self.shape(f), self.all("operand_of", s)
        for here, (i, *there), used in zip(mine, theirs, uses, strict=True):
            e, parts, view = self.seen(used, (*here, dist), (*there, seq), i)
            views.append(view)
            if e != ONE or parts:
                need(times == ONE and not left, "two operands are scaled or open")
                (kind,) = {part[1] for part in parts} or {"sum"}
                passes = kind == "sum" and (i,) in self.all("linear_in", signed)
                if kind != "sum" and (i, kind) in self.all("lets_pass", signed) and e == ONE:
                    passes = self.one("scale_of", there[1])[0] > 0
                need(passes, "the operator does not let pass what is scaled or open")
                times, left = e, tuple((((s, i), *axis), *rest) for axis, *rest in parts)
        block = merged(views)
        parts = opened(seq, dist, block, s)
        need(o is not None or parts, "nothing is left open")
        return Statement(d, t, times, parts + left, given(seq, dist, block, at))

    def sum_holds(self, by: Any, uses: Any) -> Statement:
        """A sum over the ranks, term by term, of the terms of a sequential one or of one tensor."""
        o, aim, whole, places, exchanged = by  # which term each counts for, and if two parts swap
        kind, _, d = self.one("dist_sum", o)
        same, _, t = (kind, 1, aim) if whole else self.one("seq_sum", aim)
        mine = [(of, scale, self.shape(g)) for _, of, scale, g in self.all("term_of", o)]
        terms = [(of, scale, self.shape(f)) for _, of, scale, f in self.all("term_of", aim)]
        terms = [self.own("seq", aim)] if whole else terms
        tally, views = dict[int, tuple[Any, dict[Any, Coefficient]]](), list[Block]()
        for term, j, swap, used in zip(mine, places, exchanged, uses, strict=True):
            e, parts, view = self.seen(used, term, terms[j])
            views.append(view)
            if swap:
                need(parts[0][1] == parts[1][1], "reductions of two kinds do not commute")
                parts = (parts[1], parts[0], *parts[2:])
            axis, other, lo, n, extent = parts[0] if parts else (None, kind, 0, 1, 1)
            rises = e == ONE and self.one("scale_of", terms[j][1])[0] > 0
            need(same == kind == other and (kind == "sum" or rises), "another kind of sum")
            key, ranges = tally.setdefault(j, ((axis, extent, parts[1:]), {}))
            need(key == (axis, extent, parts[1:]), "parts of different reductions are added up")
            for a, m in ranges:
                need((a, m) == (lo, n) or a + m <= lo or lo + n <= a, "ranges overlap")
            if (lo, n) in ranges and kind == "sum":
                need(ranges[lo, n][1:] == e[1:] and ranges[lo, n][0] + e[0], "terms cancel")
                e = (ranges[lo, n][0] + e[0], *e[1:])
            ranges[lo, n] = e
        times = {e for _, ranges in tally.values() for e in ranges.values()}
        need(tally.keys() == {*range(len(terms))} and len(times) == 1, "terms do not count alike")
        seq, dist, block, left = terms[0][2], mine[0][2], merged(views), tuple[Part, ...]()
        for (axis, extent, inner), ranges in tally.values():
            spans = sorted(ranges)
            need(all(a + m == b for (a, m), (b, _) in pairwise(spans)), "a range is left out")
            lo, n = spans[0][0], sum(m for _, m in spans)
            left = inner if n == extent else ((axis, kind, lo, n, extent), *inner)
            need(not left or len(terms) == 1, "a term is complete only in part")
        need(not opened(seq, dist, block, o), "a sum leaves nothing else open")
        return Statement(d, t, times.pop(), left, given(seq, dist, block))

    def seq_slice_holds(self, by: Any, uses: Any) -> Statement:
        """What holds a tensor holds what lies in a slice of it."""
        ((x,),), (of, f, label, start, size, t) = uses, self.one("seq_slice", *by)
        seq, dist = self.shape(f), self.own("dist", x.dist)
        block = self.seen([x], dist, (of, "1", seq))[2].clipped(label, start, size)
        return Statement(x.dist, t, x[2], x[3], given(seq, dist[2], block))

    def dist_slice_holds(self, by: Any, uses: Any) -> Statement:
        """A slice on a rank holds what its operand holds there."""
        ((x,),), (of, g, label, start, size, d) = uses, self.one("dist_slice", *by)
        seq, dist = self.own("seq", x.seq), self.shape(g)
        block = self.seen([x], (of, "1", dist), seq)[2].turned().clipped(label, start, size)
        return Statement(d, x.seq, x[2], x[3], given(seq[2], dist, block.turned()))

    def seq_member_holds(self, by: Any, uses: Any) -> Statement:
        """What holds a member of a sequential concatenation holds a piece of the whole."""
        ((x,),), (of, scale, f, label, start) = uses, self.one("seq_member", *by)
        seq, dist = self.shape(f), self.own("dist", x.dist)
        times, parts, block = self.seen([x], dist, (of, scale, seq))
        falls = self.one("scale_of", scale)[0] < 0 and {part[1] for part in parts} - {"sum"}
        need(not falls, "a maximum of what is negative")
        block = normal({**block.seq, label: block.seq.get(label, 0) + start}, *block[1:])
        t, block = self.one("seq_concat", by[0])[1], given(seq, dist[2], block)
        return Statement(x.dist, t, times, parts, block)

    def dist_concat_holds(self, by: Any, uses: Any) -> Statement:
        """A concatenation on the ranks holds what its members hold, each in its place."""
        (o, first), found = by, list[Statement]()
        for k, (x,) in enumerate(uses, first):
            of, scale, g, label, start = self.one("dist_member", o, k)
            seq, dist = self.own("seq", x.seq), self.shape(g)
            times, parts, block = self.seen([x], (of, scale, dist), seq)
            right = {**block.dist, label: block.dist.get(label, 0) + start}
            block = given(seq[2], dist, normal(block.seq, right, block.runs))
            block = found[-1].block.joined(block) if found else block
            found.append(Statement(self.one("dist_concat", o)[1], x.seq, times, parts, block))
            need(found[-1][:4] == found[0][:4], "the members hold different things")
        return found[-1]

    def looked_up(self, by: Any, uses: Any) -> Statement:
        """A lookup in a shard of a table, masked outside of it, or one-hot ids of its rows."""
        (o, s, lo), (*table, (ids,)) = by, uses
        kind = "lookup" if table else "onehot"
        *mine, read, g, k, d = self.one(f"dist_{kind}", o)
        *theirs, there, f, label, t = self.one(f"seq_{kind}", s)
        seq, dist = self.shape(f), self.shape(g)
        n, size = dist.labels[k][0], seq.labels[label][0]
        views = [] if table else [normal({label: lo}, {k: 0}, [(label, 1, n, k, 1)])]
        tensors = [*zip(mine, theirs, strict=True), (ids.dist, ids.seq)]
        for at, ((here, other), (x,)) in enumerate(zip(tensors, uses, strict=True)):
            e, parts, view = self.seen([x], (here, "1", dist), (other, "1", seq), at)
            need(e == ONE and not parts, "table and ids are whole")
            views.append(view)
        need(views[0].seq[label] == lo in range(size - n + 1), "a rank has other rows of the table")
        for op, rows, of, a, m in (o, read, ids.dist, lo, n), (s, there, ids.seq, 0, size):
            masks = [self.column(mask, of, size) for (mask,) in self.all("lookup_masked", op)]
            hidden = map(any, zip(*masks, strict=True)) if masks else [False] * size
            for i, (row, hide) in enumerate(zip(self.column(rows, of, size), hidden, strict=True)):
                right = hide != (a <= i < a + m) and 0 <= row < m and (hide or row == i - a)
                if not right and (masks or row != i or i < m):  # ids as they are lie in the table
                    raise Refused(f"id {i} does not read row {i - a} of {m}")
        parts = opened(seq, dist, block := merged(views), s)
        need(table or not parts, "one-hot ids leave nothing open")
        return Statement(d, t, ONE, parts, given(seq, dist, block))

    alone_holds, lookup_holds, onehot_holds = operator_holds, looked_up, looked_up

    def _column(self, tensor: str, of: str, size: int) -> list[int]:
        """The value of an integer tensor for each id in [0, size) that `of` may hold."""
        value = partial(self.column, of=of, size=size)
        if tensor == of or self.all("constant_one", tensor):
            return list(range(size)) if tensor == of else [1] * size
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

    def covered(self, side: str, tensor: str, blocks: Sequence[Block]) -> bool:
        """Do the sequential sides of the blocks cover a tensor? Looks at the cells between ends."""
        digits, extents, boxes = list[Digits](), list[int](), list[list[range]]()
        for p, (extent, *_) in enumerate(self.own(side, tensor)[2].labels):
            steps = sorted({1, extent, *(r[1] for x in blocks for r in x.runs if r[0] == p)})
            need(all(b % a == 0 for a, b in pairwise(steps)), "shares that do not nest")
            ends = enumerate(pairwise(steps), len(extents))
            digits.append([(b // a, label, 1, a) for label, (a, b) in ends])
            extents += [extent for extent, *_ in digits[-1]]
        for x in (block.unfolded(digits) for block in blocks):  # a box in these digits
            sizes = {run[0]: run[2] for run in x.runs}
            boxes.append([range(at, at + sizes.get(k, 1)) for k, at in x.seq.items()])
        cuts = [{0, *(x for r in rs for x in (r.start, r.stop))} for rs in zip(*boxes, strict=True)]
        cells = product(*([x for x in c if x < n] for c, n in zip(cuts, extents, strict=True)))
        return all(any(all(map(range.__contains__, box, cell)) for box in boxes) for cell in cells)

    def output_mapped(self, wants: int, shares: Mapping[str, Sequence[Statement]]) -> None:
        """Every rank's share is accounted for, and the shares make up the output."""
        t, scale = self.one("wanted", wants)
        returned = {str(rank): rest for rank, *rest in self.all("returned", wants)}
        need(returned and shares.keys() == returned.keys(), "the shares are not those of the ranks")
        for (d, times), found in ((returned[rank], shares[rank]) for rank in shares):
            fits = ((*x[:2], self.effect(times, x.times, scale)) == (d, t, ONE) for x in found)
            need(all(fits), "another tensor comes back, or a multiple")
            need(self.covered("dist", d, [x.block.turned() for x in found]), "more is returned")
        every = [x for found in shares.values() for x in found]
        if any(x.parts for x in every):
            need(self.all("may_be_partial", wants), "a part of the output comes back")
            (axis, *_, extent), block = every[0].parts[0], every[0].block
            spans = sorted((x.parts[0][2], sum(x.parts[0][2:4])) for x in every)
            like = (x[3:] == (((axis, "sum", *x.parts[0][2:4], extent),), block) for x in every)
            meet = [0, *(b for _, b in spans)] == [*(a for a, _ in spans), extent]
            need(all(like) and meet and len(every) == len(shares), "the parts do not add up")
        need(self.covered("seq", t, [x.block for x in every]), "a share is left out")
        need(not (why := misplaced(self, wants, shares)), why)

    def certificate(self, document: Any) -> list[int]:
        """The outputs that a certificate proves; `Refused` names the step that does not follow."""
        said, used, proved = dict[int, Statement](), set[int](), list[int]()
        draws, where = defaultdict[Any, list[Block]](list), "it"
        seeded = defaultdict[str, list[tuple[str, Block, str, str]]](list)
        try:
            for number, line in enumerate(document["steps"]):
                where = f"step {number}"
                known = line["step"] == number and len(line) == 5 and line["rule"] in RULES
                need(known, "it is missing, or of no known rule")
                used.update(*line["uses"])
                uses = [[said[k] for k in group] for group in line["uses"]]
                found = said[number] = getattr(self, line["rule"])(line["by"], uses)
                need(found.written() == json.dumps(line["says"]), f"it is {found.written()}")
                for signed, _ in self.all("dist_operator", line["by"][0]):
                    draws[found[:2]] += [found.block] if self.all("random_draw", signed) else []
                drawn_apart(draws[found[:2]])
                for drawn in self.all("drawn_as", line["by"][0]) if draws[found[:2]] else ():
                    seeded[found.seq].append((found.dist, found.block, *drawn))
                    drawn_alike(seeded[found.seq])
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
