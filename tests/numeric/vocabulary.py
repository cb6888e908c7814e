"""Lookups, their gradients and those of a cross entropy, with the vocabulary sharded over ranks: ids
are compared with the rank's bounds, shifted, clamped, and what belongs to other ranks is set to 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .fuzz import ADDS, Fuzzer, New, Rule, Tensor
from .promotion import Invalid
from .writing import Ref, Site

STYLES = ("Megatron", "DTensor", "DTensor on shifted ids", "vLLM")
EXTRA = ("floor", "positive", "added", "apart", "late", "strict", "twice", "inverted")
CLEARED = ("put", "fill", "where", "kept")


@dataclass
class Form:
    """How a graph masks ids and values; from ``below`` on mistakes, of some ranks."""

    style: str
    cleared: str
    other: int = 0  # the row that foreign ids are clamped to
    extra: tuple[str, ...] = ()  # what changes nothing
    swap: bool = False  # the other comparison comes first
    below: dict[int, int] = field(default_factory=dict)
    above: dict[int, int] = field(default_factory=dict)
    shift: dict[int, int] = field(default_factory=dict)
    value: float = 0
    skips: bool = False  # foreign values are not set to 0
    joined: str = ""  # the comparisons are joined by another operator
    rows: int = 0  # every rank has so many rows more than its share

    def size(self, at: Site, letter: str) -> int:
        """How many rows this graph has."""
        return at.size(letter) + (0 if at.seq else self.rows)


def form(f: Fuzzer, other: int = 0) -> Form:
    """A form, with the mistakes of this program."""
    made = Form(f.rng.choice(STYLES), f.rng.choice(CLEARED), other if f.chance(0.2) else 0)
    rank = f.rng.randrange(f.mesh.ranks)
    ranks = [rank] if f.chance(0.5) else list(range(f.mesh.ranks))
    for bounds in (made.below, made.above, made.shift):
        if f.wrong(0.6):
            bounds |= dict.fromkeys(ranks, f.rng.choice([-1, 1]))
    made.extra = tuple(e for e in EXTRA if f.chance(0.06))
    made.swap = f.chance(0.3)
    if f.wrong(0.3):
        made.value = 1
    if f.wrong(0.3):
        made.joined = f.rng.choice(["bitwise_and.Tensor", "logical_or"])
    made.skips = f.wrong(0.6)
    return made


def masked_ids(at: Site, ids: Ref, letter: str, how: Form) -> tuple[Ref, Ref]:
    """(mask of the ids of other ranks, ids within the rows of this one)."""
    lo = at.lo(letter) + how.below.get(at.rank, 0)
    hi = at.lo(letter) + how.size(at, letter) + how.above.get(at.rank, 0)
    by = at.lo(letter) + how.shift.get(at.rank, 0)
    if "floor" in how.extra:
        ids = at.call("masked_fill.Scalar", ids, at.call("lt.Scalar", ids, 0), 0)
    if "positive" in how.extra:
        ids = at.call("mul.Tensor", at.call("ge.Scalar", ids, 0), ids)
    if how.style == "vLLM":
        inside = both(at, ids, ("ge", lo), ("lt", hi), how.joined or "bitwise_and.Tensor", how)
        if "added" in how.extra:  # rows of adapters: there are none
            more = both(at, ids, ("ge", hi), ("lt", hi), "bitwise_and.Tensor", how)
            shifts = [at.call("mul.Tensor", inside, by), at.call("mul.Tensor", more, hi)]
            inside = at.call("bitwise_or.Tensor", inside, more)
            offset = at.call("add.Tensor", *shifts)
        else:
            offset = at.call("mul.Tensor", inside, by)
        inside = again(at, inside, how)
        if "apart" in how.extra:
            terms = [at.call("mul.Tensor", inside, x) for x in (ids, offset)]
            return at.call("bitwise_not", inside), at.call("sub.Tensor", *terms)
        there = at.call("mul.Tensor", inside, at.call("sub.Tensor", ids, offset))
        return at.call("bitwise_not", inside), there
    if how.style == "DTensor on shifted ids":
        moved = at.call("sub.Tensor", ids, by)
        mask = both(
            at, moved, ("lt", lo - by), ("ge", hi - by), how.joined or "bitwise_or.Tensor", how
        )
    else:
        mask = both(at, ids, ("lt", lo), ("ge", hi), how.joined or "bitwise_or.Tensor", how)
        moved = at.call("sub.Tensor", at.call("clone", ids), by)
    mask = again(at, mask, how)
    to = how.other if how.other < at.size(letter) else 0
    if "late" in how.extra:  # clamped first, shifted after that
        clamped = at.call("masked_fill.Scalar", ids, mask, by + to)
        return mask, at.call("sub.Tensor", clamped, by)
    if how.style == "Megatron":
        return mask, at.call("index_put", moved, [mask], at.constant(to))
    return mask, at.call("masked_fill.Scalar", moved, mask, to)


Test = tuple[str, int]


def both(at: Site, ids: Ref, one: Test, other: Test, name: str, how: Form) -> Ref:
    """Two comparisons of ids, joined."""
    tests = [other, one] if how.swap else [one, other]
    if "strict" in how.extra:
        tests = [("gt", n - 1) if t == "ge" else ("le", n - 1) for t, n in tests]
    return at.call(name, *(at.call(f"{t}.Scalar", ids, n) for t, n in tests))


def again(at: Site, mask: Ref, how: Form) -> Ref:
    """The mask by ways that change nothing."""
    if "twice" in how.extra:
        mask = at.call("bitwise_or.Tensor", mask, mask)
    if "inverted" in how.extra:
        mask = at.call("logical_not", at.call("bitwise_not", mask))
    return mask


def without(at: Site, x: Ref, mask: Ref, how: Form) -> Ref:
    """``x`` set to 0 under the mask, whose dimensions are the first ones of ``x``."""
    if how.skips and not at.seq:
        return x
    value = 0 if at.seq else how.value
    if how.cleared == "put":
        return at.call("index_put", x, [mask], at.constant(float(value)))
    wide = mask
    for _ in range(len(at.shape(x)) - len(at.shape(mask))):
        wide = at.call("unsqueeze", wide, -1)
    if how.cleared == "fill":
        return at.call("masked_fill.Scalar", x, wide, value)
    number = at.constant(float(value))
    if how.cleared == "where":
        return at.call("where.self", wide, number, x)
    return at.call("where.self", at.call("logical_not", wide), x, number)


def masks(at: Site, letter: str, seq: bool) -> bool:
    """Does this graph mask its ids? It has to where it has a part of the rows."""
    if at.blocks.get(letter, 1) > 1:
        raise Invalid("a part of every block of the vocabulary")
    return seq or letter in at.blocks


def lookup(f: Fuzzer, _: Tensor) -> None:
    """A lookup in a new table: replicated, cut by columns, by ids, by rows with a mask."""
    rows, width = f.rng.choice([4, 6, 8]), f.rng.choice([2, 4])
    ids = f.rng.choice(["t", "t", "tq"])
    how, seq = form(f, 1), f.chance(0.15)
    indexed = f.rng.choice(["embedding", "embedding", "index"])

    def emit(at: Site) -> Sequence[Ref]:
        mask, there = None, at[1]
        if masks(at, "v", seq):
            mask, there = masked_ids(at, at[1], "v", how)
        taken = at.call("index.Tensor", at[0], [there]) if indexed == "index" else at.call(
            "embedding", at[0], there
        )  # fmt: skip
        return [taken if mask is None else without(at, taken, mask, how)]

    extents = {"v": rows, "w": width, "t": f.rng.choice([2, 3, 4]), "q": 2}
    extents = {n: extents[n] for n in "vw" + ids}
    rule = Rule(["vw", ids], [ids + "w"], prefer="v", extents=extents)
    f.apply([New(), New("int64")], rule, emit)


def lookup_gradient(f: Fuzzer, x: Tensor) -> None:
    """The gradient of a table: over shards of tokens, columns, and rows with a mask."""
    if not 2 <= len(x.shape) <= 3:
        raise Invalid("another number of dimensions")
    dims = "tqw" if len(x.shape) == 3 else "tw"
    how, seq = form(f, 1), f.chance(0.15)

    def emit(at: Site) -> Sequence[Ref]:
        g, ids = at[0], at[1]
        if masks(at, "v", seq):
            mask, ids = masked_ids(at, at[1], "v", how)
            g = without(at, g, mask, how)
        return [at.call("embedding_dense_backward", g, ids, how.size(at, "v"), -1, False)]

    rows = f.rng.choice([4, 6, 8])
    how.rows = int(f.wrong(0.5))
    rule = Rule([dims, dims[:-1]], ["vw"], open={0: ADDS}, prefer="v", extents={"v": rows})
    f.apply([x, New("int64")], rule, emit)


def entropy_gradient(f: Fuzzer, x: Tensor) -> None:
    """1 (under a mask 0) taken away from the target's column, times the gradient of each loss."""
    if len(x.shape) != 2:
        raise Invalid("another number of dimensions")
    how, seq = form(f, 1), f.chance(0.85)
    more = [f.chance(0.3), f.chance(0.3)]
    sign = f.wrong(0.5)
    ends = f.chance(0.6)

    def emit(at: Site) -> Sequence[Ref]:
        there, near = at[1], None
        if masks(at, "v", seq):
            mask, there = masked_ids(at, at[1], "v", how)
            far = at.call("_to_copy", mask, dtype={"dtype": "float32"})
            near = at.call("rsub.Scalar", far, 1.0)
            if how.skips and not at.seq:
                near = None
        rows = at.call("arange", at.size("t"))
        by = 1.0 if near is None else near
        if more[at.seq] and near is not None:
            made = at.call("index_put", at[0], [rows, there], at.call("neg", near), True)
        else:
            old = at.call("index.Tensor", at[0], [rows, there])
            name = "add.Tensor" if sign and not at.seq else "sub.Tensor"
            made = at.call("index_put", at[0], [rows, there], at.call(name, old, by))
        if not ends:
            return [made]
        return [at.call("mul.Tensor", made, at.call("unsqueeze", at[2], -1))]

    operands = [x, New("int64"), New()][: 2 + ends]
    f.apply(operands, Rule(["tv", "t", "t"][: 2 + ends], ["tv"], prefer="v"), emit)


