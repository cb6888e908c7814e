"""Arithmetic: sums, scalar factors, products, reductions, normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from gg_datalog.extract.context import Context, Unsupported, Value, attributes, lowers
from gg_datalog.extract.dtypes import (
    PLAIN_IDS,
    arithmetic,
    holds_all,
    interval,
    is_float,
    is_integer,
    learn,
    product,
    repeated,
    single,
    span,
    total,
    valued,
)
from gg_datalog.extract.finite import may_be_infinite
from gg_datalog.extract.graph import Ref, is_symbolic
from gg_datalog.extract.labels import Letters
from gg_datalog.extract.lower_movement import joined, need, stretched
from gg_datalog.extract.records import Concat, Operator
from gg_datalog.extract.scale import ONE, Scale, scale
from gg_datalog.extract.side import _as_term
from gg_datalog.extract.view import Base, Digit, View, broadcast


def added(ctx: Context, terms: Sequence[tuple[View, Scale]]) -> View:
    """The sum of scaled terms, broadcast against each other. Of integers it is one modulo their
    width, unless it surely fits."""
    for view, by in terms:
        if by.zero and not view.scale.zero:
            vanishes(ctx, view)
    shape = broadcast([v for v, _ in terms])
    dtype = ctx.node.dtype or ""
    views = [v.scaled(s) for v, s in terms if not s.zero and not v.scale.zero]
    if is_integer(dtype):
        if any(by.integer is None for _, by in terms):
            raise Unsupported(f"a factor that is cut to {dtype}")
        found = total(interval(v, dtype) for v in views)
        views = arithmetic(ctx, views, dtype, found)
    wide = [stretched(v, shape) for v in views]
    if (whole := unpadded(ctx, wide)) is not None:
        return whole
    if not wide:
        return need(ctx.side.constant(scale(0)).expanded(shape))
    out = need(ctx.side.sum(wide, integers=is_integer(dtype)))
    if is_integer(dtype) and not out.base.ring:
        learn(out, found)
    return out


def unpadded(ctx: Context, terms: Sequence[View]) -> View | None:
    """Pieces with 0 around them that make up a dimension: one after the other."""
    found = [(ctx.side.padded.get(t.base), t) for t in terms]
    if len(found) < 2 or any(p is None or p[1] != t.dims for p, t in found):
        return None
    pieces = [(p[3], p[0].scaled(t.scale), p[2]) for p, t in found if p is not None]
    pieces.sort(key=lambda piece: piece[0])
    dim, at = pieces[0][2], 0
    for start, piece, along in pieces:
        if start != at or along != dim:
            return None
        at += piece.shape[dim]
    if at != terms[0].shape[dim]:
        return None
    return joined(ctx, [piece for _, piece, _ in pieces], dim)


FINITE = (
    "finite values",
    "what is multiplied by 0 holds no infinity and no NaN, so that the product is 0",
)


def vanishes(ctx: Context, x: View) -> None:
    """0 times a tensor is 0 only where the tensor is finite: :class:`Unsupported` where something
    that may be infinite was put into it; an assumption where it comes from inputs."""
    if x.base.kind == "uninitialised":
        raise Unsupported("0 times memory that nobody has written")
    if may_be_infinite(x.base):
        raise Unsupported("0 times what may be infinite is not 0")
    if not is_bounded(x):
        ctx.notes.assume(*FINITE)


def is_bounded(x: View) -> bool:
    """Is it made of numbers that are surely finite: truth values, integers, constants?"""
    return x.base.kind == "constant" or x.base.range is not None or span(x.base.dtype) is not None


def factor(ctx: Context, *names: str) -> Scale:
    """A scalar keyword such as alpha; 1 where the operator has none. Some kernels cut it to the
    type of their integers."""
    found = ctx.number(*names, default=1)
    if found is None:
        raise Unsupported(f"`{names[0]}` is not known")
    if found.integer is None and is_integer(ctx.node.dtype or ""):
        raise Unsupported(f"`{names[0]}` is cut to {ctx.node.dtype}")
    return found


@lowers("aten.add")
def add(ctx: Context) -> Value:
    if ctx.node.dtype == "bool":
        raise Unsupported("a sum of booleans")
    alpha = factor(ctx, "alpha")
    return added(ctx, [(ctx.operand("self"), ONE), (ctx.operand("other"), alpha)])


@lowers("aten.sub", "aten.subtract")
def sub(ctx: Context) -> Value:
    alpha = factor(ctx, "alpha") * scale(-1)
    return added(ctx, [(ctx.operand("self"), ONE), (ctx.operand("other"), alpha)])


@lowers("aten.rsub")
def rsub(ctx: Context) -> Value:
    alpha = factor(ctx, "alpha") * scale(-1)
    return added(ctx, [(ctx.operand("other"), ONE), (ctx.operand("self"), alpha)])


@lowers("aten.neg")
def neg(ctx: Context) -> Value:
    return added(ctx, [(ctx.operand("self"), scale(-1))])


def times(ctx: Context, x: View, by: Scale, shape: Sequence[int]) -> View:
    """A tensor times a scalar, broadcast to ``shape``."""
    if by.zero or ctx.side.is_zero(x):
        if by.zero and not ctx.side.is_zero(x):
            vanishes(ctx, x)
        return need(ctx.side.constant(scale(0)).expanded(shape))
    dtype = ctx.node.dtype or ""
    if is_integer(dtype):
        if by.integer is None:
            raise Unsupported(f"a product that is cut to {dtype}")
        found = product(interval(x, dtype), (by.integer, by.integer))
        x = arithmetic(ctx, [x], dtype, found)[0]
    return stretched(x, shape).scaled(by)


@lowers("aten.mul", "aten.multiply")
def mul(ctx: Context) -> Value:
    a, b = ctx.operand("self"), ctx.operand("other")
    shape = broadcast([a, b])
    for x, by in ((a, ctx.number("other")), (b, ctx.number("self"))):
        if by is not None:
            return times(ctx, x, by, shape)
    return multiplied(ctx, a, b)


def multiplied(ctx: Context, a: View, b: View) -> View:
    """The product of two tensors."""
    dtype = ctx.node.dtype or ""
    found = product(interval(a, dtype), interval(b, dtype)) if is_integer(dtype) else None
    a, b = arithmetic(ctx, [a, b], dtype, found)
    out = ctx.elementwise("mul", [a, b], linear=(0, 1), formal=True)[0]
    if is_integer(dtype):
        if not out.base.ring:
            learn(out, found)
        integer_pair(ctx, out, "mul", a, b)
    elif (a.base in ctx.side.truths) != (b.base in ctx.side.truths):
        _masked_product(ctx, out.base)
    return out


def _masked_product(ctx: Context, gives: Base) -> None:
    """Notes that a product with a mask is 0 where the mask is not true."""
    from gg_datalog.extract.lower_index import masked_lookup

    found = _terms(gives)
    if found is None or any(term.scale != ONE for term in found):
        return
    x, mask = found[::-1] if found[0].base in ctx.side.truths else found
    if may_be_infinite(x.base):
        return
    if any(d.dim < 0 for dim in x.dims for d in dim):
        return
    hidden = inverted(ctx, mask)
    ctx.side.cleared.setdefault(gives, (x, hidden))
    masked_lookup(ctx, gives, x, hidden)
    if gives in ctx.side.taken:
        gives.needs.append(hidden.base)


def _terms(gives: Base) -> tuple[View, View] | None:
    """Both operands of an operator, with the dimensions of what it gives."""
    made = gives.made
    if not isinstance(made, Operator) or len(made.operands) != 2:
        return None
    terms = [_as_term(v, m, made.labels) for v, m in zip(made.operands, made.maps, strict=True)]
    first, second = (replace(t, dims=tuple(t.dims[k] for k in made.gives[0][1])) for t in terms)
    return first, second


@lowers("aten.clamp", "aten.clip")
def clamp(ctx: Context) -> Value:
    x, bounds = ctx.tensor("self"), [ctx.argument("min"), ctx.argument("max")]
    out = plain(ctx)
    integers = is_integer(ctx.node.dtype or "") and is_integer(ctx.dtype("self"))
    known = all(type(bound) is int and abs(bound) < 2**30 for bound in bounds)
    if not isinstance(out, View) or not integers or not known or bounds[0] > bounds[1]:
        return out
    learn(out, (bounds[0], bounds[1]))
    of = valued(ctx, x)
    plainly = out.dims == of.dims and out.base.shape == of.base.shape and of.scale == ONE
    if plainly and ctx.dtype("self") in PLAIN_IDS:
        ctx.side.integers.clamps.append((out.base, of.base, *bounds))
    return out


@lowers("aten.div", "aten.divide", "aten.true_divide")
def div(ctx: Context) -> Value:
    mode = ctx.argument("rounding_mode")
    if mode is not None:
        return rounded_quotient(ctx, str(mode))
    a, b = ctx.operand("self"), ctx.operand("other")
    by = ctx.number("other")
    if by is not None and not by.zero:
        return times(ctx, a, by.inverse(), broadcast([a, b]))
    return ctx.elementwise("div", [a, b], linear=(0,))[0]


@lowers("aten.floor_divide")
def floor_divide(ctx: Context) -> Value:
    return rounded_quotient(ctx, "floor")


def rounded_quotient(ctx: Context, mode: str) -> View:
    """A quotient that is rounded: of integers a function of their numbers and their type."""
    both = [ctx.tensor("self"), ctx.tensor("other")]
    name = "floor_divide(%, %)" if mode == "floor" else f"div(%, %, rounding_mode={mode!r})"
    return ctx.elementwise(f"{name}{kinds(ctx)}", both)[0]


def integer_pair(ctx: Context, out: View, op: str, a: View, b: View) -> None:
    """Notes `op` for the vocabulary lemma where it works on whole bases as they are."""
    if (
        a.dims == b.dims
        and a.base.shape == b.base.shape == out.base.shape
        and a.scale == b.scale == ONE
    ):
        ctx.side.integers.pairs.append((out.base, op, a.base, b.base))


@lowers("aten.bitwise_and", "aten.logical_and", "aten.bitwise_or", "aten.logical_or")
def boolean(ctx: Context) -> Value:
    a, b = ctx.tensor("self"), ctx.tensor("other")
    op = "and" if "and" in ctx.node.target else "or"
    if any(ctx.dtype(name) != "bool" for name in ("self", "other")):
        name = ctx.node.target.rpartition(".")[0]
        return ctx.elementwise(f"{name.split('.')[-1]}(%, %){kinds(ctx)}", [a, b])[0]
    out = ctx.elementwise(f"logical_{op}", [a, b])[0]
    integer_pair(ctx, out, op, a, b)
    return out


@lowers("aten.bitwise_not", "aten.logical_not")
def invert(ctx: Context) -> Value:
    x = ctx.tensor("self")
    if ctx.dtype("self") != "bool":
        name = ctx.node.target.rpartition(".")[0]
        return ctx.elementwise(f"{name.split('.')[-1]}(%){kinds(ctx)}", [x])[0]
    return inverted(ctx, x)


def inverted(ctx: Context, x: View) -> View:
    """Where a mask is not true."""
    out = ctx.elementwise("logical_not", [x])[0]
    ctx.side.truths.add(out.base)
    if x.scale == ONE:
        ctx.side.integers.nots.append((out.base, x.base))
    return out


COMPARISONS = {"lt": ("lt", 0), "le": ("lt", 1), "ge": ("ge", 0), "gt": ("ge", 1)}


@lowers("aten.lt", "aten.le", "aten.ge", "aten.gt")
def compare(ctx: Context) -> Value:
    name = ctx.node.target.split(".")[1]
    dtype = ctx.dtype("self")
    x, bound = valued(ctx, ctx.tensor("self")), ctx.argument("other")
    out = ctx.elementwise(name, [x, ctx.tensor("other")])[0]
    plain = out.base.shape == x.base.shape and x.scale == ONE
    whole = type(bound) is int and abs(bound) < 2**30
    if plain and whole and dtype in ("", *PLAIN_IDS):
        kind, more = COMPARISONS[name]
        ctx.side.integers.tests.append((out.base, x.base, kind, bound + more))
    return out


# ---- reductions
def count(elements: int) -> Scale:
    """A number of elements as a coefficient."""
    if is_symbolic(elements):
        raise Unsupported("a number of elements that depends on data")
    return scale(elements)


def reduced(ctx: Context, x: View, dims: Sequence[int], kind: str, keep: bool) -> View:
    """Dimensions ``dims`` added up (or their maximum taken)."""
    letters = [str(i) for i in range(len(x.dims))]
    gone = {str(i) for i in dims}

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return (kind, kind) if letter in gone else ("e", "parallel")

    kept = [n for n in letters if n not in gone]
    dtype = ctx.node.dtype or ""
    found = None
    if kind == "sum" and is_integer(dtype):
        found = repeated(interval(x, dtype), prod(x.shape[i] for i in dims))
        x = arithmetic(ctx, [x], dtype, found)[0]
    elif kind != "sum":
        x = single(ctx, x, dtype)
    if kind == "sum" and (total := _by_member(ctx, x, dims, keep)) is not None:
        return total
    inside = piece_of(ctx, x) if kind == "sum" else None
    if inside is not None and inside[1] in dims:
        return reduced(ctx, inside[0], dims, kind, keep)
    copies = prod(d.extent for i in dims for d in x.dims[i] if d.dim < 0)
    if kind == "sum":
        body, after = View(x.base, x.dims), x.scale * count(copies)
    else:
        body, after = x, ONE
    if all(d.dim < 0 for i in dims for d in x.dims[i]):
        out = View(body.base, tuple(d for i, d in enumerate(x.dims) if i not in dims), body.scale)
    else:
        out = ctx.apply(
            kind,
            [(body, letters)],
            [kept],
            naming,
            linear=(0,) if kind == "sum" else (),
            passes=() if kind == "sum" else ((0, kind),),
            formal=True,
        )[0]
        if found is not None and not out.base.ring:
            learn(out, repeated(interval(body, dtype), prod(x.shape[i] for i in dims)))
    out = out.scaled(after)
    for dim in sorted(dims) if keep else ():
        out = out.unsqueezed(dim)
    return out


def _by_member(ctx: Context, x: View, dims: Sequence[int], keep: bool) -> View | None:
    """The sum over a concatenation of one rank's tensors: what its members add up to."""
    made = x.base.made
    if not isinstance(made, Concat) or not made.local:
        return None
    over = [i for i in dims if [d.dim for d in x.dims[i]] == [made.dim]]
    if not over or x.shape[over[0]] != x.base.shape[made.dim]:
        return None
    parts = [
        ctx.side.slice(x, over[0], offset, member.shape[made.dim])
        for member, offset in made.members
    ]
    if any(part is None or part.base is x.base for part in parts):
        return None
    sums = [reduced(ctx, part, dims, "sum", keep) for part in parts if part is not None]
    return added(ctx, [(one, ONE) for one in sums])


