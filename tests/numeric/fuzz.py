"""Random programs: a sequential one of a few operators, and a distributed one that shards its
inputs over the axes of a mesh and inserts collectives, mostly sensibly, now and then with a mistake.

Only soundness is asked of the rules: whatever they derive has to be right by execution. A program
without a mistake (``clean``) also tells how often a right program is refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .execution import overlap
from .forms import misspell, spell
from .handles import scheduled
from .layouts import Layouts
from .mutations import mutate
from .program import Json, Program
from .promotion import Invalid
from .tensors import (
    ADDS,
    EVERY,
    EXTREMA,
    Emit,
    New,
    Operand,
    Rule,
    Shard,
    Split,
    Tensor,
    letters,
    ranked,
)
from .writing import PARTIAL, WHOLE, Mesh, Place, Site, documents, local, ref

__all__ = [
    "ADDS", "EVERY", "EXTREMA", "Fuzzer", "Made", "New", "Operand", "Rule", "Shard", "Tensor", "alike",
    "generate", "letters", "mixed", "ranked",
]  # fmt: skip


class Fuzzer(Layouts):
    """Builds one pair of programs."""

    # ---- an operator on both sides ------------------------------------------------------------------
    def apply(self, operands: Sequence[Operand], rule: Rule, emit: Emit) -> list[Tensor]:
        """An operator on both sides: chooses how it is spread over the mesh, brings its operands
        into place and notes what the results are meant to be."""
        extents = dict(rule.extents)
        for x, named in zip(operands, rule.operands, strict=True):
            if isinstance(x, Tensor):
                extents |= zip(named, x.shape, strict=True)
        self.alone = sum(isinstance(x, Tensor) for x in operands) == 1
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
        self.alone = False
        seq = Site(
            self.seq, [ref(x.seq) for x in ready], {n: (0, e) for n, e in extents.items()},
            {}, -1, (), self.count,
        )  # fmt: skip
        ours = emit(seq)
        counts, theirs = [seq.count], []
        cuts = [s.shard[0] if s.shard is not None else "" for s in splits]
        axes = {n: axis if cuts.count(n) == 1 else -1 for axis, n in enumerate(cuts)}
        for rank, graph in enumerate(self.dist):
            at = self.mesh.at(rank)
            if any(s.live not in (None, i) for s, i in zip(splits, at, strict=True)):
                theirs.append([])
                continue
            ranges = _ranges(extents, splits, at)
            blocks = {s.shard[0]: s.shard[2] for s in splits if s.shard is not None}
            operands_here = [ref(x.dist[rank]) for x in ready]
            site = Site(graph, operands_here, ranges, blocks, rank, at, self.count, axes)
            theirs.append(emit(site))
            counts.append(site.count)
        self.count = max(counts)
        self._forget(
            all(x is r for x, r in zip(operands, ready, strict=True) if isinstance(x, Tensor))
        )
        made = []
        for place, named in enumerate(rule.results):
            layout = tuple(self._result_place(s, named, rule) for s in splits)
            dims = [p[1] for p in layout if p[0] == "S"]
            cut = {s.shard[0] for s in splits if s.shard is not None}
            if len(set(dims)) < len(dims) and len(cut) > 1:
                raise Invalid("two dimensions made one, and both are cut")
            names = tuple(refs[place]["node"] if refs else "" for refs in theirs)
            name = ours[place]["node"]
            dtype = self.seq.dtype(name)
            made.append(Tensor(name, names, self.seq.shape(name), layout, dtype=dtype))
            self._expect(made[-1])
            self.pool(dtype).append(made[-1])
        return made

    def _forget(self, unmoved: bool) -> None:
        """After writes into memory, what lies in it is not known to be what it should be, unless
        the operands are written as they are, and everywhere."""
        graphs = (self.seq, *self.dist)
        if not any(graph.written for graph in graphs):
            return
        for pool in (self.tensors, self.integers):
            pool[:] = [t for t in pool if self._stands(t, unmoved)]
        for graph in graphs:
            graph.written.clear()

    def _stands(self, x: Tensor, unmoved: bool) -> bool:
        touched = {
            any(overlap(graph.zeros[name], memory) for memory in graph.written)
            for graph, name in zip((self.seq, *self.dist), (x.seq, *x.dist), strict=True)
            if name
        }
        return touched == {False} or (unmoved and touched == {True})

    def _result_place(self, split: Split, letters: str, rule: Rule) -> Place:
        """What a result is meant to be over an axis."""
        if split.part is not None:
            return ("P", split.kind)
        if split.live is not None:
            return ("L", split.live)
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
            if x.dist[rank] and self.clean and list(graph.shape(x.dist[rank])) != wanted:
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
        stages = [
            x.layout[axis][1]
            for x in operands
            if isinstance(x, Tensor) and x.layout[axis][0] == "L"
        ]
        if stages and self.chance(0.85):
            return Split(live=self.rng.choice([*stages, *stages, self.rng.randrange(size)]))
        room = dict(extents)
        for split in before:
            if split.shard is not None:
                letter, sizes, outer = split.shard
                even = len(set(sizes)) == 1 and outer == 1
                room[letter] = sizes[0] if even else 0
        options: list[Split] = []
        for place, (x, named) in enumerate(zip(operands, rule.operands, strict=True)):
            held = x.layout[axis] if isinstance(x, Tensor) else WHOLE
            if held[0] == "S":
                letter, sizes, outer = named[held[1]], held[2], held[3]
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
            if split.live is not None:
                layout.append(("L", split.live))
            elif split.shard is not None and split.shard[0] in letters:
                letter, sizes, outer = split.shard
                layout.append(("S", letters.index(letter), sizes, outer))
            elif split.part == place or (split.part == -1 and isinstance(x, Tensor)):
                layout.append(x.layout[axis] if isinstance(x, Tensor) else WHOLE)
            else:
                layout.append(WHOLE)
        if isinstance(x, New):
            return self.input([extents[n] for n in letters], tuple(layout), x.dtype, x.stem)
        return self.moved(x, tuple(layout))

    # ---- the whole --------------------------------------------------------------------------------
    def step(self) -> None:
        """One random step; what does not fit is undone."""
        from .features import STEPS_OF
        from .steps import STEPS

        feature, steps = "", STEPS
        spoken = [name for name in self.features if name in STEPS_OF]
        if spoken and self.chance(0.6):
            feature = self.rng.choice(spoken)
            steps = STEPS_OF[feature]
        kind = self.rng.choice(steps)
        pool = [t for t in self.tensors if t.shape]
        self.attempt(kind, self.rng.choice(pool[-4:]), feature)

    def attempt(self, kind: Callable[[Fuzzer, Tensor], None], x: Tensor, feature: str = "") -> bool:
        """A step, undone where it does not fit."""
        graphs = (self.seq, *self.dist)
        marks = [len(g.nodes) for g in graphs]
        pools = [*self.tensors], [*self.integers]
        saved = len(self.relations), self.clean, self.plain, len(self.mistaken)
        try:
            kind(self, x)
        except Invalid:
            for graph, mark in zip(graphs, marks, strict=True):
                graph.drop_after(mark)
            self.tensors[:], self.integers[:] = pools
            del self.relations[saved[0] :], self.mistaken[saved[3] :]
            self.clean, self.plain = saved[1:3]
            return False
        if feature:
            for graph, mark in zip(graphs, marks, strict=True):
                self.told |= {n["name"]: feature for n in graph.nodes[mark:] if _operator(n)}
        return True

    def build(self, steps: int) -> Program:
        """The pair of programs."""
        shape = self.rng.choice(SHAPES)
        self.input(shape, self.layout_for(shape))
        for _ in range(4 * steps):
            if sum(t.made for t in (*self.tensors, *self.integers)) >= steps:
                break
            self.step()
        if not self.tensors:
            self.input(shape, self.layout_for(shape))
        made = [t for t in self.tensors if t.made] or self.tensors
        kept = [made[-1]] + [t for t in made[:-1] if self.chance(0.3)]
        kept += [t for t in self.integers if t.made and self.chance(0.6)]
        kept += [t for t in self.forced if t in self.tensors]
        outputs, ours, theirs = [], [], []
        for tensor in dict.fromkeys(kept):
            left = self._left_open(tensor)
            final = tensor if left else self.settled(tensor)
            row: Json = {"seq": final.seq, "dist": final.dist[0]}
            if len(set(final.dist)) > 1 or self.chance(0.1):
                row["dist"] = {str(r): name for r, name in enumerate(final.dist) if name}
            outputs.append(row | ({"partial": True} if left else {}))
            ours.append(final.seq)
            theirs.append(final.dist)
        if "handles" in self.features and self.chance(0.7):
            alike, seed = self.chance(0.5), self.fresh("order")
            for rank, graph in enumerate((*self.dist, self.seq)):
                scheduled(
                    graph, f"{seed} {self.rng.random() if not alike else ''} {rank * (not alike)}"
                )
        (seq,) = documents([self.seq], [ours])
        returned = [[names[r] for names in theirs if names[r]] for r in range(self.mesh.ranks)]
        dist = dict(enumerate(documents(self.dist, returned)))
        return Program(seq, dist, self.mesh.groups(), self.relations, outputs)

    def _left_open(self, x: Tensor) -> bool:
        """Is the output declared to be an open sum, over one axis?"""
        others = [p[0] for p in x.layout if p != PARTIAL]
        if x.dtype == "bool":
            return False
        return len(others) == len(x.layout) - 1 and set(others) <= {"S"} and self.chance(0.4)


def _operator(node: Json) -> bool:
    return node["op"] == "call_function" and "getitem" not in str(node["target"])


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


def alike(f: Fuzzer, x: Tensor) -> Tensor | New:
    """Another tensor of the same shape: one that is there or a new one."""
    others = [t for t in f.tensors if t.shape == x.shape]
    return f.rng.choice(others[-5:]) if others and f.chance(0.6) else New()


# ---- a program ---------------------------------------------------------------------------------------
SHAPES = ((4, 6), (2, 4), (2, 3, 4), (8, 6), (4, 2, 6), (8, 4), (6, 12), (4, 8), (2, 4, 8), (12, 4))
MESHES = ((2,), (2,), (3,), (4,), (2, 2), (2, 2), (2, 3), (3, 2))
CHANGED = 0.1  # programs of which the documents are broken at some place


class Made(NamedTuple):
    """A pair of programs. ``clean``: the rules should follow it, for the distributed one was written
    without a mistake, and nothing in it is known to be beyond them."""

    program: Program
    clean: bool
    features: frozenset[str] = frozenset()  # what it speaks of
    mistakes: tuple[str, ...] = ()


def generate(seed: int, features: Sequence[str] = ()) -> Made:
    """A pair of programs that may speak of some features."""
    rng = random.Random(seed)
    shape = rng.choice(MESHES)
    mistakes = rng.choice([0, 0, 0.04, 0.12]) * (1.5 if features else 1)
    orders = [list(range(n)) for n in shape]
    if mistakes and rng.random() < 0.08:
        rng.shuffle(orders[rng.randrange(len(orders))])
    mesh = Mesh(shape, tuple(map(tuple, orders)))
    fuzzer = Fuzzer(rng, mesh, mistakes, features=features)
    program = fuzzer.build(rng.randint(2, 8))
    changed = rng.random() < CHANGED
    clean, told, said = fuzzer.clean and fuzzer.plain, [*fuzzer.mistaken], spoken(program, fuzzer)
    if changed and not any(row.get("partial") for row in program.outputs):
        broken = mutate(program, rng)
        program, clean, told = broken.program, False, [broken.kind, *told]
    if "keywords" in features:
        made = misspell(program, rng) if rng.random() < 2 * mistakes else None
        clean, told = clean and made is None, told + ["keywords"] * (made is not None)
        said |= {"keywords"} if spell(program, rng) or made else set()
    return Made(program, clean, frozenset(said), tuple(told))


def spoken(program: Program, fuzzer: Fuzzer) -> set[str]:
    """The features that are left in a program without what nothing uses."""
    graphs = (program.seq, *program.dist.values())
    names = {n["name"] for g in graphs for n in g["nodes"]}
    return {feature for name, feature in fuzzer.told.items() if name in names}


def mixed(seed: int) -> Made:
    """A pair of programs, with no feature or some of them as the seed says."""
    from .features import FEATURES

    rng = random.Random(f"features of {seed}")
    if rng.random() < 0.3:
        return generate(seed)
    return generate(seed, rng.sample(FEATURES, rng.choice([1, 1, 2, 3])))
