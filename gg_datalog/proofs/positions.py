"""Pairs of positions, as certificates have them: offsets, from which counters run.

This and `checker`, `places` are all that a certificate has to be believed for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise, product
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Refused(ValueError):
    """Something does not follow."""


def need(condition: object, reason: str) -> None:
    """Refuses where the condition does not hold."""
    if not condition:
        raise Refused(reason)


def only(items: Iterable[T], reason: str) -> T:
    """The one item; refused where there is none, or another one."""
    found = list(items)
    need(len(found) == 1, reason)
    return found[0]


class Run(NamedTuple):
    """`n` steps: of `step` positions along sequential dimension `seq`, and of `stride` positions
    along distributed dimension `dist`."""

    seq: int
    step: int
    n: int
    dist: int
    stride: int


class Digit(NamedTuple):
    """A digit of a dimension, `weight` positions apart: `unit` positions apart of a label."""

    extent: int
    label: int
    unit: int
    weight: int


Digits = list[Digit]  # of one dimension, the innermost first


class Block(NamedTuple):
    """Pairs of positions: by dimension of either side the offset, and runs, each on its own."""

    seq: Mapping[int, int]
    dist: Mapping[int, int]
    runs: tuple[Run, ...]

    def turned(self) -> Block:
        """The block with its sides exchanged."""
        runs = (Run(run.dist, run.stride, run.n, run.seq, run.step) for run in self.runs)
        return normal(self.dist, self.seq, runs)

    def last(self) -> dict[int, int]:
        """The last sequential position of each dimension."""
        found = dict(self.seq)
        for run in self.runs:
            found[run.seq] += run.step * (run.n - 1)
        return found

    def unfolded(self, digits: Sequence[Digits]) -> Block:
        """Sequential dimensions as the labels of their digits; no run may leave its digit."""
        need(len(digits) == len(self.seq), "a view of another tensor")
        todo, runs = list(self.runs), list[Run]()
        reach = defaultdict[tuple[int, Digit], int](int)  # of the runs inside of each digit
        while todo:
            run = todo.pop()
            fits = (x for x in digits[run.seq] if x.weight <= run.step < x.weight * x.extent)
            digit = next((x for x in fits if run.step % x.weight == 0), None)
            if digit is None:
                raise Refused("a run does not follow the digits of a view")
            step = run.step // digit.weight
            if self.seq[run.seq] // digit.weight % digit.extent + step * (run.n - 1) < digit.extent:
                reach[run.seq, digit] += step * (run.n - 1)
                runs.append(run._replace(seq=digit.label, step=step * digit.unit))
                continue
            room = digit.extent // step
            whole = digit.extent % step == 0 and 1 < room < run.n and run.n % room == 0
            need(whole, "a run leaves a digit")
            outer = run._replace(step=run.step * room, n=run.n // room, stride=run.stride * room)
            todo += [run._replace(n=room), outer]
        found = defaultdict[int, int](int)
        for dim, inside in zip(self.seq, digits, strict=True):
            size = inside[-1].extent * inside[-1].weight if inside else 1
            need(0 <= self.seq[dim] < size, "a position outside of its dimension")
            for digit in inside:
                at = self.seq[dim] // digit.weight % digit.extent
                need(at + reach[dim, digit] < digit.extent, "runs carry over into the next digit")
                found[digit.label] += at * digit.unit
        return normal(found, self.dist, runs)

    def joined(self, other: Block) -> Block:
        """With a block that continues it along one dimension of either side, by some run."""
        apart = "pieces do not continue each other"
        dim = only((k for k in self.seq if self.seq[k] != other.seq[k]), apart)
        along = only((k for k in self.dist if self.dist[k] != other.dist[k]), apart)
        by, to = other.seq[dim] - self.seq[dim], other.dist[along] - self.dist[along]
        beside = (run for run in self.runs + other.runs if (run.seq, run.dist) == (dim, along))
        for step, stride in sorted({*((run.step, run.stride) for run in beside), (by, to)}):
            one = Run(dim, step, 1, along, stride)
            mine, theirs = (
                {run for run in block.runs if run._replace(n=1) == one} for block in (self, other)
            )
            n, m = (next((run.n for run in runs), 1) for runs in (mine, theirs))
            rest = set(self.runs) - mine
            if rest == set(other.runs) - theirs and (by, to) == (step * n, stride * n) and by > 0:
                return normal(self.seq, self.dist, [*rest, one._replace(n=n + m)])
        raise Refused(apart)

    def clipped(self, label: int, start: int, size: int) -> Block:
        """Positions [start, start + size) of a sequential label, counted from `start`."""
        *inner, run = [Run(label, 1, 1, -1, 0), *sorted(r for r in self.runs if r.seq == label)]
        at, dist, runs = self.seq[label], self.dist, list(self.runs)
        if run in runs:  # the widest one is cut
            reach = sum(other.step * (other.n - 1) for other in inner)
            first, stop = start // run.step, (start + size) // run.step
            low, high = max(0, first - at // run.step), min(run.n, stop - at // run.step)
            inside = at % run.step + reach < run.step
            fits = inside and start % run.step == size % run.step == 0 and low < high
            need(fits, "a slice cuts through a run")
            at, dist = at + run.step * low, {**dist, run.dist: dist[run.dist] + run.stride * low}
            runs[runs.index(run)] = run._replace(n=high - low)
        need(start <= at < start + size, "the position is cut off")
        return normal({**self.seq, label: at - start}, dist, runs)


def normal(seq: Mapping[int, int], dist: Mapping[int, int], runs: Iterable[Sequence[int]]) -> Block:
    """The block with runs that nest on both sides as one run, in order."""
    done: list[Run] = []
    every = (run for run in (Run(*run) for run in runs) if run.n != 1)
    for run in sorted(every, key=lambda run: (run.seq, run.dist, run)):
        p, step, n, d, stride = done[-1] if done else run
        if done and run == (p, step * n, run.n, d, stride * n):
            done[-1] = Run(p, step, n * run.n, d, stride)
        else:
            done.append(run)
    return Block(dict(sorted(seq.items())), dict(sorted(dist.items())), tuple(sorted(done)))


def merged(blocks: Sequence[Block]) -> Block:
    """One block for all operands; each has to say the same of every label that it carries."""
    seq, dist, runs = dict[int, int](), dict[int, int](), {r for x in blocks for r in x.runs}
    for block in blocks:
        for mine, every in ((block.seq, seq), (block.dist, dist)):
            need(all(every.setdefault(k, v) == v for k, v in mine.items()), "operands differ")
        known = {run for run in runs if run.seq in block.seq or run.dist in block.dist}
        need(known == set(block.runs), "operands pair dimensions differently")
    return normal(seq, dist, runs)


def drawn_apart(blocks: Iterable[Block]) -> None:
    """One random draw stands for one: pieces of a pair of draws have no position in common."""
    for pair in combinations(blocks, 2):
        for a, b in (pair, [block.turned() for block in pair]):
            u, v = a.last(), b.last()
            apart = any(u[dim] < b.seq[dim] or v[dim] < a.seq[dim] for dim in u)
            need(apart, "draws are not one to one")


def covered(extents: Sequence[int], blocks: Sequence[Block]) -> bool:
    """Do the sequential sides of the blocks cover a tensor? Looks at the cells between ends."""
    digits, sizes, boxes = list[Digits](), list[int](), list[list[range]]()
    for dim, extent in enumerate(extents):
        steps = sorted({1, extent, *(r.step for x in blocks for r in x.runs if r.seq == dim)})
        need(all(b % a == 0 for a, b in pairwise(steps)), "shares that do not nest")
        ends = enumerate(pairwise(steps), len(sizes))
        digits.append([Digit(b // a, label, 1, a) for label, (a, b) in ends])
        sizes += [digit.extent for digit in digits[-1]]
    for x in (block.unfolded(digits) for block in blocks):  # a box in these digits
        counts = {run.seq: run.n for run in x.runs}
        boxes.append([range(at, at + counts.get(label, 1)) for label, at in x.seq.items()])
    cuts = [{0, *(x for r in rs for x in (r.start, r.stop))} for rs in zip(*boxes, strict=True)]
    cells = product(*([x for x in cut if x < n] for cut, n in zip(cuts, sizes, strict=True)))
    return all(any(all(map(range.__contains__, box, cell)) for box in boxes) for cell in cells)
