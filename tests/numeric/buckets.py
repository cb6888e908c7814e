"""What is put together from pieces: flat buffers whose shares are reduced, worked on and gathered, zeros
around a rank's piece, softmax and its sums from blocks, shares at equal steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from .promotion import Invalid
from .tensors import New, Rule, Tensor, ranked
from .writing import NAMES, PARTIAL, WHOLE, Ref, Site, ref

if TYPE_CHECKING:
    from .fuzz import Fuzzer
    from .layouts import Layouts

WORK: Sequence[tuple[str, Callable[[Site, Ref], Ref]]] = (
    ("tanh", lambda at, x: at.call("tanh", x)),
    ("exp", lambda at, x: at.call("exp", x)),
    ("half", lambda at, x: at.call("mul.Tensor", x, 0.5)),
    ("square", lambda at, x: at.call("square", x)),
    ("step", lambda at, x: at.call("add.Tensor", x, at.call("sigmoid", x), alpha=-0.5)),
)


# ---- flat buffers ------------------------------------------------------------------------------------
def bucket(f: Fuzzer, x: Tensor) -> None:
    """Tensors in one flat buffer, of which every rank along an axis reduces and works on a share."""
    axes = [a for a in f.axes if x.layout[a] in (WHOLE, PARTIAL)]
    if not axes or any(p[0] == "L" for p in x.layout):
        raise Invalid("it is cut along all axes")
    axis = f.rng.choice(axes)
    alike = [t for t in f.tensors if t.layout == x.layout and t.shape and t.seq != x.seq]
    some = [x, *f.rng.sample(alike, min(len(alike), f.rng.randint(0, 2)))]
    f.rng.shuffle(some)
    if any(p[0] == "P" for a, p in enumerate(x.layout) if a != axis):
        raise Invalid("it is open along another axis")
    _, work = f.rng.choice(WORK)
    seq = Site(f.seq, [ref(t.seq) for t in some], {}, {}, -1, (), f.count)
    ours = [work(seq, seq[i]) for i in range(len(some))]
    f.count = seq.count
    form = _Form.drawn(f, axis, x.layout[axis] == PARTIAL)
    names = [form.on(f, rank, [t.dist[rank] for t in some], work) for rank in range(f.mesh.ranks)]
    f.count += 40
    for i, t in enumerate(some):
        made = replace(t, seq=ours[i]["node"], dist=tuple(row[i] for row in names), made=True)
        f.tensors.append(f.relaid(made, axis, WHOLE))


class _Form:
    """How the buffer is laid out, cut and put back."""

    def __init__(self, axis: int, stem: str) -> None:
        self.axis, self.stem = axis, stem
        self.scatters = self.behind = True
        self.turn = self.off = 0
        self.once, self.rows, self.kind = False, False, "sum"

    @classmethod
    def drawn(cls, f: Layouts, axis: int, partial: bool) -> _Form:
        """In some form, maybe with a mistake."""
        form = cls(axis, f.fresh("bucket"))
        form.scatters = partial and not f.wrong(0.5, "a share that is not reduced")
        form.once = partial and form.scatters and f.chance(0.3)
        form.turn = 1 if f.wrong(0.5, "the share of the next rank") else 0
        form.off = 1 if f.wrong(0.5, "one position further") else 0
        form.kind = "max" if f.wrong(0.3, "the maximum of parts") else "sum"
        form.rows = f.chance(0.3)
        return form

    def on(
        self, f: Layouts, rank: int, of: Sequence[str], work: Callable[[Site, Ref], Ref]
    ) -> list[str]:
        """The buffer on one rank: reduced, worked on and gathered, then as the tensors again."""
        graph, n = f.dist[rank], f.mesh.shape[self.axis]
        if not all(of):
            return [""] * len(of)
        at = Site(graph, [ref(name) for name in of], {}, {}, rank, f.mesh.at(rank), f.count)
        shapes = [graph.shape(name) for name in of]
        sizes = [prod(s) for s in shapes]
        total = sum(sizes)
        flat = [at.call("reshape", at[i], [size]) for i, size in enumerate(sizes)]
        pad = -total % n
        rest = [at.call("zeros", [pad])] if pad else []
        whole = at.call("cat", [*flat, *rest], 0) if len(flat) + len(rest) > 1 else flat[0]
        share = self._share(f, at, whole, total + pad)
        made = work(at, share)
        group = NAMES[self.axis]
        graph.collective(
            f"{self.stem}g", "all_gather_into_tensor.default", [made, n, group], [total + pad]
        )
        found, start = [], 0
        for shape, size in zip(shapes, sizes, strict=True):
            end = start + size
            low = start + self.off * (end < total)
            piece = at.call("slice.Tensor", ref(f"{self.stem}g"), 0, low, low + size)
            found.append(at.call("view", piece, list(shape))["node"])
            start = end
        return found

    def _share(self, f: Layouts, at: Site, whole: Ref, total: int) -> Ref:
        graph, n, group = at.graph, f.mesh.shape[self.axis], NAMES[self.axis]
        if self.scatters and not self.once:
            args = [whole, self.kind, n, group]
            name = f"{self.stem}s"
            graph.collective(name, "reduce_scatter_tensor.default", args, [total // n])
            return ref(name)
        if self.once:
            graph.collective(
                f"{self.stem}r", "all_reduce.default", [whole, self.kind, group], [total]
            )
            whole = ref(f"{self.stem}r")
        place = (f.mesh.orders[self.axis].index(at.coordinates[self.axis]) + self.turn) % n
        if self.rows:
            return at.call("select.int", at.call("view", whole, [n, total // n]), 0, place)
        lo = place * (total // n)
        return at.call("slice.Tensor", whole, 0, lo, lo + total // n)


# ---- zeros around a piece ------------------------------------------------------------------------------
def summed_up(f: Layouts, x: Tensor, axis: int) -> Tensor:
    """Every rank writes its piece into zeros (or what is less than all); the ranks add up."""
    _, dim, sizes, outer = x.layout[axis]
    if outer > 1:
        raise Invalid("a piece of every block")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    if f.wrong(0.6, "a piece at another place"):
        starts = [min(s, 1) for s in starts]
    form, least = f.rng.choice(["cat", "scatter", "backward"]), f.chance(0.25)
    form = "cat" if least else form
    if least:
        f.beyond("a maximum of what is less than all but for a piece")
    extent = sum(sizes)

    def emit(at: Site) -> Ref:
        shape = list(at.shape(at[0]))
        i = at.coordinates[axis]
        lo, hi = starts[i], starts[i] + sizes[i]
        full = [*shape[:dim], extent, *shape[dim + 1 :]]
        if form == "backward":
            return at.call("slice_backward", at[0], full, dim, lo, hi, 1)
        if form == "scatter":
            return at.call("slice_scatter", at.call("zeros", full), at[0], dim, lo, hi)
        around = [[*shape[:dim], size, *shape[dim + 1 :]] for size in (lo, extent - hi)]
        fills = [at.call("full", s, -float("inf") if least else 0.0) for s in around if s[dim]]
        parts = [*fills[: bool(lo)], at[0], *fills[bool(lo) :]]
        return at.call("cat", parts, dim) if len(parts) > 1 else at[0]

    made = replace(x, dist=f.on_ranks(x, emit))
    done = f.spread(made, "all_reduce", ["max" if least else "sum", NAMES[axis]])
    return f.relaid(done, axis, WHOLE)


# ---- shares at equal steps -----------------------------------------------------------------------------
def interleaved(f: Layouts, x: Tensor, axis: int) -> Tensor:
    """A share of every block, gathered: the blocks come before the ranks."""
    _, dim, sizes, outer = x.layout[axis]
    n = f.mesh.shape[axis]
    if len(set(sizes)) > 1:
        raise Invalid("uneven shares")
    wrong = f.wrong(0.6, "ranks before blocks")
    turned = f.on_ranks(x, lambda at: at.call("transpose.int", at[0], 0, dim)) if dim else x.dist
    made = f.gather(replace(x, dist=turned), axis)

    def emit(at: Site) -> Ref:
        shape = list(at.shape(at[0]))
        apart = at.call("reshape", at[0], [n, outer, sizes[0], *shape[1:]])
        order = list(range(len(shape) + 2))
        order[:2] = [0, 1] if wrong else [1, 0]
        whole = at.call("reshape", at.call("permute", apart, order), shape)
        return at.call("transpose.int", whole, 0, dim) if dim else whole

    return f.relaid(replace(made, dist=f.on_ranks(made, emit)), axis, WHOLE)


# ---- softmax from blocks -------------------------------------------------------------------------------
def logarithms(f: Fuzzer, x: Tensor) -> None:
    """The logarithm of a sum of exponentials, in one of several forms on either side."""
    dims = ranked(x, 1)
    at_ = f.rng.randrange(len(dims))
    forms = [f.rng.choice(["plain", "stable", "merged", "op"]) for _ in range(2)]
    lost = f.wrong(0.5, "a block is left out")
    if forms[True] == "merged" != forms[False]:
        f.beyond("blocks of the sequential program alone")

    def emit(at: Site) -> Sequence[Ref]:
        return [_logsumexp(at, at[0], at_, forms[at.seq], lost and not at.seq)]

    kept = dims[:at_] + dims[at_ + 1 :]
    f.apply([x], Rule([dims], [kept], dims[at_]), emit)


def _logsumexp(at: Site, x: Ref, dim: int, form: str, lost: bool) -> Ref:
    if form == "op":
        return at.call("logsumexp", x, [dim], False)
    if form == "merged" and at.shape(x)[dim] > 1:
        cut, end = at.shape(x)[dim] // 2, at.shape(x)[dim]
        parts = [at.call("slice.Tensor", x, dim, lo, hi) for lo, hi in ((0, cut), (cut, end))]
        one, other = (_logsumexp(at, p, dim, "stable", False) for p in parts)
        return one if lost else at.call("logaddexp", one, other)
    if form == "stable":
        high = at.call("amax", x, [dim], True)
        total = at.call(
            "sum.dim_IntList", at.call("exp", at.call("sub.Tensor", x, high)), [dim], True
        )
        both = at.call("add.Tensor", at.call("log", total), high)
        shape = list(at.shape(x))
        return at.call("view", both, shape[:dim] + shape[dim + 1 :])
    return at.call("log", at.call("sum.dim_IntList", at.call("exp", x), [dim], False))


def parallel_softmax(f: Fuzzer, x: Tensor) -> None:
    """Softmax (or its logarithm) along a dimension that is cut, by its maximum and its sum."""
    ranked(x, 1)
    cut = [a for a in f.axes if x.layout[a][0] == "S"]
    if not cut or any(p[0] in "PL" for p in x.layout):
        raise Invalid("nothing is cut")
    axis = f.rng.choice(cut)
    at_ = x.layout[axis][1]
    if any(p[0] == "S" and p[1] == at_ for a, p in enumerate(x.layout) if a != axis):
        raise Invalid("cut along two axes")
    name, mine = f.rng.choice(["_softmax", "_log_softmax"]), f.chance(0.5)
    no_max = f.wrong(0.5, "maxima that are not those of all")
    no_sum = f.wrong(0.5, "sums that are not those of all")
    group, stem = NAMES[axis], f.fresh("lse")
    seq = Site(f.seq, [ref(x.seq)], {}, {}, -1, (), f.count)
    whole = [seq.call(name, seq[0], at_, False)]
    f.count = seq.count
    names = []
    for rank, graph in enumerate(f.dist):
        at = Site(graph, [ref(x.dist[rank])], {}, {}, rank, f.mesh.at(rank), f.count)
        high = at.call("amax", at[0], [at_], True)
        if not (no_max and mine):
            args: list[Any] = [high, "max", group]
            graph.collective(f"{stem}m", "all_reduce.default", args, at.shape(high))
            high = ref(f"{stem}m")
        low = at.call("sub.Tensor", at[0], high)
        total = at.call("sum.dim_IntList", at.call("exp", low), [at_], True)
        if not no_sum:
            graph.collective(
                f"{stem}s", "all_reduce.default", [total, "sum", group], at.shape(total)
            )
            total = ref(f"{stem}s")
        if name == "_softmax":
            made = at.call("div.Tensor", at.call("exp", low), total)
        else:
            made = at.call("sub.Tensor", low, at.call("log", total))
        names.append(made["node"])
    f.count += 20
    f.tensors.append(replace(x, seq=whole[0]["node"], dist=tuple(names), made=True))


# ---- open sums side by side ----------------------------------------------------------------------------
def projected(f: Fuzzer, x: Tensor) -> None:
    """Tensors side by side, and a product over the dimension along which they are."""
    dims = ranked(x, 2, 3)
    rows = [t for t in f.tensors if t.shape[:-1] == x.shape[:-1] and len(t.shape) == len(x.shape)]
    other = f.rng.choice(rows[-4:])
    width = f.rng.choice([2, 3])
    second, swap = dims[:-1] + "m", f.wrong(0.5, "members exchanged")

    def emit(at: Site) -> Sequence[Ref]:
        both = [at[1], at[0]] if swap and not at.seq else [at[0], at[1]]
        whole = at.call("cat", both, len(dims) - 1)
        return [at.call("matmul", whole, at[2])]

    total = x.shape[-1] + other.shape[-1]
    whole, out = dims[-1] + "mw", dims[:-1] + "o"
    extents = {"w": total, "o": width}
    rule = Rule([dims, second, "wo"], [out], whole, together=("sum",), extents=extents)
    f.apply([x, other, New()], rule, emit)


BUCKETS = [bucket, bucket, logarithms, parallel_softmax, projected]