def summand(ctx: Context, *names: str, cut: bool = False) -> View:
    """What a reduction takes: elements are cast to the type of the result first. A reduction that
    is ``cut`` to another type afterwards is not described."""
    before, after = ctx.dtype(*names), ctx.node.dtype or ""
    if after == "bool" and before != "bool":
        raise Unsupported(f"its elements are cut from {before} to {after}")
    if cut and before and after and is_float(before) != is_float(after):
        raise Unsupported(f"its result is cut from {before} to {after}")
    return ctx.operand(*names)


def reduction(ctx: Context, kind: str) -> tuple[View, int]:
    """The reduction at hand, and over how many elements."""
    if kind == "sum" and ctx.node.dtype == "bool":
        raise Unsupported("a sum of truth values")
    x = summand(ctx, "self")
    dims = ctx.dims(len(x.dims), "dim")
    keep = bool(ctx.argument("keepdim", default=False))
    return reduced(ctx, x, dims, kind, keep), prod(x.shape[i] for i in dims)


@lowers("aten.sum", "hlo.reduce_add")
def sum_(ctx: Context) -> Value:
    return reduction(ctx, "sum")[0]


@lowers("aten.mean")
def mean(ctx: Context) -> Value:
    if is_integer(ctx.node.dtype or ""):
        raise Unsupported("a mean of integers")
    out, over = reduction(ctx, "sum")
    return out.scaled(count(over).inverse())


