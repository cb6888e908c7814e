"""Random programs: a sequential one of a few operators, and a distributed one that shards its
inputs over the axes of a mesh and inserts collectives, mostly sensibly, now and then with a mistake.

Only soundness is asked of the rules: whatever they derive has to be right by execution. A program
without a mistake (``clean``) also tells how often a right program is refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernels_np import Invalid
from mutations import mutate
from program import Json, Program
from writing import (
    NAMES,
    PARTIAL,
    WHOLE,
    Graph,
    Layout,
    Mesh,
    Place,
    Ref,
    Site,
    documents,
    local,
    ref,
)

LETTERS = "abcde"
ADDS = ("sum", "avg")
EXTREMA = ("max", "min")
EVERY = (*ADDS, *EXTREMA)


@dataclass(frozen=True)
class Tensor:
    """A sequential tensor, and the ranks' tensors that are meant to hold it in some layout."""

    seq: str
    dist: tuple[str, ...]
    shape: tuple[int, ...]
    layout: Layout
    made: bool = True  # by an operator


@dataclass(frozen=True)
class New:
    """An operand that becomes an input, laid out as the operator needs it."""

    dtype: str = "float32"


Operand = Tensor | New
Shard = tuple[str, tuple[int, ...], int]  # letter, sizes, blocks of which each has a part
Emit = Callable[[Site], Sequence[Ref]]


@dataclass(frozen=True)
class Split:
    """How an operator is spread over an axis of the mesh: a letter is cut, or operand ``part`` (-1:
    all of them) stays an open ``kind``, or every rank does the same."""

    shard: Shard | None = None
    part: int | None = None
    kind: str = ""


@dataclass(frozen=True)
class Rule:
    """Which letters the operands and results of an operator have, and what may be cut or open."""

    operands: Sequence[str]
    results: Sequence[str]
    whole: str = ""  # letters that may not be cut
    open: Mapping[int, Sequence[str]] = field(default_factory=dict)  # which may be open in what
    together: Sequence[str] = ()  # in what all operands may be open at once
    kind: str = "sum"  # of the reduction over letters that results lack
    prefer: str = ""  # a letter to be cut rather than others
    extents: Mapping[str, int] = field(default_factory=dict)
    carry: Callable[[Shard], Shard] | None = None  # what becomes of a cut letter