def loss_gradient(f: Fuzzer, x: Tensor) -> None:
    """The gradient of scores by the kernels of a loss; of a part of the classes in one step."""
    if len(x.shape) != 2:
        raise Invalid("another number of dimensions")
    how, ignored, kernels = form(f, 1), f.rng.choice([-100, 1]), f.chance(0.7)
    other, counts = ignored - 1 if f.wrong(0.5) else ignored, f.wrong(0.5)

    def emit(at: Site) -> Sequence[Ref]:
        if at.seq or not (masks(at, "v", False) or not kernels):
            made = at.call("nll_loss_forward", at[0], at[1], None, 0, ignored)
            more = [None, 0, ignored, at.item(made, 1)]
            made = at.call("nll_loss_backward", at[2], at[0], at[1], *more)
            return [at.call("_log_softmax_backward_data", made, at[0], 1, {"dtype": "float32"})]
        valid = at.call("ne.Scalar", at[1], ignored)
        ids = at.call("where.self", valid, at[1], at.constant(0))
        mask, there = masked_ids(at, ids, "v", how)
        far = at.call("_to_copy", mask, dtype={"dtype": "float32"})
        zeros = at.call("zeros", [at.size("t"), at.size("v")])
        rows = [at.call("arange", at.size("t")), there]
        made = at.call("index_put", zeros, rows, at.call("sub.Tensor", far, 1.0))
        made = at.call("add.Tensor", made, at.call("exp", at[0]))
        kept = at[2] if counts else at.call(
            "where.self", at.call("ne.Scalar", at[1], other), at[2], at.constant(0.0)
        )  # fmt: skip
        return [at.call("mul.Tensor", made, at.call("unsqueeze", kept, -1))]

    f.apply([x, New("int64"), New()], Rule(["tv", "t", "t"], ["tv"], prefer="v"), emit)