@lowers("aten.amax", "hlo.reduce_max")
def amax(ctx: Context) -> Value:
    return reduction(ctx, "max")[0]


@lowers("aten.amin", "hlo.reduce_min")
def amin(ctx: Context) -> Value:
    return reduction(ctx, "min")[0]


@lowers("aten.max", "aten.min")
def extremum(ctx: Context) -> Value:
    kind = ctx.node.target.split(".")[1]
    if ctx.node.target.endswith((".default", ".unary_out")):
        return reduction(ctx, kind)[0]
    if "other" in ctx.node.bound:
        both = [ctx.operand("self"), ctx.operand("other")]
        return ctx.elementwise(f"{kind}imum", both)[0]
    x = single(ctx, ctx.tensor("self"), ctx.dtype("self"))
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    keep = bool(ctx.argument("keepdim", default=False))
    return (reduced(ctx, x, [dim], kind, keep), arg_extremum(ctx, kind))


@lowers("aten.argmax", "aten.argmin")
def argument_of(ctx: Context) -> Value:
    return arg_extremum(ctx, ctx.node.target.split(".")[1][3:])


def arg_extremum(ctx: Context, kind: str) -> View:
    """Where the maximum lies: the dimension may not be cut."""
    x = single(ctx, ctx.tensor("self"), ctx.dtype("self"))
    if ctx.argument("dim") is None:
        raise Unsupported("the index of a maximum over all dimensions")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    keep = bool(ctx.argument("keepdim", default=False))
    if x.shape[dim] == 1:  # there is one position only
        shape = [e for i, e in enumerate(x.shape) if keep or i != dim]
        return need(ctx.side.constant(scale(0)).expanded(shape))
    letters = [str(i) for i in range(len(x.dims))]
    kept = [n for i, n in enumerate(letters) if i != dim]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return ("w", "whole") if letter == str(dim) else ("e", "parallel")

    out = ctx.apply(f"arg{kind}", [(x, letters)], [kept], naming)[0]
    learn(out, (0, x.shape[dim] - 1))
    return out.unsqueezed(dim) if keep else out


