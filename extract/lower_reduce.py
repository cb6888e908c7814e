"""Lowering of reductions: sums, means, extrema."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gg_datalog.extract.context import Context, Unsupported, Value, count, lowers
from gg_datalog.extract.dtypes import (
    arithmetic,
    interval,
    is_float,
    is_integer,
    learn,
    repeated,
    single,
)
from gg_datalog.extract.exponent_rules import (
    over_dims,
)
from gg_datalog.extract.exponents import (
    also_sum,
    leaves,
    repeats,
    written_terms,
)
from gg_datalog.extract.graph import is_symbolic
from gg_datalog.extract.lower_contract import piece_of
from gg_datalog.extract.lower_math import added
from gg_datalog.extract.lower_movement import zeros_of
from gg_datalog.extract.pieces import MOST, boxes, flattened, spans_of
from gg_datalog.extract.records import Concat, Operator
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.stacks import members_of
from gg_datalog.extract.tabulated import chosen
from gg_datalog.extract.view import View


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
    if (total := _by_member(ctx, x, dims, kind, keep)) is not None:
        return total
    if not is_integer(dtype) and (total := _of_stack(ctx, x, dims, kind, keep)) is not None:
        return total
    if kind == "sum" and (total := _by_piece(ctx, x, dims, keep)) is not None:
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
        every = kind == "sum" and len(dims) == len(x.dims) and not is_integer(dtype)
        flat = _element_by_element(ctx, x) if every else None
        out = ctx.apply(
            kind,
            [(body, letters)],
            [kept],
            naming,
            linear=(0,) if kind == "sum" else (),
            passes=() if kind == "sum" else ((0, kind),),
            formal=True,
        )[0]
        if flat is not None and flat.base is not out.base:
            ctx.side.alternative(out, flat)
        if found is not None and not out.base.ring:
            learn(out, repeated(interval(body, dtype), prod(x.shape[i] for i in dims)))
    out = out.scaled(after)
    if kind == "sum" and len(dims) == len(x.dims) and not is_integer(dtype):
        _term_by_term(ctx, out, x)
    if kind == "sum" and found is None:
        out = over_dims(
            ctx, out, [(x, letters)], kept, lambda of: reduced(ctx, of[0], dims, "sum", False)
        )
        if ctx.side.exponentials and x.base in ctx.side.notes.summed:
            _constants_apart(ctx, out, x, dims)
    for dim in sorted(dims) if keep else ():
        out = out.unsqueezed(dim)
    return out


def _constants_apart(ctx: Context, made: View, x: View, dims: Sequence[int]) -> None:
    """Notes the sum of a logarithm of softmax as that of the scores, less as many times the
    logarithm of all their exponentials (label smoothing)."""
    terms = leaves(ctx, x)
    same = [all(repeats(t.dims[i]) for i in dims) for t in terms]
    apart = [t for t, constant in zip(terms, same, strict=True) if not constant]
    if len(apart) != 1 or not any(same) or x.scale.zero:
        return
    rows = [reduced(ctx, apart[0], dims, "sum", False)]
    many = count(prod(x.shape[i] for i in dims))
    for term, constant in zip(terms, same, strict=True):
        if constant:
            left = tuple(dim for i, dim in enumerate(term.dims) if i not in dims)
            rows.append(View(term.base, left, term.scale * many))
    also_sum(ctx, made, rows)


def _element_by_element(ctx: Context, x: View) -> View | None:
    """The sequential sum of all elements as one over the flattened tensor, with one label for all
    of it as another form: a shard of a flat buffer may begin within a row."""
    if ctx.side.name != "seq" or len(x.dims) < 2:
        return None
    if any(d.dim < 0 for dim in x.dims for d in dim) or any(map(is_symbolic, x.shape)):
        return None
    flat = View(x.base, x.dims).reshaped([prod(x.shape)])
    if flat is None:
        return None

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return "sum", "sum"

    return ctx.apply("sum", [(flat, ["0"])], [[]], naming, linear=(0,), formal=True)[0]


def _term_by_term(ctx: Context, made: View, x: View) -> None:
    """Notes that the sum of all elements of a sum is what its terms add up to, as a loss of several
    parts is put together before or after its mean."""
    terms = written_terms(x, deep=False)
    if len(terms) < 2 or made.scale.zero:
        return
    rows = [reduced(ctx, term, range(len(x.dims)), "sum", False) for term in terms]
    also_sum(ctx, made, rows, known=False)


def _by_member(ctx: Context, x: View, dims: Sequence[int], kind: str, keep: bool) -> View | None:
    """The sum over a concatenation of one rank's tensors: what its members add up to; the largest
    of all is that of the largest of each."""
    parts = members(ctx, x, dims)
    if len(parts) == 1:
        return None
    found = [reduced(ctx, part, dims, kind, keep) for part in parts]
    if kind == "sum":
        return added(ctx, [(one, ONE) for one in found])
    return ctx.side.sum(found, kind) if all(one.scale == ONE for one in found) else None


def members(ctx: Context, x: View, dims: Sequence[int]) -> list[View]:
    """What one rank puts together along one of some dimensions; the tensor itself where it does
    not."""
    made = x.base.made
    if not isinstance(made, Concat) or not made.local:
        return [x]
    over = [i for i in dims if [d.dim for d in x.dims[i]] == [made.dim]]
    if not over or x.shape[over[0]] != x.base.shape[made.dim]:
        return [x]
    parts = [
        ctx.side.slice(x, over[0], offset, member.shape[made.dim])
        for member, offset in made.members
    ]
    found = [part for part in parts if part is not None and part.base is not x.base]
    return found if len(found) == len(parts) else [x]


def _of_stack(ctx: Context, x: View, dims: Sequence[int], kind: str, keep: bool) -> View | None:
    """A sum, or an extremum, over a stack is that of its members."""
    parts = members_of(ctx.side, x, dims)
    if parts is None:
        return None
    each = [reduced(ctx, part, dims, kind, keep) for part in parts]
    return added(ctx, [(v, ONE) for v in each]) if kind == "sum" else ctx.side.sum(each, kind)


def _by_piece(ctx: Context, x: View, dims: Sequence[int], keep: bool) -> View | None:
    """The sum over all of a flat buffer with zeros among its pieces: what the others add up to."""
    made = x.base.made
    if keep or len(dims) < len(x.dims) or not isinstance(made, Operator):
        return None
    if not made.signature.startswith("cat(") or x.base not in ctx.side.notes.pieces:
        return None
    spans, local = spans_of(ctx.side, flattened(x))
    kept = [span for span in spans if not ctx.side.is_zero(span.of)]
    inside = [boxes(ctx.side, span) for span in kept]
    if not local or not kept or len(kept) == len(spans) or not len(kept) <= MOST:
        return None
    views = [box for row in inside for box in row or ()]
    if any(row is None for row in inside) or any(view.base is x.base for view in views):
        return None
    sums = [reduced(ctx, flattened(view), [0], "sum", False) for view in views]
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
        return zeros_of(ctx, shape)
    letters = [str(i) for i in range(len(x.dims))]
    kept = [n for i, n in enumerate(letters) if i != dim]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return ("w", "whole") if letter == str(dim) else ("e", "parallel")

    out = ctx.apply(f"arg{kind}", [(x, letters)], [kept], naming)[0]
    learn(out, (0, x.shape[dim] - 1))
    chosen(ctx, out, x.shape[dim])
    return out.unsqueezed(dim) if keep else out


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