def hot(f: Fuzzer, x: Tensor) -> None:
    """1 (or a value) in the target's column, elsewhere 0."""
    rows, how, seq = f.rng.choice([4, 6, 8]), form(f, 1), f.chance(0.15)
    valued = len(x.shape) == 1 and f.chance(0.7)
    how.rows = int(f.wrong())

    def emit(at: Site) -> Sequence[Ref]:
        ids, tokens = at[-1], at.size("t")
        ones = at.call("ones", [tokens])
        value = at[0] if valued else ones
        if masks(at, "v", seq):
            mask, ids = masked_ids(at, at[-1], "v", how)
            if valued:
                value = without(at, value, mask, how)
            elif not how.skips or at.seq:
                far = at.call("_to_copy", mask, dtype={"dtype": "float32"})
                value = at.call("rsub.Scalar", far, 1.0)
        zeros = at.call("zeros", [tokens, how.size(at, "v")])
        return [at.call("index_put", zeros, [at.call("arange", tokens), ids], value, True)]

    extents = {"v": rows} if valued else {"v": rows, "t": f.rng.choice([4, 6])}
    rule = Rule(["t"] * (1 + valued), ["tv"], "", {0: ADDS}, prefer="v", extents=extents)
    if not valued:
        rule = replace(rule, open={})
    f.apply([x, New("int64")] if valued else [New("int64")], rule, emit)


def picked(f: Fuzzer, x: Tensor) -> None:
    """The target's column of every row: of a shard of columns, 0 for the others."""
    if len(x.shape) != 2:
        raise Invalid("another number of dimensions")
    how, seq = form(f, 1), f.chance(0.15)

    def emit(at: Site) -> Sequence[Ref]:
        mask, there = None, at[1]
        if masks(at, "v", seq):
            mask, there = masked_ids(at, at[1], "v", how)
        rows = at.call("arange", at.size("t"))
        taken = at.call("index.Tensor", at[0], [rows, there])
        return [taken if mask is None else without(at, taken, mask, how)]

    f.apply([x, New("int64")], Rule(["tv", "t"], ["t"], open={0: ADDS}, prefer="v"), emit)