@lowers("aten._softmax", "aten.softmax")
def softmax(ctx: Context) -> Value:
    x = summand(ctx, "self")
    if not is_float(ctx.node.dtype or "float"):
        raise Unsupported("a softmax that is no float")
    ctx.raw("half_to_float")  # the dtype of the result says it
    return ctx.elementwise("softmax", [x], whole=(ctx.dim(ctx.argument("dim"), len(x.dims)),))[0]


@lowers("aten.cumsum")
def cumsum(ctx: Context) -> Value:
    x = summand(ctx, "self")
    dtype = ctx.node.dtype or ""
    if dtype == "bool":
        raise Unsupported("a sum of truth values")
    dim = ctx.dim(ctx.argument("dim"), len(x.dims))
    found = None
    if is_integer(dtype):
        found = repeated(interval(x, dtype), x.shape[dim] if x.dims else 1)
        x = arithmetic(ctx, [x], dtype, found)[0]
    out = ctx.elementwise("cumsum", [x], whole=(dim,), linear=(0,), formal=True)[0]
    if found is not None and not out.base.ring:
        learn(out, found)
    return out


@lowers("aten._softmax_backward_data")
def softmax_backward(ctx: Context) -> Value:
    gradient, result = ctx.tensor("grad_output"), ctx.tensor("output")
    name = ctx.node.target.split(".")[1].lstrip("_")
    dim = ctx.dim(ctx.argument("dim"), len(gradient.dims))
    ctx.raw("input_dtype")  # the dtype of the result says it
    if not is_float(ctx.node.dtype or ""):
        raise Unsupported("a gradient that is no float")
    return ctx.elementwise(name, [gradient, result], whole=(dim,), linear=(0,))[0]


