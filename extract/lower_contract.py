"""Lowering of contractions: matrix products, with a bias and in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from gg_datalog.extract.context import Context, Unsupported, Value, count, lowers
from gg_datalog.extract.dtypes import (
    arithmetic,
    interval,
    is_integer,
    learn,
    product,
    repeated,
)
from gg_datalog.extract.exponent_rules import over_dims
from gg_datalog.extract.exponents import is_weighted, over, wide
from gg_datalog.extract.finite import may_be_infinite
from gg_datalog.extract.labels import Letters
from gg_datalog.extract.lower_math import added, factor, vanishes
from gg_datalog.extract.lower_movement import need, zeros_of
from gg_datalog.extract.memberwise import splits_of
from gg_datalog.extract.records import Concat
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.view import Digit, View


# ---- contractions
def contract(ctx: Context, a: View, la: Letters, b: View, lb: Letters, out: Letters) -> View:
    """The product of two tensors, added up over the letters that the result does not have."""
    found = None
    if is_integer(dtype := ctx.node.dtype or ""):
        inner = prod(e for n, e in zip(la, a.shape, strict=True) if n not in out)
        found = repeated(product(interval(a, dtype), interval(b, dtype)), inner)
        a, b = arithmetic(ctx, [a, b], dtype, found)
    by = a.scale * b.scale
    both = (View(a.base, a.dims), View(b.base, b.dims))
    if ctx.side.is_zero(a) or ctx.side.is_zero(b):
        return _of_zero(ctx, b if ctx.side.is_zero(a) else a, (a, la), (b, lb), out)

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        if letter not in out:
            return "k", "sum"
        return {(0, 1): "b", (0,): "i", (1,): "j"}.get(places, "b"), "parallel"

    ours, theirs = (
        dict(zip(la, a.shape, strict=True)),
        dict(zip(lb, b.shape, strict=True)),
    )
    for letter in ours.keys() & theirs.keys():
        sizes = {ours[letter], theirs[letter]} - ({1} if letter in out else set())
        if len(sizes) > 1:
            raise ValueError(f"{list(a.shape)} and {list(b.shape)} do not multiply")
    extents = ours | theirs
    dims = dict(zip(la, a.dims, strict=True)), dict(zip(lb, b.dims, strict=True))
    for letter, extent in extents.items():
        digits = [[d.dim < 0 for d in side.get(letter, ())] for side in dims]
        if letter not in out and all(map(all, digits)):
            by = by * count(extent)
        elif letter not in out and all(map(any, digits)):
            raise Unsupported("both operands repeat a part of the contracted dimension")
    refined = refine([(both[0], la), (both[1], lb)], [n for n in extents if n not in out])
    view = ctx.apply("contract", refined, [out], naming, linear=(0, 1), formal=True)[0]
    if found is not None and not view.base.ring and by == ONE:
        learn(view, found)
    for x, lx, y, ly in ((both[0], la, both[1], lb), (both[1], lb, both[0], la)):
        _without_padding(ctx, view, x, lx, y, ly, out)
        _member_by_member(ctx, view, x, lx, y, ly, out)
    view = view.scaled(by)
    if found is not None or not is_weighted(ctx, a, b):
        return view

    def again(operands: Sequence[View]) -> View:
        return contract(ctx, operands[0], la, operands[1], lb, out)

    return over_dims(ctx, view, [(a, la), (b, lb)], out, again)


def _of_zero(
    ctx: Context, other: View, a: tuple[View, Letters], b: tuple[View, Letters], out: Letters
) -> View:
    """A product with 0, where the other operand is finite."""
    vanishes(ctx, other)
    pairs = [(n, e) for v, letters in (a, b) for n, e in zip(letters, v.shape, strict=True)]
    shape = [max(e for name, e in pairs if name == n) for n in out]
    return zeros_of(ctx, shape)


def refine(
    operands: Sequence[tuple[View, Letters]], summed: Sequence[str]
) -> list[tuple[View, Letters]]:
    """Operands whose summed dimensions show where equal parts lie one after the other: of two fused
    halves a rank may hold a range of each."""
    found = []
    for view, letters in operands:
        pairs = zip(letters, view.dims, strict=True)
        dims = [_in_parts(view, dim) if letter in summed else dim for letter, dim in pairs]
        found.append((replace(view, dims=tuple(dims)), letters))
    return found


def _in_parts(view: View, dim: tuple[Digit, ...]) -> tuple[Digit, ...]:
    made = view.base.made
    if not isinstance(made, Concat) or not made.local or len(dim) != 1 or dim[0].dim != made.dim:
        return dim
    extents = {v.shape[made.dim] for v, _ in made.members}
    (digit,) = dim
    if len(extents) > 1 or digit.extent != view.base.shape[made.dim]:
        return dim
    each = extents.pop()
    if each in (1, digit.extent):
        return dim
    return (
        Digit(digit.dim, digit.extent // each, digit.stride * each),
        Digit(digit.dim, each, digit.stride),
    )


def _without_padding(
    ctx: Context, made: View, x: View, lx: Letters, y: View, ly: Letters, out: Letters
) -> None:
    """Notes another form of a product over a dimension of which ``x`` is 0 but for a piece: the
    product of that piece with a slice."""
    found = piece_of(ctx, x)
    if found is None or lx[found[1]] in out or lx[found[1]] not in ly:
        return
    if may_be_infinite(y.base):
        return
    piece, dim, start = found
    part = ctx.side.slice(y, list(ly).index(lx[dim]), start, piece.shape[dim])
    if part is not None:
        ctx.side.alternative(made, contract(ctx, piece, lx, part, ly, out))


def _member_by_member(
    ctx: Context, made: View, x: View, lx: Letters, y: View, ly: Letters, out: Letters
) -> None:
    """Notes a product over a dimension along which ``x`` is put together as the sum of the products
    of its members: each may be open in a reduction of its own."""
    for split in splits_of(ctx, x, lx, y, ly, out):
        try:
            products = [contract(ctx, a, split.lx, b, split.ly, out) for a, b in split.pairs]
        except Unsupported:  # a slice of the other one is 0, say
            continue
        rows = [over(made, wide(one, made.shape)) for one in products]
        known = [row for row in rows if row is not None]
        if len(known) == len(rows):
            ctx.side.sum_of_multiples(made.base, known)


def piece_of(ctx: Context, x: View) -> tuple[View, int, int] | None:
    """Of a view that is 0 but for a piece: the piece in the same order of dimensions, the dimension
    that it is cut from, and where it starts."""
    found = ctx.side.notes.padded.get(x.base)
    return None if found is None else found.seen_as(x)


@lowers("aten.mm", "aten.bmm", "aten.matmul", "aten.dot", "aten.mv")
def matmul(ctx: Context) -> Value:
    return multiply_matrices(
        ctx, ctx.operand("self"), ctx.operand("other", "mat2", "vec", "tensor")
    )


def multiply_matrices(ctx: Context, a: View, b: View) -> View:
    """A matrix product with broadcast batch dimensions."""
    batch = [f"n{i}" for i in range(max(len(a.dims), len(b.dims)) - 2)]
    la = [*batch[len(batch) - len(a.dims) + 2 :], "i", "k"] if len(a.dims) > 1 else ["k"]
    lb = [*batch[len(batch) - len(b.dims) + 2 :], "k", "j"] if len(b.dims) > 1 else ["k"]
    out = [*batch, *(["i"] if len(a.dims) > 1 else []), *(["j"] if len(b.dims) > 1 else [])]
    return contract(ctx, a, la, b, lb, out)


@lowers("aten.addmm")
def addmm(ctx: Context) -> Value:
    return with_bias(ctx, "mat1", "mat2")


@lowers("aten.baddbmm")
def baddbmm(ctx: Context) -> Value:
    return with_bias(ctx, "batch1", "batch2")


def with_bias(ctx: Context, first: str, second: str) -> View:
    """``beta * self + alpha * (first @ second)``; with beta 0 nothing of ``self`` is read."""
    beta, alpha = factor(ctx, "beta"), factor(ctx, "alpha")
    made = multiply_matrices(ctx, ctx.operand(first), ctx.operand(second))
    if beta.zero:
        ctx.raw("self")
        return need(made.expanded([int(e) for e in ctx.node.shape or made.shape])).scaled(alpha)
    return added(ctx, [(made, alpha), (ctx.operand("self"), beta)])


@lowers("aten.linear")
def linear(ctx: Context) -> Value:
    x, w = ctx.operand("input"), ctx.operand("weight")
    letters = [str(i) for i in range(len(x.dims) - 1)]
    made = contract(ctx, x, [*letters, "k"], w, ["j", "k"], [*letters, "j"])
    bias: Any = ctx.argument("bias")
    return made if bias is None else added(ctx, [(made, ONE), (ctx.operand("bias"), ONE)])


@lowers("hlo.dot")
def hlo_dot(ctx: Context) -> Value:
    a, b = ctx.operand("self"), ctx.operand("other")
    names = ("l_contract", "r_contract", "l_batch", "r_batch")
    lists = [ctx.argument(name) or () for name in names]
    la = [f"a{i}" for i in range(len(a.dims))]
    lb = [f"b{i}" for i in range(len(b.dims))]
    for x, y in zip(lists[0], lists[1], strict=True):
        la[x] = lb[y] = f"k{x}"
    for x, y in zip(lists[2], lists[3], strict=True):
        la[x] = lb[y] = f"n{x}"
    batch = [la[i] for i in lists[2]]
    out = batch + [n for n in la if n[0] == "a"] + [n for n in lb if n[0] == "b"]
    return contract(ctx, a, la, b, lb, out)