@dataclass
class Fuzzer:
    """Builds one pair of programs."""

    rng: random.Random
    mesh: Mesh
    mistakes: float
    seq: Graph = field(default_factory=Graph)
    dist: list[Graph] = field(default_factory=list)
    relations: list[Json] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    clean: bool = True  # no mistake was made
    plain: bool = True  # nothing in it is known to be beyond the rules
    count: int = 0

    def __post_init__(self) -> None:
        self.dist = [Graph() for _ in range(self.mesh.ranks)]
        if any(list(order) != sorted(order) for order in self.mesh.orders):
            self.clean = False

    # ---- helpers --------------------------------------------------------------------------------
    def wrong(self, less: float = 1) -> bool:
        """Make a mistake here?"""
        if self.rng.random() < self.mistakes * less:
            self.clean = False
            return True
        return False

    def beyond(self, what: str) -> None:
        """What the rules are known not to follow: not often, and no reason to wonder."""
        if not self.chance(0.2):
            raise Invalid(what)
        self.plain = False

    def roomy(self, extent: int, ranks: int) -> bool:
        """Is a dimension to be cut? Not so often into shards of one position."""
        return extent >= ranks * (1 if self.chance(0.4) else 2)

    def chance(self, rate: float) -> bool:
        """True as often as ``rate``."""
        return self.rng.random() < rate

    def fresh(self, stem: str) -> str:
        """A new name."""
        self.count += 1
        return f"{stem}{self.count}"

    @property
    def axes(self) -> range:
        """The axes of the mesh."""
        return range(len(self.mesh.shape))

    def on_ranks(self, tensor: Tensor, emit: Callable[[Site], Ref]) -> tuple[str, ...]:
        """Something on all ranks, of one tensor."""
        names, counts = [], []
        for rank, graph in enumerate(self.dist):
            at = self.mesh.at(rank)
            site = Site(graph, [ref(tensor.dist[rank])], {}, {}, rank, at, self.count)
            names.append(emit(site)["node"])
            counts.append(site.count)
        self.count = max(counts)
        return tuple(names)

    # ---- inputs -----------------------------------------------------------------------------------
    def cuts(self, extent: int, ranks: int) -> tuple[int, ...]:
        """Sizes of a shard per rank, even or not, rarely of one position."""
        if extent % ranks == 0 and self.chance(0.8):
            return (extent // ranks,) * ranks
        least = 1 if extent < 2 * ranks or self.chance(0.1) else 2
        sizes = [least] * ranks
        for _ in range(extent - least * ranks):
            sizes[self.rng.randrange(ranks)] += 1
        return tuple(sizes)

    def input(self, shape: Sequence[int], layout: Layout, dtype: str = "float32") -> Tensor:
        """A new input on both sides with its relations."""
        name = self.fresh("x")
        self.seq.placeholder(name, shape, dtype)
        for rank, graph in enumerate(self.dist):
            graph.placeholder(name, local(shape, layout, self.mesh.at(rank)), dtype)
            for ours, theirs in self.mesh.boxes(rank, shape, layout):
                row = {"seq": name, "seq_box": ours, "rank": rank, "dist": name}
                self.relations.append(row | {"dist_box": theirs})
        names = (name,) * self.mesh.ranks
        tensor = Tensor(name, names, tuple(shape), layout, made=False)
        if dtype == "float32":
            self.tensors.append(tensor)
        return tensor

    # ---- from one layout to another ---------------------------------------------------------------
    def moved(self, x: Tensor, target: Layout) -> Tensor:
        """The tensor in another layout, by collectives and slices."""
        undo = {axis for axis in self.axes if x.layout[axis] != target[axis]}
        outer = [p[1] for p in (x.layout[0], target[0]) if p[0] == "S"]
        if 0 in undo and len(target) > 1 and x.layout[1][0] == "S" and x.layout[1][1] in outer:
            undo.add(1)
        if not undo and WHOLE in x.layout:
            x = self._replicas(x, x.layout.index(WHOLE))
        for axis in [a for a in sorted(undo) if self._exchanges(x, a, target)]:
            x = self._exchanged(x, axis, target[axis])
            undo.remove(axis)
        for axis in sorted(undo, reverse=True):
            x = self._opened(x, axis, target)
        for axis in sorted(undo):
            if target[axis][0] == "S" and x.layout[axis] == WHOLE:
                x = self._cut(x, axis, target[axis])
        if x.layout != target:
            raise Invalid("there is no way to this layout")
        return x

    def _opened(self, x: Tensor, axis: int, target: Layout) -> Tensor:
        """The tensor on all ranks of an axis as a whole (or reduced and scattered in one step)."""
        place = x.layout[axis]
        if place[0] == "P":
            if self.wrong():
                return self.relaid(x, axis, WHOLE)
            if self._scatters(x, axis, target[axis]):
                return self._scattered(x, axis, target[axis])
            kind = {"avg": "avg", "max": "max", "min": "min"}.get(place[1], "sum")
            if self.wrong(0.5):
                kind = self.rng.choice(["max", "avg"] if kind == "sum" else ["sum"])
            return self._reduced(x, axis, kind)
        if place[0] == "S":
            return self._gathered(x, axis)
        return x

    def relaid(self, x: Tensor, axis: int, place: Place) -> Tensor:
        """The same tensors, taken for another layout."""
        return replace(x, layout=(*x.layout[:axis], place, *x.layout[axis + 1 :]))

    def _group(self, axis: int) -> str:
        """The name of the group along an axis (or by mistake along the other one)."""
        if len(self.mesh.shape) > 1 and self.wrong(0.3):
            axis = 1 - axis
        return NAMES[axis]

    def _collective(
        self, x: Tensor, kind: str, args: list[Any], resize: Callable[[list[int]], list[int]]
    ) -> Tensor:
        made = self.fresh(kind[:6])
        for rank, graph in enumerate(self.dist):
            name = x.dist[rank]
            shape = resize(list(graph.shape(name)))
            graph.collective(made, f"{kind}.default", [ref(name), *args], shape)
            if self.count % 2:
                graph.call(f"{made}w", "_c10d_functional.wait_tensor.default", [ref(made)])
        names = (f"{made}w" if self.count % 2 else made,) * self.mesh.ranks
        return replace(x, dist=names)

    def _reduced(self, x: Tensor, axis: int, kind: str) -> Tensor:
        made = self._collective(x, "all_reduce", [kind, self._group(axis)], lambda s: s)
        return self.relaid(made, axis, WHOLE)

    def _scatters(self, x: Tensor, axis: int, target: Place) -> bool:
        """May a reduce-scatter do it?"""
        free = all(p[0] != "S" or p[1] != 0 for i, p in enumerate(x.layout) if i != axis)
        fits = target[0] == "S" and target[1] == 0 and target[3] == 1 and len(set(target[2])) == 1
        fits = fits and sum(target[2]) == x.shape[0]
        return free and fits and x.layout[axis] == PARTIAL and self.chance(0.7)

    def _scattered(self, x: Tensor, axis: int, target: Place) -> Tensor:
        size = self.mesh.shape[axis]
        args = ["sum", size, self._group(axis)]
        made = self._collective(x, "reduce_scatter_tensor", args, lambda s: [s[0] // size, *s[1:]])
        return self.relaid(made, axis, target)

    def _gathered(self, x: Tensor, axis: int) -> Tensor:
        _, dim, sizes, outer = x.layout[axis]
        size = self.mesh.shape[axis]
        if len(set(sizes)) > 1 or outer > 1:
            raise Invalid("uneven shards are not gathered")
        split = dim and self.chance(0.4)
        swaps = dim and not split and not self.wrong()
        turned = (
            self.on_ranks(x, lambda at: at.call("transpose.int", at[0], 0, dim))
            if swaps
            else x.dist
        )
        made = self._collective(
            replace(x, dist=turned), "all_gather_into_tensor", [size, self._group(axis)],
            lambda s: [s[0] * size, *s[1:]],
        )  # fmt: skip
        if split:
            names = self.on_ranks(made, lambda at: _rejoined(at, size, dim))
            made = replace(made, dist=names)
        elif swaps:
            names = self.on_ranks(made, lambda at: at.call("transpose.int", at[0], 0, dim))
            made = replace(made, dist=names)
        return self.relaid(made, axis, WHOLE)

    def _replicas(self, x: Tensor, axis: int) -> Tensor:
        """Replicas sent once more, averaged, or (a mistake) added up."""
        if self.chance(0.02):
            return self._reduced(x, axis, self.rng.choice(["avg", "avg", "max"]))
        if self.chance(0.02):
            return self._collective(x, "broadcast", [0, NAMES[axis]], lambda s: s)
        return self._reduced(x, axis, "sum") if self.wrong(0.3) else x

    def _exchanges(self, x: Tensor, axis: int, target: Layout) -> bool:
        """May an all-to-all do it: from one dimension cut in equal parts to another one?"""
        one, other = x.layout[axis], target[axis]
        if one[0] != "S" or other[0] != "S" or one[1] == other[1] or one[3] * other[3] > 1:
            return False
        others = [p for row in (x.layout, target) for i, p in enumerate(row) if i != axis]
        held = [p[1] for p in others if p[0] == "S"]
        even = len(set(one[2])) == 1 == len(set(other[2]))
        return even and one[1] not in held and other[1] not in held and self.chance(0.8)

    def _exchanged(self, x: Tensor, axis: int, place: Place) -> Tensor:
        """All-to-all: every rank gives each other one its part of the new dimension."""
        old, new, size = x.layout[axis][1], place[1], self.mesh.shape[axis]
        cut = place[2][0]
        turned = replace(
            x, dist=self.on_ranks(x, lambda at: at.call("transpose.int", at[0], 0, new))
        )
        sizes = [cut] * size if self.chance(0.5) else None
        made = self._collective(
            turned, "all_to_all_single", [sizes, sizes, self._group(axis)], lambda s: s
        )
        along = {0: new, new: 0}.get(old, old)

        def emit(at: Site) -> Ref:
            parts = at.call("split.Tensor", at[0], cut, 0)
            whole = at.call("cat", [at.item(parts, i) for i in range(size)], along)
            return at.call("transpose.int", whole, 0, new)

        return self.relaid(replace(made, dist=self.on_ranks(made, emit)), axis, place)

    def _cut(self, x: Tensor, axis: int, place: Place) -> Tensor:
        """Every rank slices its share."""
        _, dim, sizes, outer = place
        if outer > 1:
            raise Invalid("a share of every block is not sliced")
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        if self.wrong():
            others = [starts[::-1], [max(0, s - 1) for s in starts], [0] * len(starts)]
            starts = self.rng.choice(others)

        def emit(at: Site) -> Ref:
            i = at.coordinates[axis]
            return at.call("slice.Tensor", at[0], dim, starts[i], starts[i] + sizes[i])

        return self.relaid(replace(x, dist=self.on_ranks(x, emit)), axis, place)

    def settled(self, x: Tensor) -> Tensor:
        """No open sum any more (or by mistake still one)."""
        target = tuple(self._settled_place(x, axis) for axis in self.axes)
        return self.moved(x, target)

    def _settled_place(self, x: Tensor, axis: int) -> Place:
        size = self.mesh.shape[axis]
        if x.layout[axis][0] != "P":
            return x.layout[axis]
        free = all(p[0] != "S" or p[1] != 0 for p in x.layout)
        if free and x.shape and x.shape[0] % size == 0 and self.chance(0.4):
            used = sum(p[0] == "P" for p in x.layout)
            if used == 1:
                return ("S", 0, (x.shape[0] // size,) * size, 1)
        return WHOLE

    # ---- an operator on both sides ------------------------------------------------------------------
    def apply(self, operands: Sequence[Operand], rule: Rule, emit: Emit) -> list[Tensor]:
        """An operator on both sides: chooses how it is spread over the mesh, brings its operands
        into place and notes what the results are meant to be."""
        extents = dict(rule.extents)
        for x, letters in zip(operands, rule.operands, strict=True):
            if isinstance(x, Tensor):
                extents |= zip(letters, x.shape, strict=True)
        splits: list[Split] = []
        for axis in self.axes:
            splits.append(self._split(axis, operands, rule, extents, splits))
            shard = splits[-1].shard
            if shard is not None and shard[0] == rule.prefer and 1 in shard[1]:
                self.beyond("a vocabulary of one row")
        ready = [
            self._ready(x, letters, place, splits, extents)
            for place, (x, letters) in enumerate(zip(operands, rule.operands, strict=True))
        ]
        seq = Site(
            self.seq, [ref(x.seq) for x in ready], {n: (0, e) for n, e in extents.items()},
            {}, -1, (), self.count,
        )  # fmt: skip
        ours = emit(seq)
        counts, theirs = [seq.count], []
        for rank, graph in enumerate(self.dist):
            at = self.mesh.at(rank)
            ranges = _ranges(extents, splits, at)
            blocks = {s.shard[0]: s.shard[2] for s in splits if s.shard is not None}
            operands_here = [ref(x.dist[rank]) for x in ready]
            site = Site(graph, operands_here, ranges, blocks, rank, at, self.count)
            theirs.append(emit(site))
            counts.append(site.count)
        self.count = max(counts)
        made = []
        for place, letters in enumerate(rule.results):
            layout = tuple(self._result_place(s, letters, rule) for s in splits)
            dims = [p[1] for p in layout if p[0] == "S"]
            cut = {s.shard[0] for s in splits if s.shard is not None}
            if len(set(dims)) < len(dims) and len(cut) > 1:
                raise Invalid("two dimensions made one, and both are cut")
            names = tuple(refs[place]["node"] for refs in theirs)
            name = ours[place]["node"]
            made.append(Tensor(name, names, self.seq.shape(name), layout))
            self._expect(made[-1])
        self.tensors += made
        return made

    def _result_place(self, split: Split, letters: str, rule: Rule) -> Place:
        """What a result is meant to be over an axis."""
        if split.part is not None:
            return ("P", split.kind)
        if split.shard is None:
            return WHOLE
        shard = split.shard if rule.carry is None else rule.carry(split.shard)
        letter, sizes, outer = shard
        if letter in letters:
            return ("S", letters.index(letter), sizes, outer)
        if outer > 1 or 1 in sizes:
            self.beyond("a reduction over a part of every block, or over one position")
        if rule.kind == "avg" and len(set(sizes)) > 1:
            raise Invalid("an average of uneven shards")
        return ("P", rule.kind)

    def _expect(self, x: Tensor) -> None:
        """A program without a mistake has the shapes that its layouts say."""
        for rank, graph in enumerate(self.dist):
            wanted = local(x.shape, x.layout, self.mesh.at(rank))
            if self.clean and list(graph.shape(x.dist[rank])) != wanted:
                raise AssertionError(f"{x}: rank {rank} has {graph.shape(x.dist[rank])}")

    def _split(
        self,
        axis: int,
        operands: Sequence[Operand],
        rule: Rule,
        extents: Mapping[str, int],
        before: Sequence[Split],
    ) -> Split:
        size = self.mesh.shape[axis]
        room = dict(extents)
        for split in before:
            if split.shard is not None:
                letter, sizes, outer = split.shard
                even = len(set(sizes)) == 1 and outer == 1
                room[letter] = sizes[0] if even else 0
        options: list[Split] = []
        for place, (x, letters) in enumerate(zip(operands, rule.operands, strict=True)):
            held = x.layout[axis] if isinstance(x, Tensor) else WHOLE
            if held[0] == "S":
                letter, sizes, outer = letters[held[1]], held[2], held[3]
                free = letter not in rule.whole or self.wrong(0.5)
                if free and room[letter] == sum(sizes) * outer:
                    options.append(Split((letter, sizes, outer)))
            elif held[0] == "P" and held[1] in rule.open.get(place, ()):
                options.append(Split(part=place, kind=held[1]))
        options += self._open(axis, operands, rule)
        if options and self.chance(0.85):
            return self.rng.choice(options)
        free = sorted(set(room) - set(rule.whole))
        fresh = [n for n in free if self.roomy(room[n], size)]
        if fresh and self.chance(0.4):
            letter = self.rng.choice(fresh)
            if rule.prefer in fresh and rule.prefer and self.chance(0.6):
                letter = rule.prefer
            return Split((letter, self.cuts(room[letter], size), 1))
        return Split()

    def _open(self, axis: int, operands: Sequence[Operand], rule: Rule) -> list[Split]:
        """All operands open at once; by mistake also where some of them are not."""
        held = [x.layout[axis] if isinstance(x, Tensor) else WHOLE for x in operands]
        open_ = [p for p in held if p[0] == "P"]
        if len(set(open_)) != 1 or open_[0][1] not in rule.together:
            return []
        if len(open_) == len(held) or self.wrong():
            return [Split(part=-1, kind=open_[0][1])] * 3
        return []

    def _ready(
        self,
        x: Operand,
        letters: str,
        place: int,
        splits: Sequence[Split],
        extents: Mapping[str, int],
    ) -> Tensor:
        layout: list[Place] = []
        for axis, split in enumerate(splits):
            if split.shard is not None and split.shard[0] in letters:
                letter, sizes, outer = split.shard
                layout.append(("S", letters.index(letter), sizes, outer))
            elif split.part == place or (split.part == -1 and isinstance(x, Tensor)):
                layout.append(x.layout[axis] if isinstance(x, Tensor) else WHOLE)
            else:
                layout.append(WHOLE)
        if isinstance(x, New):
            return self.input([extents[n] for n in letters], tuple(layout), x.dtype)
        return self.moved(x, tuple(layout))

    # ---- the whole --------------------------------------------------------------------------------
    def step(self) -> None:
        """One random step; what does not fit is undone."""
        from steps import STEPS

        marks = [len(g.nodes) for g in (self.seq, *self.dist)]
        saved = len(self.tensors), len(self.relations), self.clean, self.plain
        kind = self.rng.choice(STEPS)
        pool = [t for t in self.tensors if t.shape]
        try:
            kind(self, self.rng.choice(pool[-4:]))
        except Invalid:
            for graph, mark in zip((self.seq, *self.dist), marks, strict=True):
                graph.drop_after(mark)
            del self.tensors[saved[0] :], self.relations[saved[1] :]
            self.clean, self.plain = saved[2:]

    def build(self, steps: int) -> Program:
        """The pair of programs."""
        shape = self.rng.choice(SHAPES)
        self.input(shape, self.layout_for(shape))
        for _ in range(4 * steps):
            if sum(t.made for t in self.tensors) >= steps:
                break
            self.step()
        made = [t for t in self.tensors if t.made] or self.tensors
        kept = [made[-1]] + [t for t in made[:-1] if self.chance(0.3)]
        outputs, ours, theirs = [], [], []
        for tensor in dict.fromkeys(kept):
            left = self._left_open(tensor)
            final = tensor if left else self.settled(tensor)
            row: Json = {"seq": final.seq, "dist": final.dist[0]}
            if len(set(final.dist)) > 1 or self.chance(0.1):
                row["dist"] = {str(r): name for r, name in enumerate(final.dist)}
            outputs.append(row | ({"partial": True} if left else {}))
            ours.append(final.seq)
            theirs.append(final.dist)
        (seq,) = documents([self.seq], [ours])
        returned = [[names[r] for names in theirs] for r in range(self.mesh.ranks)]
        dist = dict(enumerate(documents(self.dist, returned)))
        return Program(seq, dist, self.mesh.groups(), self.relations, outputs)

    def layout_for(self, shape: Sequence[int]) -> Layout:
        """A random layout of an input."""
        layout: list[Place] = []
        room = list(shape)
        for size in self.mesh.shape:
            dims = [d for d, e in enumerate(room) if self.roomy(e, size)]
            if not dims or self.chance(0.4):
                layout.append(WHOLE)
                continue
            dim = self.rng.choice(dims)
            outer = 2 if room[dim] % (2 * size) == 0 and self.chance(0.1) else 1
            sizes = self.cuts(room[dim] // outer, size)
            layout.append(("S", dim, sizes, outer))
            room[dim] = sizes[0] if len(set(sizes)) == 1 and outer == 1 else 0
        return tuple(layout)

    def _left_open(self, x: Tensor) -> bool:
        """Is the output declared to be an open sum, over one axis?"""
        others = [p[0] for p in x.layout if p != PARTIAL]
        return len(others) == len(x.layout) - 1 and set(others) <= {"S"} and self.chance(0.4)


def _rejoined(at: Site, size: int, dim: int) -> Ref:
    """What was gathered along dimension 0, along another one."""
    rows = at.shape(at[0])[0] // size
    parts = at.call("split.Tensor", at[0], rows, 0)
    return at.call("cat", [at.item(parts, i) for i in range(size)], dim)


def _ranges(
    extents: Mapping[str, int], splits: Sequence[Split], at: Sequence[int]
) -> dict[str, tuple[int, int]]:
    """(first position, how many) per letter on one rank."""
    found = {letter: (0, extent) for letter, extent in extents.items()}
    for i, split in zip(at, splits, strict=True):
        if split.shard is not None:
            letter, sizes, outer = split.shard
            found[letter] = (found[letter][0] + sum(sizes[:i]), sizes[i] * outer)
    return found


# ---- for steps ---------------------------------------------------------------------------------------
def letters(x: Tensor) -> str:
    """A letter per dimension."""
    return LETTERS[: len(x.shape)]


def ranked(x: Tensor, least: int, most: int = 5) -> str:
    """The letters of a tensor with so many dimensions, else :class:`Invalid`."""
    if not least <= len(x.shape) <= most:
        raise Invalid("another number of dimensions")
    return letters(x)


def alike(f: Fuzzer, x: Tensor) -> Tensor | New:
    """Another tensor of the same shape: one that is there or a new one."""
    others = [t for t in f.tensors if t.shape == x.shape]
    return f.rng.choice(others[-5:]) if others and f.chance(0.6) else New()


# ---- a program ---------------------------------------------------------------------------------------
SHAPES = ((4, 6), (2, 4), (2, 3, 4), (8, 6), (4, 2, 6), (8, 4), (6, 12), (4, 8), (2, 4, 8), (12, 4))
MESHES = ((2,), (2,), (3,), (4,), (2, 2), (2, 2), (2, 3), (3, 2))
CHANGED = 0.1  # programs of which the documents are broken at some place


def generate(seed: int) -> tuple[Program, bool]:
    """A pair of programs, and whether the rules should follow it: the distributed one was written
    without a mistake, and nothing in it is known to be beyond them."""
    rng = random.Random(seed)
    shape = rng.choice(MESHES)
    mistakes = rng.choice([0, 0, 0.04, 0.12])
    orders = [list(range(n)) for n in shape]
    if mistakes and rng.random() < 0.08:
        rng.shuffle(orders[rng.randrange(len(orders))])
    fuzzer = Fuzzer(rng, Mesh(shape, tuple(map(tuple, orders))), mistakes)
    program = fuzzer.build(rng.randint(2, 8))
    if rng.random() < CHANGED and not any(row.get("partial") for row in program.outputs):
        return mutate(program, rng).program, False
    return program, fuzzer.clean and fuzzer.plain