@lowers("aten.native_dropout_backward")
def dropout_backward(ctx: Context) -> Value:
    by = ctx.number("scale")
    if by is None:
        raise Unsupported("its scale is not known")
    both = [ctx.operand("grad_output"), ctx.operand("mask")]
    return ctx.elementwise("mul", both, linear=(0, 1))[0].scaled(by)


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
        raise Unsupported("a product with 0")

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
    return view.scaled(by)


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


def piece_of(ctx: Context, x: View) -> tuple[View, int, int] | None:
    """Of a view that is 0 but for a piece: the piece in the same order of dimensions, the dimension
    that it is cut from, and where it starts."""
    found = ctx.side.padded.get(x.base)
    if found is None:
        return None
    piece, dims, dim, start = found
    free = list(range(len(dims)))
    order = []
    for digits in x.dims:
        place = next((k for k in free if dims[k] == digits), None)
        if place is None:
            return None
        free.remove(place)
        order.append(place)
    if free:
        return None
    return piece.permuted(order).scaled(x.scale), order.index(dim), start


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


@lowers("aten.native_dropout", "aten.dropout")
def dropout(ctx: Context) -> Value:
    x = ctx.tensor("input")
    p, train = ctx.argument("p"), ctx.argument("train")
    single = ctx.node.target.startswith("aten.dropout")
    if train is False or p == 0:
        mask = need(ctx.side.constant(scale(1)).expanded(x.shape))
        return x if single else (x, mask)
    if any(d.dim < 0 for dim in x.dims for d in dim):
        raise Unsupported("dropout of a repeated tensor")
    name = ctx.random(f"dropout({p!r})")
    outs = ctx.elementwise(name, [x], results=2, numbered=False)
    return outs[0] if single else tuple(outs)


