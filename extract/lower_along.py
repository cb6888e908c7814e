"""Operators that look along a dimension, which is whole on every rank: scans, turned and shifted
dimensions, products, chosen positions, variances."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.extract.context import Context, Unsupported, Value, lowers
from gg_datalog.extract.dtypes import is_float, single
from gg_datalog.extract.lower_math import kinds
from gg_datalog.extract.lower_norms import variance_of
from gg_datalog.extract.lower_reduce import summand
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.view import View

EXTREMA = ((0, "max"), (0, "min"))
ALONG = " along"  # in signatures: what torch calls so takes the dimension as well


def _dim(ctx: Context, x: View) -> int:
    if not x.dims:
        raise Unsupported("a tensor without dimensions")
    return ctx.dim(ctx.argument("dim"), len(x.dims))


# ---- the elements in another order
def _moved(ctx: Context, name: str, x: View, dims: Sequence[int]) -> View:
    """What is linear, and leaves every element what it is; formal integers stay formal."""
    return ctx.elementwise(name, [x], dims, (0,), _ordered(ctx, x), formal=True)[0]


def _ordered(ctx: Context, x: View) -> Sequence[tuple[int, str]]:
    """Open maxima pass where nothing but the elements themselves decides: of formal integers the
    largest is not the one with the largest remainder."""
    plain = not x.base.ring and (is_float(ctx.node.dtype or "float") or x.scale == ONE)
    return EXTREMA if plain else ()


@lowers("aten.flip")
def flip(ctx: Context) -> Value:
    x = ctx.tensor("self")
    dims = sorted(ctx.dim(d, len(x.dims)) for d in ctx.sizes("dims"))
    return _moved(ctx, f"flip{ALONG}", x, dims) if dims else x


@lowers("aten.roll")
def roll(ctx: Context) -> Value:
    x, shifts = ctx.tensor("self"), ctx.sizes("shifts")
    dims = [ctx.dim(d, len(x.dims)) for d in ctx.sizes("dims")]
    if len(dims) != len(shifts) or len(set(dims)) != len(dims):
        raise Unsupported("it rolls a tensor without regard to its dimensions")
    by = [shift for _, shift in sorted(zip(dims, shifts, strict=True))]
    return _moved(ctx, f"roll{ALONG}({by})", x, sorted(dims))


@lowers("aten.index_fill")
def index_fill(ctx: Context) -> Value:
    """A number at some positions of a dimension: all of the dimension is there."""
    x, ids = ctx.tensor("self"), ctx.tensor("index")
    value = ctx.argument("value")
    if not isinstance(value, (int, float)) or not x.dims or len(ids.dims) != 1:
        raise Unsupported("what is filled in is not known")
    letters = [str(i) for i in range(len(x.dims))]
    dim = str(_dim(ctx, x))

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return ("e", "parallel") if letter in letters and letter != dim else (letter, "whole")

    name = f"index_fill{ALONG}({value!r}) of {len(letters) - int(dim)}{_typed(ctx)}"
    x = single(ctx, x, ctx.dtype("self"))
    operands = [(x, letters), (ids, ["t"])]
    return ctx.apply(name, operands, [letters], naming, passes=_ordered(ctx, x))[0]


@lowers("aten.bucketize")
def bucketize(ctx: Context) -> Value:
    """Between which of all boundaries a number lies."""
    x, ends = (single(ctx, ctx.tensor(n), ctx.dtype(n)) for n in ("self", "boundaries"))
    letters = [str(i) for i in range(len(x.dims))]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return ("b", "whole") if letter == "b" else ("e", "parallel")

    ctx.raw("out_int32")  # the dtype of the result says it
    name = f"bucketize{ALONG}({bool(ctx.argument('right', default=False))})"
    return ctx.apply(name, [(x, letters), (ends, ["b"])], [letters], naming)[0]


# ---- scans
@lowers("aten.cummax", "aten.cummin")
def extrema(ctx: Context) -> Value:
    name = ctx.node.target.split(".")[1] + ALONG
    x = single(ctx, ctx.tensor("self"), ctx.dtype("self"))
    return tuple(ctx.elementwise(name, [x], (_dim(ctx, x),), results=2))


@lowers("aten.cumprod", "aten.logcumsumexp", "aten._safe_softmax")
def scan(ctx: Context) -> Value:
    x = summand(ctx, "self")
    name = f"{ctx.node.target.split('.')[1]}{ALONG}{_typed(ctx)}"
    return ctx.elementwise(name, [x], (_dim(ctx, x),))[0]


def _typed(ctx: Context) -> str:
    """The types, where numbers are computed modulo the width of one of them."""
    integers = not is_float(ctx.node.dtype or "float")
    return f"{kinds(ctx)} to {ctx.node.dtype}" if integers else ""


# ---- results without the dimension
def _without(
    ctx: Context, name: str, x: View, dims: Sequence[int], results: int
) -> tuple[View, ...]:
    """Functions of all positions of ``dims``; of one position, with ``keepdim``, they stay."""
    keep = bool(ctx.argument("keepdim", default=False))
    letters = [str(i) for i in range(len(x.dims))]
    kept = [n for i, n in enumerate(letters) if i not in dims]
    gone = {str(i) for i in dims}

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return (f"w{letter}", "whole") if letter in gone else ("e", "parallel")

    found = ctx.apply(name, [(x, letters)], [kept] * results, naming)
    for dim in sorted(dims) if keep else ():
        found = [out.unsqueezed(dim) for out in found]
    return tuple(found)


@lowers("aten.kthvalue", "aten.mode", "aten.median", "aten.nanmedian")
def chosen(ctx: Context) -> Value:
    """One position of a dimension: its value, and where it is."""
    name = ctx.node.target.split(".")[1]
    if ctx.node.target.endswith(".default") and name.endswith("median"):
        raise Unsupported("a median of all elements")
    x = single(ctx, ctx.tensor("self"), ctx.dtype("self"))
    dim = ctx.argument("dim", default=-1)
    if not x.dims:
        raise Unsupported("a tensor without dimensions")
    which = f"({ctx.argument('k')})" if name == "kthvalue" else ""
    return _without(ctx, f"{name}{ALONG}{which}", x, (ctx.dim(dim, len(x.dims)),), 2)


@lowers("aten.prod")
def product(ctx: Context) -> Value:
    x = summand(ctx, "self")
    dims = ctx.dims(len(x.dims), "dim") if "dim" in ctx.node.bound else range(len(x.dims))
    return _without(ctx, f"prod{ALONG}{_typed(ctx)}", x, tuple(dims), 1)[0]


@lowers("aten.var", "aten.std", "aten.var_mean", "aten.std_mean")
def variance(ctx: Context) -> Value:
    name, overload = ctx.node.target.split(".")[1:]
    x = ctx.tensor("self")
    if overload != "correction" or not x.dims:
        raise Unsupported("its divisor is not known")
    less = ctx.argument("correction")
    text = f"{name}{ALONG}({float(1 if less is None else less)})"
    results = 2 if name.endswith("_mean") else 1
    dims = ctx.dims(len(x.dims), "dim")
    found = _without(ctx, text, x, dims, results)
    if name == "var" and (told := variance_of(ctx, x, dims, 1 if less is None else less)):
        for dim in sorted(dims) if ctx.argument("keepdim", default=False) else ():
            told = told.unsqueezed(dim)
        return told
    return found if results > 1 else found[0]
