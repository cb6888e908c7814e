"""Steps that only move data: in every way that the layout algebra has to follow."""

from __future__ import annotations

from collections.abc import Sequence

from .fuzz import EVERY, Fuzzer, New, Rule, Shard, Tensor, alike, letters, ranked
from .promotion import Invalid
from .writing import Ref, Site


def view_rule(x: Tensor, out: str, whole: str = "", **more: object) -> Rule:
    """What only moves: it may be open in every way."""
    return Rule([letters(x)], [out], whole, {0: EVERY}, **more)  # type: ignore[arg-type]


def transposed(f: Fuzzer, x: Tensor) -> None:
    """Dimensions in another order."""
    dims = ranked(x, 2)
    order = list(range(len(dims)))
    f.rng.shuffle(order)
    out = "".join(dims[i] for i in order)
    f.apply([x], view_rule(x, out), lambda at: [at.call("permute", at[0], order)])


def merged(f: Fuzzer, x: Tensor) -> None:
    """Two neighbouring dimensions made one."""
    dims = ranked(x, 2)
    at_ = f.rng.randrange(len(dims) - 1)
    a, b = dims[at_], dims[at_ + 1]
    inner, outer = x.shape[at_ + 1], x.shape[at_]

    def carry(shard: Shard) -> Shard:
        letter, sizes, blocks = shard
        if letter == a:
            return a, tuple(n * inner for n in sizes), blocks
        return (a, sizes, blocks * outer) if letter == b else shard

    out = dims[: at_ + 1] + dims[at_ + 2 :]
    rule = view_rule(x, out, b if f.chance(0.7) else "", carry=carry)

    def emit(at: Site) -> Sequence[Ref]:
        shape = at.shape(at[0])
        return [
            at.call("view", at[0], [*shape[:at_], shape[at_] * shape[at_ + 1], *shape[at_ + 2 :]])
        ]

    f.apply([x], rule, emit)


