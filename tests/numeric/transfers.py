"""What ranks send each other: a tensor handed over to another stage, rings, rows of a neighbour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .promotion import Invalid
from .tensors import Rule, Tensor, letters
from .writing import NAMES, WHOLE, Graph, Place, Ref, Site, ref

if TYPE_CHECKING:
    from .fuzz import Fuzzer
    from .layouts import Layouts

WAIT = "_c10d_functional.wait_tensor.default"


# ---- messages ------------------------------------------------------------------------------------------
@dataclass
class Post:
    """Messages along an axis, in one form; ``name`` is that of the node on both ends."""

    f: Layouts
    axis: int
    batch: bool
    waits: bool
    tag: int

    @classmethod
    def drawn(cls, f: Layouts, axis: int) -> Post:
        """In some form."""
        return cls(f, axis, f.chance(0.4), f.chance(0.7), f.rng.choice([0, 0, 7]))

    def peer(self, coordinate: int) -> int:
        """A place in the group."""
        return self.f.mesh.orders[self.axis].index(coordinate)

    def exchange(
        self, graph: Graph, name: str, sends: Sequence[tuple[str, int]], receives: Sequence[Any]
    ) -> list[str]:
        """Sends tensors (name, coordinate) and receives others (dtype, coordinate, shape); the names
        of what is received."""
        group, mark = NAMES[self.axis], len(graph.nodes)
        rows = [("isend", self.peer(to), x) for x, to in sends]
        buffers = []
        for i, (dtype, source, shape) in enumerate(receives):
            form = {"dtype": {"dtype": dtype}}
            graph.call(f"{name}b{i}", "aten.empty.memory_format", [list(shape)], **form)
            rows.append(("irecv", self.peer(source), f"{name}b{i}"))
            buffers.append(f"{name}b{i}")
        if self.batch:
            self._batch(graph, name, rows, group)
        else:
            started = []
            for kind, peer, x in rows:
                own = name if len(rows) == 1 else f"{name}{'s' if kind == 'isend' else 'r'}"
                into = x if kind == "irecv" else ""
                graph.transfer(own, f"{kind}.default", [ref(x), peer, self.tag, group], x, into)
                started.append(own)
            for i, own in enumerate(started):  # a send is done when the other rank receives
                self._wait(graph, own, f"{own}w{i}")
        self.f.told |= {n["name"]: "transfers" for n in graph.nodes[mark:]}
        graph.stems |= {n["name"]: name for n in graph.nodes[mark:]}
        if self.batch:
            return [f"{name}i{i}w" if self.waits else f"{name}i{i}" for i in self._places(rows)]
        own = name if len(rows) == 1 else f"{name}r"
        done = [f"{own}w{len(rows) - 1}" if self.waits else own]
        return done if buffers else []

    def _places(self, rows: Sequence[Any]) -> list[int]:
        return [i for i, (kind, _, _) in enumerate(rows) if kind == "irecv"]

    def _batch(self, graph: Graph, name: str, rows: Sequence[Any], group: str) -> None:
        kinds, peers, names = (list(column) for column in zip(*rows, strict=True))
        args = [kinds, peers, [self.tag] * len(rows), [ref(x) for x in names], group]
        graph.batch(name, args, [x for kind, _, x in rows if kind == "irecv"])
        for i in self._places(rows):
            graph.item(f"{name}i{i}", ref(name), i)
            self._wait(graph, f"{name}i{i}", f"{name}i{i}w")

    def _wait(self, graph: Graph, of: str, name: str) -> None:
        if self.waits:
            graph.call(name, WAIT, [ref(of)])
            graph.waits(name, of)
            graph.kept.add(name)


# ---- stages --------------------------------------------------------------------------------------------
def only(f: Layouts, x: Tensor, axis: int, stage: int) -> Tensor:
    """What every rank has, used by one along an axis only."""
    names = tuple(n if f.mesh.at(r)[axis] == stage else "" for r, n in enumerate(x.dist))
    return f.relaid(replace(x, dist=names), axis, ("L", stage))


def handed_over(f: Layouts, x: Tensor, axis: int, target: Place) -> Tensor:
    """From the only rank that has it to another one, or to all."""
    stage = x.layout[axis][1]
    goals = (
        [target[1]] if target[0] == "L" else [i for i in range(f.mesh.shape[axis]) if i != stage]
    )
    whole = target[0] != "L"
    if whole and f.chance(0.4):
        return _broadcast(f, x, axis, stage)
    post, names = Post.drawn(f, axis), list(x.dist)
    sent = _sent(f, x)
    wrong = f.wrong(0.3, "another peer")
    for goal in goals:
        name = f.fresh("p2p")
        for rank, graph in enumerate(f.dist):
            line, own = f.mesh.line(rank, axis), f.mesh.at(rank)[axis]
            source = line[stage]
            if own == stage and x.dist[rank]:
                post.exchange(graph, name, [(sent[rank], goal)], [])
            elif own == goal and x.dist[source]:
                shape = f.dist[source].shape(x.dist[source])
                came = (stage + 1) % len(line) if wrong else stage
                row = (x.dtype, came, shape)
                names[rank] = post.exchange(graph, name, [], [row])[0]
    if not whole:
        names = [n if f.mesh.at(r)[axis] == target[1] else "" for r, n in enumerate(names)]
    return f.relaid(replace(x, dist=tuple(names)), axis, target if not whole else WHOLE)


def _sent(f: Layouts, x: Tensor) -> tuple[str, ...]:
    """What is sent: by mistake an older tensor of this form."""
    others = [
        t
        for t in f.tensors
        if (t.shape, t.layout, t.dtype) == (x.shape, x.layout, x.dtype) and t.seq != x.seq
    ]
    if others and f.wrong(0.4, "another tensor is sent"):
        return f.rng.choice(others).dist
    return x.dist


def _broadcast(f: Layouts, x: Tensor, axis: int, stage: int) -> Tensor:
    """To all, by a broadcast: who has nothing gives memory of this form."""
    names = list(x.dist)
    empty = f.fresh("none")
    for rank, graph in enumerate(f.dist):
        source = f.mesh.line(rank, axis)[stage]
        if not names[rank] and x.dist[source]:
            other = f.dist[source]
            shape, dtype = list(other.shape(x.dist[source])), {"dtype": other.dtype(x.dist[source])}
            graph.call(empty, "aten.empty.memory_format", [shape], dtype=dtype)
            names[rank] = empty
    place = f.mesh.orders[axis].index(stage)
    place = (place + 1) % f.mesh.shape[axis] if f.wrong(0.3, "another root") else place
    made = f.spread(replace(x, dist=tuple(names)), "broadcast", [place, NAMES[axis]])
    return f.relaid(made, axis, WHOLE)


# ---- rings ---------------------------------------------------------------------------------------------
def _rounds(
    f: Layouts, x: Tensor, axis: int, sizes: Sequence[int] | None, dim: int
) -> list[dict[int, str]]:
    """Per rank, what it has got from each coordinate after all rounds: everything goes to the next."""
    n, post = f.mesh.shape[axis], Post.drawn(f, axis)
    got = [{f.mesh.at(r)[axis]: name} if name else {} for r, name in enumerate(x.dist)]
    stale = f.wrong(0.4, "the own part is sent again")
    for step in range(1, n):
        name = f.fresh("ring")
        for rank, graph in enumerate(f.dist):
            if not x.dist[rank]:
                continue
            own = f.mesh.at(rank)[axis]
            held = (own - step + 1) % n
            came = (own - step) % n
            shape = list(graph.shape(x.dist[rank]))
            if sizes is not None:
                shape[dim] = sizes[came]
            sent = got[rank][own if stale and sizes is None else held]
            row = (x.dtype, (own - 1) % n, shape)
            got[rank][came] = post.exchange(graph, name, [(sent, (own + 1) % n)], [row])[0]
    return got


def ring_gathered(f: Layouts, x: Tensor, axis: int) -> Tensor:
    """All parts on every rank, of equal sizes or not."""
    _, dim, sizes, _ = x.layout[axis]
    got = _rounds(f, x, axis, sizes, dim)
    turn = f.wrong(0.5, "parts in another order") * 1
    name, names = f.fresh("whole"), []
    for rank, graph in enumerate(f.dist):
        if not x.dist[rank]:
            names.append("")
            continue
        n = f.mesh.shape[axis]
        parts = [ref(got[rank][(i + turn) % n]) for i in range(n)]
        graph.call(name, "aten.cat.default", [parts, dim])
        names.append(name)
    return f.relaid(replace(x, dist=tuple(names)), axis, WHOLE)


JOINS = {"sum": "aten.add.Tensor", "max": "aten.maximum.default", "min": "aten.minimum.default"}


def ring_reduced(f: Layouts, x: Tensor, axis: int, kind: str) -> Tensor:
    """All parts added up (or their maximum) on every rank."""
    got = _rounds(f, x, axis, None, 0)
    lost = f.wrong(0.5, "a part is left out")
    place, stem, names = f.chance(0.4) and kind == "sum", f.fresh("total"), []
    for rank, graph in enumerate(f.dist):
        if not x.dist[rank]:
            names.append("")
            continue
        own, n = f.mesh.at(rank)[axis], f.mesh.shape[axis]
        total = x.dist[rank]
        if place:
            graph.call(f"{stem}c", "aten.clone.default", [ref(total)])
            total = f"{stem}c"
        for step in range(1, n - lost):
            args = [ref(total), ref(got[rank][(own - step) % n])]
            name = f"{stem}s{step}"
            graph.call(name, "aten.add_.Tensor" if place else JOINS[kind], args)
            total = total if place else name
        names.append(total)
    return f.relaid(replace(x, dist=tuple(names)), axis, WHOLE)


# ---- steps ---------------------------------------------------------------------------------------------
def staged(f: Fuzzer, x: Tensor) -> None:
    """From here on one rank along an axis goes on alone with a tensor: a stage of a pipeline."""
    axes = [a for a in f.axes if x.layout[a] == WHOLE]
    if not axes:
        raise Invalid("no rank has all of it")
    axis = f.rng.choice(axes)
    own = only(f, x, axis, f.rng.randrange(f.mesh.shape[axis]))
    name = f.rng.choice(["relu", "tanh", "neg", "exp"])
    dims = letters(x)
    f.apply([own], Rule([dims], [dims]), lambda at: [at.call(name, at[0])])


def micro(f: Fuzzer, x: Tensor) -> None:
    """Two stages, one half of a batch after the other."""
    axes = [a for a in f.axes if x.layout[a] == WHOLE]
    if not axes or x.shape[0] % 2 or any(p[0] == "P" or p[:2] == ("S", 0) for p in x.layout):
        raise Invalid("no halves")
    axis = f.rng.choice(axes)
    first, second = f.rng.sample(range(f.mesh.shape[axis]), 2)
    ops = [f.rng.choice(["relu", "tanh", "sigmoid", "exp"]) for _ in range(2)]
    swap, post = f.wrong(0.6, "halves swapped"), Post.drawn(f, axis)
    seq = Site(f.seq, [ref(x.seq)], {}, {}, -1, (), f.count)
    ours = seq.call(ops[1], seq.call(ops[0], seq[0]))
    f.count = seq.count
    half, stem, names = x.shape[0] // 2, f.fresh("micro"), []
    for rank, graph in enumerate(f.dist):
        own, line = f.mesh.at(rank)[axis], f.mesh.line(rank, axis)
        names.append("")
        if not x.dist[line[first]]:
            continue
        shape = [half, *f.dist[line[first]].shape(x.dist[line[first]])[1:]]
        parts = []
        for i in range(2):
            name = f"{stem}m{i}"
            if own == first:
                graph.call(
                    f"{name}p",
                    "aten.slice.Tensor",
                    [ref(x.dist[rank]), 0, i * half, i * half + half],
                )
                graph.call(f"{name}q", f"aten.{ops[0]}.default", [ref(f"{name}p")])
                post.exchange(graph, name, [(f"{name}q", second)], [])
            elif own == second:
                (came,) = post.exchange(graph, name, [], [(x.dtype, first, shape)])
                graph.call(f"{name}z", f"aten.{ops[1]}.default", [ref(came)])
                parts.append(ref(f"{name}z"))
        if parts:
            graph.call(stem, "aten.cat.default", [parts[::-1] if swap else parts, 0])
            names[rank] = stem
    made = replace(x, seq=ours["node"], dist=tuple(names), made=True)
    f.tensors.append(f.relaid(made, axis, ("L", second)))


def neighbours(f: Fuzzer, x: Tensor) -> None:
    """Every row and the one before it, which may lie on another rank."""
    dims = letters(x)
    d = f.rng.randrange(len(dims))
    name, wrong = f.fresh("halo"), f.wrong(0.6, "the row after it")
    posts = [Post.drawn(f, axis) for axis in f.axes]

    def emit(at: Site) -> Sequence[Ref]:
        shape = list(at.shape(at[0]))
        axis = at.axes.get(dims[d])
        if at.blocks.get(dims[d], 1) > 1 or axis == -1:
            raise Invalid("neighbours on several axes")
        row = [*shape[:d], 1, *shape[d + 1 :]]
        before = at.call("zeros", row, dtype={"dtype": at.graph.dtype(at[0]["node"])})
        if axis is not None:
            own, n = at.coordinates[axis], f.mesh.shape[axis]
            last = (
                at.call("slice.Tensor", at[0], d, 0, 1)
                if wrong
                else at.call("slice.Tensor", at[0], d, shape[d] - 1, shape[d])
            )
            sends = [(last["node"], own + 1)] if own + 1 < n else []
            receives = [(x.dtype, own - 1, row)] if own else []
            got = posts[axis].exchange(at.graph, name, sends, receives)
            before = ref(got[0]) if got else before
        rest = [at.call("slice.Tensor", at[0], d, 0, shape[d] - 1)] if shape[d] > 1 else []
        return [at.call("add.Tensor", at[0], at.call("cat", [before, *rest], d))]

    f.apply([x], Rule([dims], [dims]), emit)


TRANSFERS = [staged, staged, micro, neighbours]