@lowers("aten.bernoulli")
def bernoulli(ctx: Context) -> Value:
    """A mask drawn in the form of a tensor, as dropout does it on a CPU: of the form alone nothing
    would say which elements of the ranks' mask are which of the sequential one."""
    rate, drawn = ctx.argument("p"), ctx.raw("self")
    made = ctx.graph.nodes.get(drawn.name) if isinstance(drawn, Ref) else None
    like = made is not None and made.target.startswith(("aten.empty_like.", "aten.new_empty."))
    form = ctx.value(made.bound["self"]) if made is not None and like else None
    if not isinstance(rate, float) or not isinstance(form, View):
        raise Unsupported("a draw in the form of no tensor, or by no probability")
    if form.shape != ctx.node.shape or any(d.dim < 0 for dim in form.dims for d in dim):
        raise Unsupported("a draw in another form than that of the tensor it is for")
    name = ctx.random(f"bernoulli({rate!r})")
    return ctx.elementwise(name, [form], numbered=False)[0]


@lowers("aten.where", "hlo.select")
def where(ctx: Context) -> Value:
    from gg_datalog.extract.lower_select import infinite, is_infinite

    mask = ctx.tensor("condition")
    a, b = (
        infinite(ctx, value) if is_infinite(value) else ctx.operand(name)
        for name in ("self", "other")
        for value in [ctx.argument(name)]
    )
    if ctx.side.is_zero(a):
        return masked(ctx, b, mask, scale(0))
    if ctx.side.is_zero(b) and mask.base in ctx.side.truths:
        return masked(ctx, a, inverted(ctx, mask), scale(0))
    views = [stretched(v, broadcast([mask, a, b])) for v in (mask, a, b)]
    return ctx.elementwise("select", views)[0]


@lowers("aten.masked_fill")
def masked_fill(ctx: Context) -> Value:
    from gg_datalog.extract.lower_select import is_infinite, masked_infinite

    x, mask, given = ctx.tensor("self"), ctx.tensor("mask"), ctx.argument("value")
    if is_infinite(given):
        return masked_infinite(ctx, x, mask, given)
    value = ctx.number("value")
    if value is None:
        raise Unsupported("its fill value is not known")
    return masked(ctx, x, mask, value)


