"""Steps that write into memory: into tensors, into views of them, into buffers, by ``out=``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .fuzz import ADDS, Fuzzer, New, Operand, Rule, Tensor, alike, letters, ranked
from .looks import Look, chain
from .writing import Ref, Site

CONTIGUOUS = {"memory_format": "torch.contiguous_format"}


# ---- what is written -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Write:
    """An operator in place, by its name; ``args`` behind the operands, which it takes ``tensors`` of
    (a mask is one of ``masks``)."""

    name: str
    args: tuple[Any, ...] = ()
    tensors: int = 0
    kwargs: tuple[tuple[str, Any], ...] = ()
    masks: bool = False
    linear: bool = False

    def on(self, at: Site, x: Ref, others: Sequence[Ref], in_place: bool) -> Ref:
        """The operator on one graph, in place or as a function."""
        kernel, _, overload = self.name.partition(".")
        name = f"{kernel}_" if in_place else kernel
        if kernel == "zero" and not in_place:
            return at.call("zeros_like", x)
        return at.call(
            f"{name}.{overload}" if overload else name, x, *others, *self.args, **dict(self.kwargs)
        )


def writes(f: Fuzzer) -> list[Write]:
    """All that may be written, with numbers drawn for them."""
    n = f.rng.choice([2.0, 0.5, -1.5, 3.0])
    return [
        Write("add.Tensor", (n,)), Write("mul.Tensor", (n,), linear=True), Write("sub.Tensor", (n,)),
        Write("div.Tensor", (n,), linear=True), Write("fill.Scalar", (n,)), Write("zero", linear=True),
        Write("relu"), Write("neg", linear=True), Write("clamp", (-0.5, 0.5)), Write("exp"),
        Write("tanh"), Write("sigmoid"), Write("abs"), Write("clamp_min", (0.25,)), Write("square"),
        Write("add.Tensor", tensors=1), Write("add.Tensor", tensors=1, kwargs=(("alpha", n),)),
        Write("sub.Tensor", tensors=1), Write("mul.Tensor", tensors=1), Write("copy", tensors=1),
        Write("copy", tensors=1), Write("div.Tensor", tensors=1), Write("lerp.Scalar", (0.25,), 1),
        Write("addcmul", tensors=2, kwargs=(("value", n),)), Write("addcdiv", tensors=2),
        Write("masked_fill.Scalar", (n,), 1, masks=True), Write("masked_fill.Scalar", (0,), 1, masks=True),
    ]  # fmt: skip


# ---- through views -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Mistake:
    """What the ranks do otherwise."""

    part: bool = False  # another part of the same form
    early: bool = False  # what should be read before is read afterwards
    lost: bool = False  # written into a copy
    again: bool = False  # written once more
    stale: bool = False  # what should see the write is a copy
    none: bool = False  # nothing is written


def mistake(f: Fuzzer) -> Mistake:
    """Mostly none."""
    if not f.wrong(what="views"):
        return Mistake()
    names = ["part", "part", "early", "lost", "again", "stale", "none"]
    return Mistake(**{f.rng.choice(names): True})


@dataclass(frozen=True)
class Plan:
    """What a graph does: writes in place into views, or puts results together as a function."""

    looks: Sequence[Look]
    write: Write
    second: Write | None
    seen: Look | None  # another view, made before the write and read after it
    reads: str  # a function of what was there before the write


def through(f: Fuzzer, x: Tensor) -> None:
    """Something is written into a view of a tensor; the tensor, another view of it and what was read
    before it tell."""
    dims = letters(x)
    fresh = [f.chance(0.6), f.chance(0.6)]
    forms = [f.rng.choice(["place", "place", "function"]) for _ in range(2)]
    looks = chain(f, dims, x.shape, all(fresh), 0.06)
    write = f.rng.choice(writes(f))
    second = f.rng.choice([w for w in writes(f) if not w.tensors]) if f.chance(0.3) else None
    seen = _other_look(f, dims, x) if f.chance(0.4) else None
    plan = Plan(looks, write, second, seen, f.rng.choice(["relu", "tanh", "neg", ""]))
    made = mistake(f)
    others: list[Operand] = [_other(f, x, write) for _ in range(write.tensors)]
    outs = [dims, *([dims] if plan.reads else []), *(["".join(seen.dims)] if seen else [])]
    whole = "".join(look.whole for look in looks) + (seen.whole if seen else "")
    linear = write.linear and (second is None or second.linear) and plan.reads in ("neg", "")
    rule = Rule(
        [dims] * (1 + len(others)), outs, "".join(sorted(set(whole))), {0: ADDS if linear else ()}
    )

    def emit(at: Site) -> Sequence[Ref]:
        base = at[0]
        if fresh[at.seq]:
            base = at.call("clone", base, memory_format=CONTIGUOUS)
        does = _in_place if forms[at.seq] == "place" else _functional
        return does(at, base, plan, Mistake() if at.seq else made)

    f.apply([x, *others], rule, emit)


def _other(f: Fuzzer, x: Tensor, write: Write) -> Operand:
    if write.masks:
        return New("bool")
    return New() if write.name.startswith(("div", "addcdiv")) else alike(f, x)


def _other_look(f: Fuzzer, dims: str, x: Tensor) -> Look:
    """Another view of all of it."""
    n = len(dims)
    order = list(range(n))
    f.rng.shuffle(order)
    return Look(
        "permute", lambda at, v: at.call("permute", v, order), lambda at, base, new: new, "",
        tuple(dims[i] for i in order),
    )  # fmt: skip


def _part_of(at: Site, x: Ref, looks: Sequence[Look], other: bool = False) -> list[Ref]:
    """The views one after the other, the first of them the tensor itself."""
    found = [x]
    for look in looks:
        near = other and look.near is not None
        found.append(look.taken(at, found[-1], near))
        other = other and not near
    return found


def _in_place(at: Site, base: Ref, plan: Plan, made: Mistake) -> list[Ref]:
    before = at.call(plan.reads, base) if plan.reads and not made.early else None
    seen = plan.seen.forward(at, base) if plan.seen else None
    if seen is not None and made.stale:
        seen = at.call("clone", seen)
    written = at.call("clone", base) if made.lost else base
    part = _part_of(at, written, plan.looks, made.part)[-1]
    others = [_part_of(at, o, plan.looks)[-1] for o in at.operands[1:]]
    for _ in range(0 if made.none else 1 + made.again):
        plan.write.on(at, part, others, True)
        if plan.second is not None:
            plan.second.on(at, part, [], True)
    if made.early and plan.reads:
        before = at.call(plan.reads, base)
    return [r for r in (base, before, at.call("tanh", seen) if seen else None) if r is not None]


def _functional(at: Site, base: Ref, plan: Plan, made: Mistake) -> list[Ref]:
    parts = _part_of(at, base, plan.looks, made.part)
    others = [_part_of(at, o, plan.looks)[-1] for o in at.operands[1:]]
    new = parts[-1]
    for _ in range(0 if made.none or made.lost else 1 + made.again):
        new = plan.write.on(at, new, others, False)
        if plan.second is not None:
            new = plan.second.on(at, new, [], False)
    if new is not parts[-1]:
        for part, look in zip(parts[-2::-1], plan.looks[::-1], strict=True):
            new = look.back(at, part, new)
    else:
        new = base
    before = at.call(plan.reads, new if made.early else base) if plan.reads else None
    after = plan.seen.forward(at, base if made.stale else new) if plan.seen else None
    return [r for r in (new, before, at.call("tanh", after) if after else None) if r is not None]


# ---- at positions --------------------------------------------------------------------------------------
def put(f: Fuzzer, x: Tensor) -> None:
    """Rows are added, put or filled at positions, in place or not."""
    dims = ranked(x, 2, 2)
    kind = f.rng.choice(
        ["index_put", "index_add", "index_copy", "index_fill.int_Scalar", "scatter_add"]
    )
    count = min(2, x.shape[0])
    forms = [f.rng.choice(["_", "_", ""]) for _ in range(2)]
    fresh, skip = [f.chance(0.6), f.chance(0.6)], f.wrong(0.6, "a write is missing")
    adds = f.chance(0.5)

    def emit(at: Site) -> Sequence[Ref]:
        base = at.call("clone", at[0]) if fresh[at.seq] else at[0]
        if skip and not at.seq:
            return [base]
        name, _, overload = kind.partition(".")
        target = name + forms[at.seq] + (f".{overload}" if overload else "")
        if kind == "index_put":
            made = at.call(target, base, [at[1]], at[2], *([True] if adds else []))
        elif kind == "scatter_add":
            wide = at.call("expand", at.call("unsqueeze", at[1], -1), list(at.shape(at[2])))
            made = at.call(target, base, 0, wide, at[2])
        else:
            made = at.call(target, base, 0, at[1], 0.5 if "fill" in kind else at[2])
        return [base if forms[at.seq] else made]

    rule = Rule([dims, "n", "n" + dims[1]], [dims], dims[0] + "n", extents={"n": count})
    f.apply([x, New("int64", f"below{x.shape[0]}_"), New()], rule, emit)


# ---- buffers -------------------------------------------------------------------------------------------
def buffered(f: Fuzzer, x: Tensor) -> None:
    """Two results written into halves of a buffer, by copies or by ``out=``."""
    dims = letters(x)
    d = f.rng.randrange(len(dims))
    names = [f.rng.choice(["relu", "exp", "tanh", "neg", "sigmoid"]) for _ in range(2)]
    forms = [f.rng.choice(["copy", "out", "cat"]) for _ in range(2)]
    swap, same = f.wrong(0.6, "the other half"), f.wrong(0.4, "the same half")
    kind = f.rng.choice(["empty", "zeros"])

    def emit(at: Site) -> Sequence[Ref]:
        shape = list(at.shape(at[0]))
        n = shape[d]
        if forms[at.seq] == "cat":
            both = [at.call(name, x) for name, x in zip(names, at.operands, strict=True)]
            return [at.call("cat", both[::-1] if swap and not at.seq else both, d)]
        whole = [*shape[:d], 2 * n, *shape[d + 1 :]]
        made = at.call("zeros", whole) if kind == "zeros" else at.call("empty.memory_format", whole)
        for i, (name, part) in enumerate(zip(names, at.operands, strict=True)):
            place = (1 - i if swap else 0 if same and i else i) if not at.seq else i
            half = at.call("slice.Tensor", made, d, place * n, place * n + n)
            if forms[at.seq] == "out":
                at.call(f"{name}.out", part, out=half)
            else:
                at.call("copy_", half, at.call(name, part))
        return [made]

    whole = dims[d]
    f.apply([x, alike(f, x)], Rule([dims, dims], [dims], whole), emit)


OUTS: dict[str, tuple[str, int]] = {
    "relu": ("relu.out", 1), "exp": ("exp.out", 1), "tanh": ("tanh.out", 1), "neg": ("neg.out", 1),
    "add.Tensor": ("add.out", 2), "sub.Tensor": ("sub.out", 2), "mul.Tensor": ("mul.out", 2),
    "maximum": ("maximum.out", 2), "sigmoid": ("sigmoid.out", 1), "square": ("square.out", 1),
}  # fmt: skip


def out_of(f: Fuzzer, x: Tensor) -> None:
    """A result written where ``out=`` says: into new memory, or over an operand."""
    dims = letters(x)
    name = f.rng.choice(sorted(OUTS))
    target, count = OUTS[name]
    forms = [f.rng.choice(["new", "over", "plain"]) for _ in range(2)]
    returns = [f.chance(0.5), f.chance(0.5)]
    other = f.wrong(0.6, "the other operand is overwritten")
    operands: list[Operand] = [x, alike(f, x)]

    def emit(at: Site) -> Sequence[Ref]:
        own = [at.call("clone", r) for r in at.operands]
        if forms[at.seq] == "plain":
            made = at.call(name, *own[:count])
            return [made, at.call("neg", own[1])]
        into = own[0] if forms[at.seq] == "over" else at.call("empty_like", own[0])
        into = own[1] if other and not at.seq else into
        made = at.call(target, *own[:count], out=into)
        return [made if returns[at.seq] else into, at.call("neg", own[1])]

    f.apply(operands, Rule([dims, dims], [dims, dims]), emit)


def product_into(f: Fuzzer, x: Tensor) -> None:
    """A product or a sum written into a buffer that was there before."""
    dims = ranked(x, 2, 2)
    kind = f.rng.choice(["mm", "sum", "amax"])
    forms, accumulates = [f.chance(0.7), f.chance(0.7)], f.wrong(0.6, "added to what was there")
    out = dims[0] + "o" if kind == "mm" else dims[0]
    weight = [dims[1] + "o"] if kind == "mm" else []
    reduces = "max" if kind == "amax" else "sum"

    def emit(at: Site) -> Sequence[Ref]:
        args: list[Any] = [at[0], at[1]] if kind == "mm" else [at[0], [1]]
        into = at.call("clone", at[-1])
        name = {"mm": "mm", "sum": "sum.dim_IntList", "amax": "amax"}[kind]
        if accumulates and not at.seq:
            return [at.call("add.Tensor", into, at.call(name, *args))]
        if not forms[at.seq]:
            return [at.call(name, *args)]
        at.call(
            {"mm": "mm.out", "sum": "sum.IntList_out", "amax": "amax.out"}[kind], *args, out=into
        )
        return [into]

    rule = Rule([dims, *weight, out], [out], "o", extents={"o": 3} if weight else {}, kind=reduces)
    f.apply([x, *[New()] * len(weight), New()], rule, emit)


def normed(f: Fuzzer, x: Tensor) -> None:
    """A batch norm, which writes running statistics without saying so in its name."""
    dims = ranked(x, 2, 4)
    name = f.rng.choice(["native_batch_norm", "_native_batch_norm_legit"])
    training, early = f.chance(0.8), f.wrong(0.6, "statistics read before they are written")
    stale, other = f.chance(0.5), f.wrong(0.6, "statistics of another momentum")

    def emit(at: Site) -> Sequence[Ref]:
        mean, variance = at[3], at.call("square", at[4])
        before = at.call("neg", mean) if stale or (early and not at.seq) else None
        by = 0.3 if other and not at.seq else 0.1
        made = at.call(name, at[0], at[1], at[2], mean, variance, training, by, 1e-5)
        after = before if early and not at.seq and before is not None else at.call("neg", mean)
        first = before if stale and before is not None else mean
        return [at.item(made, 0), first, after, variance]

    c = dims[1]
    rule = Rule([dims, c, c, c, c], [dims, c, c, c], dims[0] + dims[2:])
    f.apply([x, *[New()] * 4], rule, emit)


def extreme_into(f: Fuzzer, x: Tensor) -> None:
    """The largest along a dimension and where it is, written where the keywords say."""
    dims = letters(x)
    d, forms = f.rng.randrange(len(dims)), [f.chance(0.6), f.chance(0.6)]
    out = dims[:d] + dims[d + 1 :]

    def emit(at: Site) -> Sequence[Ref]:
        values = at.call("clone", at[1])
        if not forms[at.seq]:
            return [at.item(at.call("max.dim", at[0], d), 0), at.call("neg", values)]
        shape = list(at.shape(values))
        places = at.call("zeros", shape, dtype={"dtype": "int64"})
        before = at.call("neg", values)
        at.call("max.dim_max", at[0], d, max=values, max_values=places)
        return [values, before]

    f.apply([x, New()], Rule([dims, out], [out, out], dims[d]), emit)


Step = Callable[[Fuzzer, Tensor], None]
ALIASING: list[Step] = [
    through, through, through, through, through, put, buffered, out_of, product_into, normed,
    extreme_into,
]  # fmt: skip
