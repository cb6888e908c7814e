"""Arithmetic: sums, scalar factors, products, reductions, normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from gg_datalog.extract.context import Context, Unsupported, Value, attributes, lowers
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.graph import Ref, is_symbolic
from gg_datalog.extract.labels import Letters
from gg_datalog.extract.lower_movement import joined, need, stretched
from gg_datalog.extract.records import Concat, Operator
from gg_datalog.extract.scale import ONE, Scale, scale
from gg_datalog.extract.side import _as_term
from gg_datalog.extract.view import Base, Digit, View, broadcast


def added(ctx: Context, terms: Sequence[tuple[View, Scale]]) -> View:
    """The sum of scaled terms, broadcast against each other."""
    views = [v.scaled(s) for v, s in terms if not s.zero and not v.scale.zero]
    shape = broadcast([v for v, _ in terms])
    wide = [stretched(v, shape) for v in views]
    if (whole := unpadded(ctx, wide)) is not None:
        return whole
    if not wide:
        return need(ctx.side.constant(scale(0)).expanded(shape))
    return need(ctx.side.sum(wide, integers=not is_float(ctx.node.dtype or "float")))


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


def written(x: View, by: Scale) -> None:
    """:class:`Unsupported` for 0 times memory that nobody has written: it may hold no number."""
    if by.zero and x.base.kind == "uninitialised":
        raise Unsupported("0 times memory that nobody has written")


def factor(ctx: Context, place: int, name: str) -> Scale:
    """A scalar keyword such as alpha; 1 where it is absent."""
    found = ctx.number(place, name, 1)
    if found is None:
        raise Unsupported(f"`{name}` is not known")
    return found


@lowers("aten.add")
def add(ctx: Context) -> Value:
    if ctx.node.dtype == "bool":
        raise Unsupported("a sum of booleans")
    alpha = factor(ctx, 2, "alpha")
    written(ctx.tensor(1), alpha)
    return added(ctx, [(ctx.tensor(0), ONE), (ctx.tensor(1), alpha)])


@lowers("aten.sub")
def sub(ctx: Context) -> Value:
    alpha = factor(ctx, 2, "alpha") * scale(-1)
    written(ctx.tensor(1), alpha)
    return added(ctx, [(ctx.tensor(0), ONE), (ctx.tensor(1), alpha)])


@lowers("aten.rsub")
def rsub(ctx: Context) -> Value:
    alpha = factor(ctx, 2, "alpha") * scale(-1)
    return added(ctx, [(ctx.tensor(1), ONE), (ctx.tensor(0), alpha)])


@lowers("aten.neg")
def neg(ctx: Context) -> Value:
    return ctx.tensor(0).scaled(scale(-1))


def times(ctx: Context, x: View, by: Scale, shape: Sequence[int]) -> View:
    """A tensor times a scalar, broadcast to ``shape``."""
    wide = stretched(x, shape)
    written(x, by)
    if by.zero or ctx.side.is_zero(x):
        return need(ctx.side.constant(scale(0)).expanded(shape))
    return wide.scaled(by)


@lowers("aten.mul")
def mul(ctx: Context) -> Value:
    a, b = ctx.tensor(0), ctx.tensor(1)
    shape = broadcast([a, b])
    for x, place in ((a, 1), (b, 0)):
        by = ctx.number(place, "other")
        if by is not None:
            return times(ctx, x, by, shape)
    out = ctx.elementwise("mul", [a, b], linear=(0, 1))[0]
    if not is_float(ctx.node.dtype or "float"):
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


@lowers("aten.clamp")
def clamp(ctx: Context) -> Value:
    out = plain(ctx)
    x, bounds = ctx.tensor(0), [ctx.argument(1, "min"), ctx.argument(2, "max")]
    plainly = isinstance(out, View) and out.dims == x.dims and out.base.shape == x.base.shape
    known = all(type(bound) is int and abs(bound) < 2**30 for bound in bounds)
    if plainly and known and x.scale == ONE and not is_float(ctx.node.dtype or "float"):
        ctx.side.integers.clamps.append((out.base, x.base, *bounds))
    return out


@lowers("aten.div", "aten.true_divide")
def div(ctx: Context) -> Value:
    if ctx.argument(9, "rounding_mode") is not None:
        raise Unsupported("a division that rounds")
    a, b = ctx.tensor(0), ctx.tensor(1)
    by = ctx.number(1, "other")
    if by is not None and not by.zero:
        return times(ctx, a, by.inverse(), broadcast([a, b]))
    return ctx.elementwise("div", [a, b], linear=(0,))[0]


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
    a, b = ctx.tensor(0), ctx.tensor(1)
    op = "and" if "and" in ctx.node.target else "or"
    if any(ctx.dtype_of(arg) != "bool" for arg in ctx.node.args[:2]):
        return ctx.elementwise(ctx.node.target, [a, b])[0]
    out = ctx.elementwise(f"logical_{op}", [a, b])[0]
    integer_pair(ctx, out, op, a, b)
    return out


@lowers("aten.bitwise_not", "aten.logical_not")
def invert(ctx: Context) -> Value:
    x = ctx.tensor(0)
    if ctx.dtype_of(ctx.node.args[0]) != "bool":
        return ctx.elementwise(ctx.node.target, [x])[0]
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
    x, bound = ctx.tensor(0), ctx.argument(1, "other")
    out = ctx.elementwise(name, [x, ctx.tensor(1)])[0]
    plain = out.base.shape == x.base.shape and x.scale == ONE
    whole = isinstance(bound, int) and abs(bound) < 2**30
    if plain and whole and not is_float(ctx.dtype_of(ctx.node.args[0]) or "float"):
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
    if kind == "sum" and (total := _by_member(ctx, x, dims, keep)) is not None:
        return total
    inside = piece_of(ctx, x) if kind == "sum" else None
    if inside is not None and inside[1] in dims:
        return reduced(ctx, inside[0], dims, kind, keep)
    repeated = prod(d.extent for i in dims for d in x.dims[i] if d.dim < 0)
    if kind == "sum":
        body, after = View(x.base, x.dims), x.scale * count(repeated)
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
        )[0]
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


def keeps_values(ctx: Context, adds: bool) -> None:
    """:class:`Unsupported` where elements are cut to the type of the result."""
    before, after = ctx.dtype_of(ctx.node.args[0]), ctx.node.dtype or ""
    same = before == after != "bool" or (is_float(before) and is_float(after))
    if not before or not after or same:
        return
    if before.startswith("complex") or (is_float(before) and not is_float(after)):
        raise Unsupported(f"its elements are cut from {before} to {after}")
    if adds and not is_float(after) and after != "int64":
        raise Unsupported(f"a sum in {after}")


def reduction(ctx: Context, kind: str) -> tuple[View, int]:
    """The reduction at hand, and over how many elements."""
    x = ctx.tensor(0)
    keeps_values(ctx, kind == "sum")
    whole = ctx.node.target.endswith(".default") and len(ctx.node.args) < 2
    whole = whole and "dim" not in ctx.node.kwargs
    dims = tuple(range(len(x.dims))) if whole else ctx.dims(1, "dim", len(x.dims))
    keep = bool(ctx.argument(2, "keepdim", False))
    return reduced(ctx, x, dims, kind, keep), prod(x.shape[i] for i in dims)


@lowers("aten.sum", "hlo.reduce_add")
def sum_(ctx: Context) -> Value:
    return reduction(ctx, "sum")[0]


@lowers("aten.mean")
def mean(ctx: Context) -> Value:
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
    if ctx.node.target.endswith(".default"):
        return reduction(ctx, kind)[0]
    if ctx.node.target.endswith(".other"):
        return ctx.elementwise(f"{kind}imum", [ctx.tensor(0), ctx.tensor(1)])[0]
    return (reduction(ctx, kind)[0], arg_extremum(ctx, kind))


@lowers("aten.argmax", "aten.argmin")
def argument_of(ctx: Context) -> Value:
    return arg_extremum(ctx, ctx.node.target.split(".")[1][3:])


def arg_extremum(ctx: Context, kind: str) -> View:
    """Where the maximum lies: the dimension may not be cut."""
    x = ctx.tensor(0)
    if ctx.argument(1, "dim") is None:
        raise Unsupported("the index of a maximum over all dimensions")
    dim = ctx.dim(ctx.argument(1, "dim"), len(x.dims))
    keep = bool(ctx.argument(2, "keepdim", False))
    if x.shape[dim] == 1:  # there is one position only
        shape = [e for i, e in enumerate(x.shape) if keep or i != dim]
        return need(ctx.side.constant(scale(0)).expanded(shape))
    letters = [str(i) for i in range(len(x.dims))]
    kept = [n for i, n in enumerate(letters) if i != dim]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return ("w", "whole") if letter == str(dim) else ("e", "parallel")

    out = ctx.apply(f"arg{kind}", [(x, letters)], [kept], naming)[0]
    return out.unsqueezed(dim) if keep else out


@lowers("aten._softmax", "aten.softmax", "aten.cumsum")
def along(ctx: Context) -> Value:
    x = ctx.tensor(0)
    name = ctx.node.target.split(".")[1].lstrip("_")
    dim = ctx.dim(ctx.argument(1, "dim"), len(x.dims))
    keeps_values(ctx, adds=name == "cumsum")
    return ctx.elementwise(name, [x], whole=(dim,), linear=(0,) if name == "cumsum" else ())[0]


@lowers("aten._softmax_backward_data")
def softmax_backward(ctx: Context) -> Value:
    gradient, result = ctx.tensor(0, "grad_output"), ctx.tensor(1, "output")
    name = ctx.node.target.split(".")[1].lstrip("_")
    dim = ctx.dim(ctx.argument(2, "dim"), len(gradient.dims))
    ctx.consumed.add("input_dtype")
    if not is_float(ctx.node.dtype or ""):
        raise Unsupported("a gradient that is no float")
    return ctx.elementwise(name, [gradient, result], whole=(dim,), linear=(0,))[0]


@lowers("aten.native_dropout_backward")
def dropout_backward(ctx: Context) -> Value:
    by = ctx.number(2, "scale")
    if by is None:
        raise Unsupported("its scale is not known")
    both = [ctx.tensor(0, "grad_output"), ctx.tensor(1, "mask")]
    return ctx.elementwise("mul", both, linear=(0, 1))[0].scaled(by)


# ---- contractions
def contract(ctx: Context, a: View, la: Letters, b: View, lb: Letters, out: Letters) -> View:
    """The product of two tensors, added up over the letters that the result does not have."""
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
    view = ctx.apply("contract", refined, [out], naming, linear=(0, 1))[0]
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
    if len(ctx.node.args) > 2:
        raise ValueError("more than two operands")
    return product(ctx, ctx.tensor(0), ctx.tensor(1))


def product(ctx: Context, a: View, b: View) -> View:
    """A matrix product with broadcast batch dimensions."""
    batch = [f"n{i}" for i in range(max(len(a.dims), len(b.dims)) - 2)]
    la = [*batch[len(batch) - len(a.dims) + 2 :], "i", "k"] if len(a.dims) > 1 else ["k"]
    lb = [*batch[len(batch) - len(b.dims) + 2 :], "k", "j"] if len(b.dims) > 1 else ["k"]
    out = [*batch, *(["i"] if len(a.dims) > 1 else []), *(["j"] if len(b.dims) > 1 else [])]
    return contract(ctx, a, la, b, lb, out)


@lowers("aten.addmm")
def addmm(ctx: Context) -> Value:
    beta, alpha = factor(ctx, 3, "beta"), factor(ctx, 4, "alpha")
    return added(ctx, [(product(ctx, ctx.tensor(1), ctx.tensor(2)), alpha), (ctx.tensor(0), beta)])


@lowers("aten.baddbmm")
def baddbmm(ctx: Context) -> Value:
    beta, alpha = factor(ctx, 3, "beta"), factor(ctx, 4, "alpha")
    made = product(ctx, ctx.tensor(1), ctx.tensor(2))
    return made.scaled(alpha) if beta.zero else added(ctx, [(made, alpha), (ctx.tensor(0), beta)])


@lowers("aten.linear")
def linear(ctx: Context) -> Value:
    x, w = ctx.tensor(0), ctx.tensor(1)
    letters = [str(i) for i in range(len(x.dims) - 1)]
    made = contract(ctx, x, [*letters, "k"], w, ["j", "k"], [*letters, "j"])
    bias: Any = ctx.argument(2, "bias")
    return made if bias is None else added(ctx, [(made, ONE), (ctx.tensor(2), ONE)])


@lowers("hlo.dot")
def hlo_dot(ctx: Context) -> Value:
    a, b = ctx.tensor(0), ctx.tensor(1)
    lists = [ctx.argument(i, "") or () for i in (2, 3, 4, 5)]
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
    x = ctx.tensor(0)
    p, train = ctx.argument(1, "p"), ctx.argument(2, "train")
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
    rate, drawn = ctx.argument(1, "p"), ctx.node.args[0] if ctx.node.args else None
    made = ctx.graph.nodes.get(drawn.name) if isinstance(drawn, Ref) else None
    like = made is not None and made.target.startswith(("aten.empty_like.", "aten.new_empty."))
    form = ctx.value(made.args[0]) if made is not None and like and made.args else None
    if not isinstance(rate, float) or not isinstance(form, View):
        raise Unsupported("a draw in the form of no tensor, or by no probability")
    if form.shape != ctx.node.shape or any(d.dim < 0 for dim in form.dims for d in dim):
        raise Unsupported("a draw in another form than that of the tensor it is for")
    name = ctx.random(f"bernoulli({rate!r})")
    return ctx.elementwise(name, [form], numbered=False)[0]


@lowers("aten.where", "hlo.select")
def where(ctx: Context) -> Value:
    from gg_datalog.extract.lower_select import infinite, is_infinite

    given = [ctx.argument(place, "") for place in (1, 2)]
    mask = ctx.tensor(0)
    a, b = (
        infinite(ctx, value) if is_infinite(value) else ctx.tensor(place)
        for place, value in enumerate(given, 1)
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

    given = ctx.argument(2, "value")
    if is_infinite(given):
        return masked_infinite(ctx, ctx.tensor(0), ctx.tensor(1), given)
    value = ctx.number(2, "value")
    if value is None:
        raise Unsupported("its fill value is not known")
    return masked(ctx, ctx.tensor(0), ctx.tensor(1), value)


def fits(ctx: Context, value: Scale) -> None:
    """:class:`Unsupported` for a number that is cut to the type of the result."""
    dtype = ctx.node.dtype or "float"
    kept = is_float(dtype) or dtype.startswith("complex") or value.integer is not None
    if not kept or (dtype == "bool" and value.integer not in (0, 1)):
        raise Unsupported(f"a number that is cut to {dtype}")


def masked(ctx: Context, x: View, mask: View, value: Scale) -> View:
    """``value`` where ``mask`` is true, else x."""
    from gg_datalog.extract.lower_index import masked_lookup

    fits(ctx, value)
    if value.zero and x.scale != ONE:  # a factor stays outside, where other forms find it
        return masked(ctx, replace(x, scale=ONE), mask, value).scaled(x.scale)
    shape = broadcast([x, mask])
    x, mask = (stretched(v, shape) for v in (x, mask))
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


def plain(ctx: Context) -> Value:
    """An elementwise operator of the table, with all its attributes in the signature."""
    views = [v for v in map(ctx.value, ctx.node.args) if isinstance(v, View)]
    keywords = [ctx.value(a) for _, a in sorted(ctx.node.kwargs.items())]
    views += [v for v in keywords if isinstance(v, View)]
    name = ctx.node.target.rpartition(".")[0]
    flags = ctx.table.elementwise[name]
    signature = f"{name.split('.')[-1]}({attributes(ctx)})"
    if not views:
        raise Unsupported("no operand is a tensor")
    first = ctx.value(ctx.node.args[0]) if ctx.node.args else None
    return ctx.elementwise(
        signature,
        views,
        linear=(0,) if "linear" in flags and isinstance(first, View) else (),
        passes=((0, "max"), (0, "min")) if "monotone" in flags and len(views) == 1 else (),
    )[0]
