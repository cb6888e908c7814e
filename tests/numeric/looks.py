"""Ways to look at a tensor: views of it, as torch makes them, each with the operator that puts what
became of the part back into the whole (as a functionalised graph has it)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from .execution import overlap
from .fuzz import Fuzzer
from .promotion import Invalid
from .writing import Ref, Site

Forward = Callable[[Site, Ref], Ref]
Back = Callable[[Site, Ref, Ref], Ref]


@dataclass(frozen=True)
class Look:
    """One view; ``whole`` are letters that no rank may have a part of."""

    name: str
    forward: Forward
    back: Back
    whole: str = ""
    dims: tuple[str, ...] = ()  # the letters of each dimension, outer first
    near: Forward | None = None  # another part of the same form: a mistake
    copies: bool = False

    def taken(self, at: Site, x: Ref, other: bool = False) -> Ref:
        """The view on one graph; :class:`Invalid` where it is a copy and should not be one."""
        made = (self.near if other and self.near else self.forward)(at, x)
        zeros = at.graph.zeros
        if overlap(zeros[x["node"]], zeros[made["node"]]) == self.copies:
            raise Invalid("a view or a copy, depending on the sizes")
        return made


@dataclass
class Sight:
    """What is looked at: the letters of each dimension and their sizes."""

    f: Fuzzer
    dims: tuple[str, ...]
    sizes: dict[str, int]
    dense: bool  # in memory as in order, on every graph
    looks: list[Look] = field(default_factory=list)

    def extent(self, dim: int) -> int:
        """The size of a dimension."""
        return prod(self.sizes[n] for n in self.dims[dim])

    def add(self, look: Look, dense: bool = False) -> None:
        """One more view."""
        self.looks.append(look)
        self.dims, self.dense = look.dims, dense


def _kept(at: Site, base: Ref, new: Ref) -> Ref:
    return new


def _as(name: str, forward: Forward, back: Back, dims: Sequence[str], **more: object) -> Look:
    return Look(name, forward, back, dims=tuple(dims), **more)  # type: ignore[arg-type]


# ---- parts ---------------------------------------------------------------------------------------------
def sliced(s: Sight) -> None:
    """A range of a dimension."""
    d = _dim(s, 2)
    extent = s.extent(d)
    lo = s.f.rng.randrange(extent)
    hi = s.f.rng.randint(lo + 1, extent)
    if hi - lo == extent:
        raise Invalid("all of it")
    kind = s.f.rng.choice(["slice", "slice", "narrow"])
    off = 1 if hi < extent else -1

    def take(at: Site, x: Ref, by: int = 0) -> Ref:
        if kind == "narrow":
            return at.call("narrow", x, d, lo + by, hi - lo)
        return at.call("slice.Tensor", x, d, lo + by, hi + by)

    def back(at: Site, base: Ref, new: Ref) -> Ref:
        return at.call("slice_scatter", base, new, d, lo, hi)

    _part(s, d, kind, take, lambda at, x: take(at, x, off), back, s.dims)


def _part(
    s: Sight,
    d: int,
    kind: str,
    take: Forward,
    near: Forward | None,
    back: Back,
    dims: Sequence[str],
) -> None:
    look = _as(kind, take, back, dims, whole=s.dims[d], near=near)
    changed = dict(s.sizes)
    for letter in s.dims[d]:
        changed[letter] = 1
    dense = s.dense and d == 0
    if len(dims) == len(s.dims):  # a part of the dimension: no longer as many as its letters say
        s.sizes = changed
        dims = [f"{n}" if i != d else "" for i, n in enumerate(dims)]
        look = _as(kind, take, back, dims, whole=s.dims[d], near=near)
    s.add(look, dense)


def selected(s: Sight) -> None:
    """One position."""
    d = _dim(s, 2)
    extent = s.extent(d)
    i = s.f.rng.randrange(extent)
    other = (i + 1) % extent
    kind = s.f.rng.choice(["select", "select", "unbind"])
    negative = i - extent if s.f.chance(0.2) else i

    def take(at: Site, x: Ref, place: int = negative) -> Ref:
        if kind == "unbind":
            return at.item(at.call("unbind.int", x, d), place % extent)
        return at.call("select.int", x, d, place)

    def back(at: Site, base: Ref, new: Ref) -> Ref:
        return at.call("select_scatter", base, new, d, i)

    dims = [n for k, n in enumerate(s.dims) if k != d]
    _part(s, d, kind, take, lambda at, x: take(at, x, other), back, dims)


def cut(s: Sight) -> None:
    """One of several equal parts."""
    d = _dim(s, 2)
    extent = s.extent(d)
    counts = [n for n in (2, 3, 4) if extent % n == 0]
    if not counts:
        raise Invalid("not divisible")
    count = s.f.rng.choice(counts)
    size, i = extent // count, s.f.rng.randrange(count)
    names = ["chunk", "split.Tensor", "split_with_sizes", "tensor_split.sections"]
    names += ["vsplit.int"] * 2 * (d == 0 and len(s.dims) > 1)
    names += ["hsplit.int"] * 2 * (d == (len(s.dims) > 1))
    name = s.f.rng.choice(names)

    def take(at: Site, x: Ref, place: int = i) -> Ref:
        if name in ("hsplit.int", "vsplit.int"):
            made = at.call(name, x, count)
        elif name == "split_with_sizes":
            made = at.call(name, x, [size] * count, d)
        else:
            made = at.call(name, x, size if name == "split.Tensor" else count, d)
        return at.item(made, place)

    def back(at: Site, base: Ref, new: Ref) -> Ref:
        return at.call("slice_scatter", base, new, d, i * size, i * size + size)

    _part(s, d, name, take, lambda at, x: take(at, x, (i + 1) % count), back, s.dims)


def diagonal(s: Sight) -> None:
    """The diagonal of two dimensions."""
    if len(s.dims) < 2:
        raise Invalid("one dimension")
    a, b = sorted(s.f.rng.sample(range(len(s.dims)), 2))
    whole = s.dims[a] + s.dims[b]
    dims = [n for i, n in enumerate(s.dims) if i not in (a, b)] + [""]
    s.add(
        _as(
            "diagonal", lambda at, x: at.call("diagonal", x, 0, a, b),
            lambda at, base, new: at.call("diagonal_scatter", base, new, 0, a, b),
            dims, whole=whole, near=None,
        )
    )  # fmt: skip


# ---- order and sizes -----------------------------------------------------------------------------------
def turned(s: Sight) -> None:
    """Two dimensions swapped, or all of them in another order."""
    n = len(s.dims)
    if n < 2:
        raise Invalid("one dimension")
    kinds = ["transpose.int", "swapaxes", "movedim.int", "permute", "permute"]
    kinds += ["mT", "mH", "adjoint"] * (n == 2) + ["mT", "adjoint"] * (n > 2)
    kinds += ["t", "numpy_T", "matrix_H"] * (n == 2)
    kind = s.f.rng.choice(kinds)
    a, b = s.f.rng.sample(range(n), 2)
    order = list(range(n))
    if kind in ("transpose.int", "swapaxes"):
        order[a], order[b] = b, a
    elif kind == "movedim.int":
        order.remove(a)
        order.insert(b, a)
    elif kind == "permute":
        s.f.rng.shuffle(order)
    else:
        order[-1], order[-2] = order[-2], order[-1]
    given = {"transpose.int": [a, b], "swapaxes": [a, b], "movedim.int": [a, b], "permute": [order]}
    undo = [order.index(i) for i in range(n)]
    s.add(
        _as(
            kind, lambda at, x: at.call(kind, x, *given.get(kind, [])),
            lambda at, base, new: at.call("permute", new, undo), [s.dims[i] for i in order],
        )
    )  # fmt: skip


def merged(s: Sight) -> None:
    """Neighbouring dimensions as one."""
    if len(s.dims) < 2 or not s.dense:
        raise Invalid("not one after the other in memory")
    a = s.f.rng.randrange(len(s.dims) - 1)
    kinds = ["view", "reshape", "flatten.using_ints", "_unsafe_view"]
    kind = s.f.rng.choice(["ravel", *kinds] if len(s.dims) == 2 else kinds)

    def sizes(at: Site, x: Ref) -> list[int]:
        shape = at.shape(x)
        return [*shape[:a], shape[a] * shape[a + 1], *shape[a + 2 :]]

    def take(at: Site, x: Ref) -> Ref:
        if kind == "ravel":
            return at.call(kind, x)
        if kind == "flatten.using_ints":
            return at.call(kind, x, a, a + 1)
        return at.call(kind, x, sizes(at, x))

    def back(at: Site, base: Ref, new: Ref) -> Ref:
        return at.call("reshape", new, list(at.shape(base)))

    dims = [*s.dims[:a], s.dims[a] + s.dims[a + 1], *s.dims[a + 2 :]]
    s.add(_as(kind, take, back, dims), dense=True)


def one_more(s: Sight) -> None:
    """A dimension of one position, which may go again."""
    d = s.f.rng.randrange(len(s.dims) + 1)
    dims = [*s.dims[:d], "", *s.dims[d:]]

    def back(at: Site, base: Ref, new: Ref) -> Ref:
        return at.call("squeeze.dim", new, d)

    def again(at: Site, base: Ref, new: Ref) -> Ref:
        return at.call("unsqueeze", new, d)

    s.add(_as("unsqueeze", lambda at, x: at.call("unsqueeze", x, d), back, dims), s.dense)
    if s.f.chance(0.5):
        kind = s.f.rng.choice(["squeeze.dim", "squeeze.dims"])
        given = d if kind == "squeeze.dim" else [d]
        less = [n for i, n in enumerate(dims) if i != d]
        s.add(_as(kind, lambda at, x: at.call(kind, x, given), again, less), s.dense)


SAME = (
    "alias", "detach", "positive", "resolve_conj", "resolve_neg", "prims.view_of", "view_as",
    "reshape_as", "expand_as", "type_as", "to.dtype", "to.other", "view", "reshape", "expand",
    "contiguous", "atleast_2d", "_reshape_alias", "lift_fresh", "unflatten.int", "broadcast_to",
)  # fmt: skip


def same(s: Sight) -> None:
    """The tensor itself by another name."""
    kind = s.f.rng.choice(SAME)
    if (
        kind in ("contiguous", "view", "reshape", "view_as", "reshape_as", "_reshape_alias")
        and not s.dense
    ):
        raise Invalid("not one after the other in memory")
    if kind == "atleast_2d" and len(s.dims) < 2:
        raise Invalid("one dimension more")

    def take(at: Site, x: Ref) -> Ref:
        shape = list(at.shape(x))
        steps = [prod(shape[i + 1 :]) for i in range(len(shape))]
        given: dict[str, list[object]] = {
            "view_as": [x], "reshape_as": [x], "expand_as": [x], "type_as": [x], "to.other": [x],
            "to.dtype": [{"dtype": at.graph.dtype(x["node"])}], "view": [shape], "reshape": [shape],
            "expand": [shape], "broadcast_to": [shape], "_reshape_alias": [shape, steps],
            "unflatten.int": [len(shape) - 1, shape[-1:]],
        }  # fmt: skip
        target = "prims.view_of.default" if kind == "prims.view_of" else kind
        if kind == "positive" and at.graph.dtype(x["node"]) == "bool":
            target = "alias"
        return at.call(target, x, *given.get(kind, []))

    s.add(_as(kind, take, _kept, s.dims), s.dense)


COPIES = (
    "clone", "alias_copy", "detach_copy", "view_copy", "permute_copy", "_to_copy", "to copy",
    "prims.convert_element_type",
)  # fmt: skip


def copied(s: Sight) -> None:
    """Memory of its own: what is written there is not seen in what was copied."""
    kind = s.f.rng.choice(COPIES)

    def take(at: Site, x: Ref) -> Ref:
        shape, dtype = list(at.shape(x)), {"dtype": at.graph.dtype(x["node"])}
        if kind == "to copy":
            return at.call("to.dtype", x, dtype, False, True)
        if kind == "_to_copy":
            return at.call(kind, x, dtype=dtype)
        given: dict[str, list[object]] = {
            "view_copy": [shape], "permute_copy": [list(range(len(shape)))],
            "prims.convert_element_type": [dtype],
        }  # fmt: skip
        target = f"{kind}.default" if kind.startswith("prims") else kind
        return at.call(target, x, *given.get(kind, []))

    s.add(_as(kind, take, lambda at, base, new: base, s.dims, copies=True), False)


def _dim(s: Sight, least: int) -> int:
    found = [d for d in range(len(s.dims)) if s.extent(d) >= least]
    if not found:
        raise Invalid("too small")
    return s.f.rng.choice(found)


KINDS = (sliced, sliced, selected, selected, cut, cut, diagonal, turned, turned, merged, one_more,
         same, same, same)  # fmt: skip


def chain(f: Fuzzer, letters: str, shape: Sequence[int], dense: bool, copies: float) -> list[Look]:
    """Some views, one after the other; now and then a copy among them."""
    s = Sight(f, tuple(letters), dict(zip(letters, shape, strict=True)), dense)
    for _ in range(f.rng.choice([1, 1, 2, 2, 3])):
        kind = copied if f.chance(copies) else f.rng.choice(KINDS)
        kind(s)
    return s.looks