def fits(ctx: Context, value: Scale) -> None:
    """:class:`Unsupported` for a number that is cut to the type of the result."""
    dtype = ctx.node.dtype or "float"
    if is_float(dtype) or dtype.startswith("complex"):
        return
    number = value.integer
    room = span(dtype)
    if number is None or (room is not None and not room[0] <= number <= room[1]):
        raise Unsupported(f"a number that is cut to {dtype}")


def masked(ctx: Context, x: View, mask: View, value: Scale) -> View:
    """``value`` where ``mask`` is true, else x."""
    from gg_datalog.extract.lower_index import masked_lookup

    fits(ctx, value)
    if value.zero and x.scale != ONE:  # a factor stays outside, where other forms find it
        return masked(ctx, replace(x, scale=ONE), mask, value).scaled(x.scale)
    shape = broadcast([x, mask])
    x, mask = (stretched(valued(ctx, v), shape) for v in (x, mask))
    out = ctx.elementwise(f"masked_fill({value})", [x, mask], linear=(0,) if value.zero else ())[0]
    same = x.dims == mask.dims and x.base.shape == mask.base.shape == out.base.shape
    if same and x.scale == mask.scale == ONE and value.integer is not None:
        ctx.side.integers.fills.append((out.base, x.base, mask.base, value.integer))
    if value.zero:
        masked_lookup(ctx, out.base, x, mask)
        note_cleared(ctx, out.base)
    return out


def note_cleared(ctx: Context, gives: Base) -> None:
    """Remembers what a tensor was before it was set to 0 under a mask."""
    found = _terms(gives)
    if found is not None:
        ctx.side.cleared[gives] = found


# Functions of the numbers alone, whatever their type.
OF_NUMBERS = frozenset(
    ["clamp", "clamp_max", "clamp_min", "clip", "eq", "ge", "gt", "isinf", "isnan", "le", "lt",
     "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "ne", "relu",
     "sign"]
)  # fmt: skip


def kinds(ctx: Context) -> str:
    """The types of the operands, as a part of the signature, where integers are among them: another
    width is another function."""
    given = ctx.node.signature
    tensors = {p.name for p in given.parameters if p.tensor} if given is not None else None
    found = [
        ctx.dtype_of(value)
        for name, value in ctx.read().items()
        if tensors is None or name in tensors
    ]
    types = ["float" if is_float(dtype) else dtype for dtype in found if dtype]
    integers = [dtype for dtype in types if is_integer(dtype)]
    return f" of {', '.join(types)}" if integers else ""


def _cut(ctx: Context) -> str:
    """Where a result is written into a narrower integer type than that of an operand (in place, or
    into an output that is given), its numbers are cut: the types, as a part of the signature."""
    given = [ctx.dtype_of(value) for value in ctx.read().values()]
    narrower = any(is_integer(d) and not holds_all(ctx.node.dtype or "", d) for d in given)
    return f"{kinds(ctx)} to {ctx.node.dtype}" if narrower else ""


def plain(ctx: Context) -> Value:
    """An elementwise operator of the table, with all its attributes in the signature."""
    views = [v for v in map(ctx.value, ctx.read().values()) if isinstance(v, View)]
    name = ctx.node.target.rpartition(".")[0]
    short = name.split(".")[-1]
    flags = ctx.table.elementwise.get(name, ())
    signature = f"{short}({attributes(ctx)})"
    if not is_float(ctx.node.dtype or "float") and short not in OF_NUMBERS:
        signature += kinds(ctx)
    elif is_integer(ctx.node.dtype or ""):
        signature += _cut(ctx)
    if not views:
        raise Unsupported("no operand is a tensor")
    first = ctx.value(next(iter(ctx.node.bound.values()), None))
    passes = "monotone" in flags
    if not is_float(ctx.node.dtype or "float"):
        passes = passes and all(v.scale == ONE and not v.base.ring for v in views)
    return ctx.elementwise(
        signature,
        views,
        linear=(0,) if "linear" in flags and isinstance(first, View) else (),
        passes=[(i, k) for i in range(len(views)) for k in ("max", "min")] if passes else (),
    )[0]