def divided(f: Fuzzer, x: Tensor) -> None:
    """A dimension made two."""
    dims = ranked(x, 1, 3)
    at_ = f.rng.randrange(len(dims))
    a, extent = dims[at_], x.shape[at_]
    inner = f.rng.choice([2, 3, extent // 2 if extent % 2 == 0 else 2])
    if extent % inner or inner < 1:
        raise Invalid("not divisible")

    def carry(shard: Shard) -> Shard:
        letter, sizes, blocks = shard
        if letter != a:
            return shard
        if blocks > 1 and blocks * inner == extent:
            return "n", sizes, 1
        if blocks > 1 or any(n % inner for n in sizes):
            raise Invalid("a border inside")
        return a, tuple(n // inner for n in sizes), 1

    def emit(at: Site) -> Sequence[Ref]:
        shape = list(at.shape(at[0]))
        kept = inner
        if not at.seq and any(p[0] == "S" and p[1] == at_ and p[3] > 1 for p in x.layout):
            kept = shape[at_] // (extent // inner)
        if not kept or shape[at_] % kept:
            raise Invalid("a border inside")
        return [at.call("view", at[0], [*shape[:at_], shape[at_] // kept, kept, *shape[at_ + 1 :]])]

    out = dims[: at_ + 1] + "n" + dims[at_ + 1 :]
    f.apply([x], view_rule(x, out, carry=carry), emit)


def sliced(f: Fuzzer, x: Tensor) -> None:
    """A slice, or one position."""
    dims = letters(x)
    at_ = f.rng.randrange(len(dims))
    lo = f.rng.randrange(x.shape[at_])
    off = -1 if lo and f.wrong() else 0
    if f.chance(0.25):
        out = dims[:at_] + dims[at_ + 1 :]
        f.apply(
            [x], view_rule(x, out, dims[at_]),
            lambda at: [at.call("select.int", at[0], at_, lo + off * (not at.seq))],
        )  # fmt: skip
        return
    hi = f.rng.randint(lo + 1, x.shape[at_])

    def emit(at: Site) -> Sequence[Ref]:
        by = off * (not at.seq)
        return [at.call("slice.Tensor", at[0], at_, lo + by, hi + by)]

    f.apply([x], view_rule(x, dims, dims[at_]), emit)


def joined(f: Fuzzer, x: Tensor) -> None:
    """Two tensors one after the other; cut along that dimension, each rank has a part of both."""
    dims = letters(x)
    at_ = f.rng.randrange(len(dims))
    other = alike(f, x)
    swap = f.wrong(0.5)

    def carry(shard: Shard) -> Shard:
        letter, sizes, blocks = shard
        return (letter, sizes, 2 * blocks) if letter == dims[at_] else shard

    def emit(at: Site) -> Sequence[Ref]:
        both = [at[1], at[0]] if swap and not at.seq else [at[0], at[1]]
        return [at.call("cat", both, at_)]

    whole = dims[at_] if f.chance(0.6) or len(x.layout) > 1 else ""
    f.apply([x, other], Rule([dims, dims], [dims], whole, together=EVERY, carry=carry), emit)


def split(f: Fuzzer, x: Tensor) -> None:
    """A dimension in two parts: of what has a part of both, each rank gets its parts."""
    dims = letters(x)
    at_ = f.rng.randrange(len(dims))
    a = dims[at_]
    if x.shape[at_] % 2:
        raise Invalid("not divisible")

    def carry(shard: Shard) -> Shard:
        letter, sizes, blocks = shard
        if letter != a:
            return shard
        if blocks % 2:
            raise Invalid("the parts lie on other ranks")
        return a, sizes, blocks // 2

    def emit(at: Site) -> Sequence[Ref]:
        half = at.shape(at[0])[at_] // 2
        made = at.call("split_with_sizes", at[0], [half, half], at_)
        return [at.item(made, 0), at.item(made, 1)]

    fits = any(p[0] == "S" and p[1] == at_ and p[3] % 2 == 0 for p in x.layout)
    f.apply([x], Rule([dims], [dims, dims], "" if fits else a, {0: EVERY}, carry=carry), emit)


def expanded(f: Fuzzer, x: Tensor) -> None:
    """A new dimension, along which everything repeats."""
    dims = ranked(x, 1, 3)
    at_ = f.rng.randrange(len(dims) + 1)
    count = f.rng.choice([2, 3, 4])
    wide = f.chance(0.4)  # the new dimension may be cut: every rank repeats less

    def emit(at: Site) -> Sequence[Ref]:
        shape = list(at.shape(at[0]))
        one = at.call("unsqueeze", at[0], at_)
        return [at.call("expand", one, [*shape[:at_], at.size("n"), *shape[at_:]])]

    out = dims[:at_] + "n" + dims[at_:]
    rule = view_rule(x, out, "" if wide else "n", extents={"n": count})
    f.apply([x], rule, emit)


def stacked(f: Fuzzer, x: Tensor) -> None:
    """Two tensors side by side in a new dimension."""
    dims = ranked(x, 1, 3)
    at_ = f.rng.randrange(len(dims) + 1)
    forms = [f.rng.choice(["stack", "cat"]) for _ in range(2)]
    swap = f.wrong(0.5)

    def emit(at: Site) -> Sequence[Ref]:
        both = [at[1], at[0]] if swap and not at.seq else [at[0], at[1]]
        if forms[at.seq] == "stack":
            return [at.call("stack", both, at_)]
        return [at.call("cat", [at.call("unsqueeze", one, at_) for one in both], at_)]

    rule = Rule([dims, dims], [dims[:at_] + "n" + dims[at_:]], together=EVERY)
    f.apply([x, alike(f, x)], rule, emit)


def padded(f: Fuzzer, x: Tensor) -> None:
    """0 around a tensor: by a concatenation, or as the gradient of a slice."""
    dims = letters(x)
    at_ = f.rng.randrange(len(dims))
    before, after = f.rng.choice([0, 1, 2]), f.rng.choice([1, 2])
    forms = [f.rng.choice(["cat", "slice", "slice"])] * 2

    def emit(at: Site) -> Sequence[Ref]:
        shape = list(at.shape(at[0]))
        here = shape[at_]
        if forms[at.seq] == "slice":
            whole = [*shape[:at_], before + here + after, *shape[at_ + 1 :]]
            return [at.call("slice_backward", at[0], whole, at_, before, before + here, 1)]
        parts = []
        for size in (before, here, after):
            zeros = [*shape[:at_], size, *shape[at_ + 1 :]]
            parts.append(at[0] if size == here and at[0] not in parts else at.call("zeros", zeros))
        return [at.call("cat", [p for p in parts if at.shape(p)[at_]], at_)]

    if before == x.shape[at_] or not before:
        forms = ["slice", "slice"]
    f.apply([x], Rule([dims], [dims], dims[at_], {0: EVERY[:2]}), emit)


def replaced(f: Fuzzer, x: Tensor) -> None:
    """One position of a dimension replaced, or the only one that is not 0."""
    dims = ranked(x, 2)
    at_ = f.rng.randrange(len(dims))
    fewer = dims[:at_] + dims[at_ + 1 :]
    place = f.rng.randrange(x.shape[at_])
    if f.chance(0.5):
        rule = Rule([dims, fewer], [dims], dims[at_])
        f.apply([x, New()], rule, lambda at: [at.call("select_scatter", at[0], at[1], at_, place)])
        return

    def emit(at: Site) -> Sequence[Ref]:
        shape = list(at.shape(at[0]))
        one = at.call("select.int", at[0], at_, place)
        return [at.call("select_backward", one, shape, at_, place)]

    f.apply([x], Rule([dims], [dims], dims[at_], {0: EVERY[:2]}), emit)


def whole_again(f: Fuzzer, x: Tensor) -> None:
    """The gradients of the slices of a dimension, added up."""
    dims = letters(x)
    at_ = f.rng.randrange(len(dims))
    extent = x.shape[at_]
    if extent < 2:
        raise Invalid("one position")
    cut = f.rng.randrange(1, extent)
    swap, plain = f.chance(0.5), f.chance(0.3)

    def emit(at: Site) -> Sequence[Ref]:
        if at.seq and plain:
            return [at.call("tanh", at[0])]
        shape = list(at.shape(at[0]))
        pieces = []
        for lo, hi in ((0, cut), (cut, extent)):
            piece = at.call("tanh", at.call("slice.Tensor", at[0], at_, lo, hi))
            pieces.append(at.call("slice_backward", piece, shape, at_, lo, hi, 1))
        return [at.call("add.Tensor", *(pieces[::-1] if swap else pieces))]

    f.apply([x], Rule([dims], [dims], dims[at_]), emit)


def tokens(f: Fuzzer, x: Tensor) -> None:
    """A product over all but the last dimension at once, which are merged in some order."""
    dims = ranked(x, 3, 3)
    turned = [f.chance(0.5), f.chance(0.5)]
    flat = [f.chance(0.6), f.chance(0.6)]

    def emit(at: Site) -> Sequence[Ref]:
        turn = turned[at.seq]
        order = [1, 0, 2] if turn else [0, 1, 2]
        shape = [at.shape(at[0])[i] for i in order]
        made = at.call("permute", at[0], order)
        if flat[at.seq]:
            made = at.call("reshape", made, [shape[0] * shape[1], shape[2]])
            made = at.call("mm", made, at[1])
            made = at.call("view", made, [shape[0], shape[1], at.size("o")])
        else:
            made = at.call("matmul", made, at[1])
        return [at.call("permute", made, order)]

    rule = Rule([dims, dims[2] + "o"], [dims[:2] + "o"], open={0: EVERY[:2]}, extents={"o": 4})
    f.apply([x, New()], rule, emit)


MOVEMENT = [
    transposed, merged, merged, divided, divided, sliced, joined, split, expanded, stacked, padded,
    replaced, whole_again, tokens, tokens,
]  # fmt: skip
