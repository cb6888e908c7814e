"""Layouts of tensors over a mesh, and the ways from one to another: collectives, slices, messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .buckets import interleaved, summed_up
from .handles import collective
from .program import Json
from .promotion import Invalid
from .tensors import Tensor
from .transfers import handed_over, only, ring_gathered, ring_reduced
from .writing import NAMES, PARTIAL, WHOLE, Graph, Layout, Mesh, Place, Ref, Site, local, ref


@dataclass
class Layouts:
    """One pair of programs while it is built, and its tensors."""

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
    features: Sequence[str] = ()  # what it may speak of beside the plain operators
    integers: list[Tensor] = field(default_factory=list)  # and masks
    told: dict[str, str] = field(default_factory=dict)  # which feature made a node
    mistaken: list[str] = field(default_factory=list)
    alone: bool = False  # the operand at hand may be overwritten: no other one lies in its memory
    forced: list[Tensor] = field(default_factory=list)  # outputs

    def __post_init__(self) -> None:
        self.dist = [Graph() for _ in range(self.mesh.ranks)]
        if any(list(order) != sorted(order) for order in self.mesh.orders):
            self.clean = False

    # ---- helpers --------------------------------------------------------------------------------
    def wrong(self, less: float = 1, what: str = "") -> bool:
        """Make a mistake here?"""
        if self.rng.random() < self.mistakes * less * (2.5 if what else 1):
            self.clean = False
            self.mistaken += [what] if what else []
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
        names, counts = [], [self.count]
        for rank, graph in enumerate(self.dist):
            at = self.mesh.at(rank)
            if not tensor.dist[rank]:
                names.append("")
                continue
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

    def input(
        self, shape: Sequence[int], layout: Layout, dtype: str = "float32", stem: str = "x"
    ) -> Tensor:
        """A new input on both sides with its relations."""
        name = self.fresh(stem)
        self.seq.placeholder(name, shape, dtype)
        names = tuple(name if self.mesh.lives(r, layout) else "" for r in range(self.mesh.ranks))
        for rank, graph in enumerate(self.dist):
            if not names[rank]:
                continue
            graph.placeholder(name, local(shape, layout, self.mesh.at(rank)), dtype)
            for ours, theirs in self.mesh.boxes(rank, shape, layout):
                row = {"seq": name, "seq_box": ours, "rank": rank, "dist": name}
                self.relations.append(row | {"dist_box": theirs})
        tensor = Tensor(name, names, tuple(shape), layout, made=False, dtype=dtype)
        if dtype == "float32":
            self.tensors.append(tensor)
        return tensor

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

    def pool(self, dtype: str) -> list[Tensor]:
        """Where tensors of a type are kept."""
        return self.tensors if dtype == "float32" else self.integers

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
            if target[axis][0] == "L" and x.layout[axis] == WHOLE:
                x = only(self, x, axis, target[axis][1])
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
        if place[0] == "L":
            return handed_over(self, x, axis, target[axis])
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
        if "handles" in self.features and self.chance(0.75):
            return replace(x, dist=collective(self, x, kind, args, resize))
        made = self.fresh(kind[:6])
        for rank, graph in enumerate(self.dist):
            name = x.dist[rank]
            if not name:
                continue
            shape = resize(list(graph.shape(name)))
            graph.collective(made, f"{kind}.default", [ref(name), *args], shape)
            if self.count % 2:
                graph.call(f"{made}w", "_c10d_functional.wait_tensor.default", [ref(made)])
        made = f"{made}w" if self.count % 2 else made
        return replace(x, dist=tuple(made if name else "" for name in x.dist))

    def spread(self, x: Tensor, kind: str, args: list[Any]) -> Tensor:
        """A collective that keeps the form."""
        return self._collective(x, kind, args, lambda s: s)

    def _reduced(self, x: Tensor, axis: int, kind: str) -> Tensor:
        if kind == "avg" and x.dtype != "float32":
            kind = "min"
        if (
            "transfers" in self.features
            and kind != "avg"
            and x.dtype != "bool"
            and self.chance(0.5)
        ):
            return ring_reduced(self, x, axis, kind)
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
        if "buckets" in self.features and outer > 1 and x.dtype != "bool":
            return interleaved(self, x, axis)
        if "buckets" in self.features and x.dtype == "float32" and self.chance(0.4):
            return summed_up(self, x, axis)
        if "transfers" in self.features and outer == 1 and self.chance(0.6):
            return ring_gathered(self, x, axis)
        if len(set(sizes)) > 1 or outer > 1:
            raise Invalid("uneven shards are not gathered")
        split = dim and self.chance(0.4)
        swaps = dim and not split and not self.wrong()
        turned = (
            self.on_ranks(x, lambda at: at.call("transpose.int", at[0], 0, dim))
            if swaps
            else x.dist
        )
        made = self.gather(replace(x, dist=turned), axis)
        if split:
            names = self.on_ranks(made, lambda at: _rejoined(at, size, dim))
            made = replace(made, dist=names)
        elif swaps:
            names = self.on_ranks(made, lambda at: at.call("transpose.int", at[0], 0, dim))
            made = replace(made, dist=names)
        return self.relaid(made, axis, WHOLE)

    def gather(self, x: Tensor, axis: int) -> Tensor:
        """All ranks' tensors one after the other along dimension 0."""
        size = self.mesh.shape[axis]
        args = [size, self._group(axis)]
        resize = lambda s: [s[0] * size, *s[1:]]  # noqa: E731
        return self._collective(x, "all_gather_into_tensor", args, resize)

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


def _rejoined(at: Site, size: int, dim: int) -> Ref:
    """What was gathered along dimension 0, along another one."""
    rows = at.shape(at[0])[0] // size
    parts = at.call("split.Tensor", at[0], rows, 0)
    return at.call("cat", [at.item(parts, i) for i in range(size)], dim)
